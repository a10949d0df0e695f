//! The known name that a misspelt one was meant to be.

/// The known word that the fewest edits turn `word` into, if it is near enough to have been meant. Two letters the wrong
/// way round are one edit. Of two equally near ones the first.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near_enough = (word.chars().count() / 3).max(2);
    let measured = known.into_iter().map(|name| (strsim::osa_distance(word, name), name));
    measured.min_by_key(|(edits, _)| *edits).filter(|(edits, _)| *edits <= near_enough).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_word_suggests_nothing() {
        assert_eq!(nearest("server.drian", ["server.listen", "server.drain"]), Some("server.drain"));
        assert_eq!(nearest("kafka.topic", ["server.listen", "server.drain"]), None);
        assert_eq!(nearest("x", []), None);
    }
}
