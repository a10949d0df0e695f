//! Ids that are cut to their end: `…3c9e01` or `3c9e01` stands for the one execution, or the one flow, whose id ends so.

use super::Remote;
use super::page::{PAGE_MAX, walk};
use crate::fault::{Code, Fault};
use anyhow::Result;
use std::collections::BTreeMap;
use weft_api::execution::ListQuery;
use weft_api::flow::FlowsQuery;
use weft_api::op;
use weft_api::operation::NoBody;

/// Executions or flows that are looked through for an end, the newest first.
const LOOKED_MAX: usize = 20 * PAGE_MAX as usize;

/// Fewer letters would name too many.
const LETTERS_MIN: usize = 4;

/// Candidates that an error names.
const CANDIDATES_MAX: usize = 5;

/// What an id is of.
#[derive(Clone, Copy)]
struct Noun {
    name: &'static str,
    /// The code of an error that says that there is none
    missing: &'static str,
    /// The command that shows them
    list: &'static str,
    /// How ids of the other kind begin
    other_letter: &'static str,
    /// What an id with that letter names
    other: &'static str,
    /// The command that shows what it names
    other_get: &'static str,
}

const EXECUTION: Noun = Noun {
    name: "execution",
    missing: "execution_not_found",
    list: "weft list",
    other_letter: "f_",
    other: "a flow, not of an execution",
    other_get: "weft flow get",
};
const FLOW: Noun = Noun {
    name: "flow",
    missing: "flow_not_found",
    list: "weft flow list",
    other_letter: "x_",
    other: "an execution, not of a flow",
    other_get: "weft get",
};

/// The ids of executions that are meant, in order. A whole id is taken as it is and not looked for.
pub async fn names(remote: &Remote, given: &[String]) -> Result<Vec<String>> {
    // Ids have small letters; whoever writes large ones means the same.
    let given: Vec<String> = given.iter().map(|text| text.to_lowercase()).collect();
    let mut ends: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for text in &given {
        refuse_other(EXECUTION, text)?;
    }
    for text in given.iter().filter(|text| !is_whole(text)) {
        ends.entry(end_of(EXECUTION, text)?.to_owned()).or_default();
    }
    if !ends.is_empty() {
        look(remote, &mut ends).await?;
    }
    let mut ids = Vec::with_capacity(given.len());
    for text in given {
        if is_whole(&text) {
            ids.push(text);
            continue;
        }
        match the_one(EXECUTION, &text, &ends) {
            Err(missing) if is_missing(EXECUTION, &missing) => {
                let flows = flows_ending(remote, end_of(FLOW, &text)?).await?;
                return Err(if flows.is_empty() { missing } else { of_other(EXECUTION, &text).into() });
            }
            one => ids.push(one?),
        }
    }
    Ok(ids)
}

/// The id of the flow that is meant.
pub async fn flow_name(remote: &Remote, given: &str) -> Result<String> {
    let given = given.to_lowercase();
    refuse_other(FLOW, &given)?;
    if is_whole(&given) {
        return Ok(given);
    }
    let end = end_of(FLOW, &given)?.to_owned();
    let found = flows_ending(remote, &end).await?;
    match the_one(FLOW, &given, &BTreeMap::from([(end.clone(), found)])) {
        Err(missing) if is_missing(FLOW, &missing) => {
            let mut executions = BTreeMap::from([(end.clone(), Vec::new())]);
            look(remote, &mut executions).await?;
            Err(if executions[&end].is_empty() { missing } else { of_other(FLOW, &given).into() })
        }
        one => one,
    }
}

/// The flows whose ids end so.
async fn flows_ending(remote: &Remote, end: &str) -> Result<Vec<String>> {
    let (mut found, mut looked) = (Vec::new(), 0);
    let mut query = FlowsQuery { limit: Some(PAGE_MAX), ..FlowsQuery::default() };
    loop {
        let page = remote.call::<op::ListFlows>("look for it", [], query.clone(), NoBody {}).await?;
        looked += page.items.len();
        found.extend(page.items.into_iter().map(|flow| flow.id).filter(|id| id.ends_with(end)));
        match page.next_cursor {
            Some(cursor) if looked < LOOKED_MAX => query.cursor = Some(cursor),
            _ => return Ok(found),
        }
    }
}

/// Refuses an id that says of itself that it is of the other kind.
fn refuse_other(noun: Noun, text: &str) -> Result<()> {
    if text.starts_with(noun.other_letter) && (is_whole(text) || text.contains(['…', '.'])) {
        return Err(of_other(noun, text).into());
    }
    Ok(())
}

/// What is said of an id that is of the other kind.
fn of_other(noun: Noun, text: &str) -> Fault {
    let (code, what) = if is_whole(text) { ("invalid_id", "the id") } else { (noun.missing, "the end of the id") };
    let told = format!("`{text}` is {what} of {}", noun.other);
    Fault::new(Code::Refused, told).named(code).hint(format!("`{} {text}` shows it", noun.other_get))
}

fn is_missing(noun: Noun, error: &anyhow::Error) -> bool {
    Fault::named_parts(error).0 == noun.missing
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
fn end_of(noun: Noun, text: &str) -> Result<&str> {
    let end = text.rsplit(['…', '.']).next().unwrap_or(text);
    let is_end = end.len() >= LETTERS_MIN && end.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    if is_end {
        return Ok(end);
    }
    let hint = format!("write the whole id, or at least the last {LETTERS_MIN} letters of it, like `…3c9e01`");
    Err(Fault::new(Code::Usage, format!("`{text}` is not the id of {} {}", article(noun), noun.name)).hint(hint).into())
}

fn article(noun: Noun) -> &'static str {
    if noun.name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

fn the_one(noun: Noun, text: &str, ends: &BTreeMap<String, Vec<String>>) -> Result<String> {
    let found = ends.get(end_of(noun, text)?).map(Vec::as_slice).unwrap_or_default();
    let Noun { name, missing, list, .. } = noun;
    match found {
        [one] => Ok(one.clone()),
        [] => Err(Fault::new(Code::Refused, format!("there is no {name} whose id ends with `{text}`"))
            .named(missing)
            .hint(format!(
                "`{list}` shows the newest; among those beyond the newest {LOOKED_MAX} only whole ids are found"
            ))
            .into()),
        many => {
            let shown: Vec<&str> = many.iter().take(CANDIDATES_MAX).map(String::as_str).collect();
            let more = if many.len() > CANDIDATES_MAX { ", …" } else { "" };
            Err(Fault::new(Code::Refused, format!("{} {name}s have an id that ends with `{text}`", many.len()))
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
            assert_eq!(end_of(EXECUTION, text).unwrap(), "3c9e01", "{text}");
            assert!(!is_whole(text), "{text}");
        }
        assert!(is_whole(ID) && !is_whole(&ID[1..]));
        for text in ["", "…", "01", "mail", "invoice.send"] {
            assert_eq!(Fault::exit_code(&end_of(EXECUTION, text).unwrap_err()), 2, "{text}");
        }
    }

    #[test]
    fn an_id_of_the_other_kind_is_told_as_what_it_is() {
        let flow = ID.replace("x_", "f_");
        assert!(refuse_other(EXECUTION, ID).is_ok() && refuse_other(FLOW, &flow).is_ok());
        assert!(refuse_other(EXECUTION, "f_3c9e01").is_ok(), "which is no end of an id either");
        let (word, message, hint) = Fault::told(&refuse_other(EXECUTION, &flow).unwrap_err());
        assert_eq!(word, "error[invalid_id]:");
        assert_eq!(message, format!("`{flow}` is the id of a flow, not of an execution"));
        assert!(hint.unwrap().contains(&format!("`weft flow get {flow}`")));
        let (_, message, hint) = Fault::told(&refuse_other(FLOW, "x_7_…3c9e01").unwrap_err());
        assert_eq!(message, "`x_7_…3c9e01` is the end of the id of an execution, not of a flow");
        assert_eq!(hint.as_deref(), Some("`weft get x_7_…3c9e01` shows it"));
    }

    #[test]
    fn an_end_of_two_ids_is_refused_and_names_them() {
        let other = ID.replace("5d2f", "5d2e");
        let ends =
            BTreeMap::from([("3c9e01".to_owned(), vec![ID.to_owned(), other.clone()]), ("ffff".to_owned(), vec![])]);
        let (word, _, hint) = Fault::told(&the_one(EXECUTION, "…3c9e01", &ends).unwrap_err());
        assert_eq!(word, "error[ambiguous_id]:");
        let hint = hint.unwrap();
        assert!(hint.contains(ID) && hint.contains(&other), "{hint}");
        assert_eq!(Fault::told(&the_one(EXECUTION, "ffff", &ends).unwrap_err()).0, "error[execution_not_found]:");
        let (word, message, hint) = Fault::told(&the_one(FLOW, "ffff", &ends).unwrap_err());
        assert_eq!(
            (word.as_str(), message.as_str()),
            ("error[flow_not_found]:", "there is no flow whose id ends with `ffff`")
        );
        assert!(hint.unwrap().starts_with("`weft flow list` shows"));
    }
}
