//! Ids that are cut to their end: `…3c9e01` or `3c9e01` stands for the one execution whose id ends so.

use super::Remote;
use super::page::{PAGE_MAX, walk};
use crate::fault::{Code, Fault};
use anyhow::Result;
use std::collections::BTreeMap;
use weft_api::execution::ListQuery;

/// Executions that are looked through for an end, the newest first.
const LOOKED_MAX: usize = 20 * PAGE_MAX as usize;

/// Fewer letters would name too many.
const LETTERS_MIN: usize = 4;

/// Candidates that an error names.
const CANDIDATES_MAX: usize = 5;

/// The ids that are meant, in order. A whole id is taken as it is and not looked for.
pub async fn names(remote: &Remote, given: &[String]) -> Result<Vec<String>> {
    // Ids have small letters; whoever writes large ones means the same.
    let given: Vec<String> = given.iter().map(|text| text.to_lowercase()).collect();
    let mut ends: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for text in given.iter().filter(|text| !is_whole(text)) {
        ends.entry(end_of(text)?.to_owned()).or_default();
    }
    if !ends.is_empty() {
        look(remote, &mut ends).await?;
    }
    given.iter().map(|text| if is_whole(text) { Ok(text.clone()) } else { the_one(text, &ends) }).collect()
}

async fn look(remote: &Remote, ends: &mut BTreeMap<String, Vec<String>>) -> Result<()> {
    let mut looked = 0;
    walk(remote, "look for it", ListQuery::default(), async |page| {
        looked += page.len();
        for execution in page {
            for (end, found) in ends.iter_mut().filter(|(end, _)| execution.id.ends_with(end.as_str())) {
                debug_assert!(!end.is_empty());
                found.push(execution.id.clone());
            }
        }
        Ok(looked < LOOKED_MAX)
    })
    .await
}

fn is_whole(text: &str) -> bool {
    let mut parts = text.split('_');
    parts.next().is_some_and(|kind| kind.len() == 1)
        && parts.clone().count() == 2
        && parts.next_back().is_some_and(|id| id.len() == 36)
}

/// The end that a text names: what follows the dots, if there are any.
fn end_of(text: &str) -> Result<&str> {
    let end = text.rsplit(['…', '.']).next().unwrap_or(text);
    let is_end = end.len() >= LETTERS_MIN && end.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    if is_end {
        return Ok(end);
    }
    let hint = format!("write the whole id, or at least the last {LETTERS_MIN} letters of it, like `…3c9e01`");
    Err(Fault::new(Code::Usage, format!("`{text}` is not the id of an execution")).hint(hint).into())
}

fn the_one(text: &str, ends: &BTreeMap<String, Vec<String>>) -> Result<String> {
    let found = ends.get(end_of(text)?).map(Vec::as_slice).unwrap_or_default();
    match found {
        [one] => Ok(one.clone()),
        [] => Err(Fault::new(Code::Refused, format!("there is no execution whose id ends with `{text}`"))
            .named("execution_not_found")
            .hint(format!(
                "`weft list` shows the newest; among those beyond the newest {LOOKED_MAX} only whole ids are found"
            ))
            .into()),
        many => {
            let shown: Vec<&str> = many.iter().take(CANDIDATES_MAX).map(String::as_str).collect();
            let more = if many.len() > CANDIDATES_MAX { ", …" } else { "" };
            Err(Fault::new(Code::Refused, format!("{} executions have an id that ends with `{text}`", many.len()))
                .named("ambiguous_id")
                .hint(format!("write more of it: {}{more}", shown.join(", ")))
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "x_7_0192f3c1-6b1e-7c55-9a40-5d2f6d3c9e01";

    #[test]
    fn an_end_may_have_dots_and_the_start_of_its_id_before_it() {
        for text in ["…3c9e01", "3c9e01", "...3c9e01", "x_7_…3c9e01"] {
            assert_eq!(end_of(text).unwrap(), "3c9e01", "{text}");
            assert!(!is_whole(text), "{text}");
        }
        assert!(is_whole(ID) && !is_whole(&ID[1..]));
        for text in ["", "…", "01", "mail", "invoice.send"] {
            assert_eq!(Fault::exit_code(&end_of(text).unwrap_err()), 2, "{text}");
        }
    }

    #[test]
    fn an_end_of_two_ids_is_refused_and_names_them() {
        let other = ID.replace("5d2f", "5d2e");
        let ends =
            BTreeMap::from([("3c9e01".to_owned(), vec![ID.to_owned(), other.clone()]), ("ffff".to_owned(), vec![])]);
        let (word, _, hint) = Fault::told(&the_one("…3c9e01", &ends).unwrap_err());
        assert_eq!(word, "error[ambiguous_id]:");
        let hint = hint.unwrap();
        assert!(hint.contains(ID) && hint.contains(&other), "{hint}");
        assert_eq!(Fault::told(&the_one("ffff", &ends).unwrap_err()).0, "error[execution_not_found]:");
    }
}
