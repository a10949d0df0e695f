//! The nearest known word to a misspelt one.

/// The known word that the fewest edits turn `word` into, if it is near enough to have been meant.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let near_enough = (word.chars().count() / 3).max(2);
    let measured = known.iter().map(|name| (distance(word, name), *name));
    measured.min_by_key(|(edits, _)| *edits).filter(|(edits, _)| *edits <= near_enough).map(|(_, name)| name)
}

/// How many letters must be put in, taken out or replaced.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (done, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = done + 1;
        for (at, wanted) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *wanted);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(row[at + 1] + 1);
        }
    }
    row[to.len()]
}
