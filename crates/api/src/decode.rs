//! What is wrong with a request that could not be read, in words: which field, and what would be right.

use crate::problem::{Code, Problem};
use crate::reader::Reader;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_path_to_error::{Error, Path, Segment};

/// Reads a body, or the part of one that stands at `place`; with numbers of 64 bits as text if they may be.
pub fn json_with<T: DeserializeOwned>(place: &str, bytes: &[u8], big_as_text: bool) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(Reader::new(&mut json, big_as_text));
    let value = value.map_err(|error| {
        // serde_json classifies a value that cannot begin an enum as a syntax error, although the bytes are JSON.
        let is_json = || serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
        match error.inner().classify() {
            Category::Syntax if is_json() => {
                let path = path_at(place, error.path());
                Problem::invalid(path, "invalid type, expected a word or an object with one field")
            }
            _ => mistake_at(place, error),
        }
    })?;
    json.end().map_err(|error| Problem::new(Code::InvalidJson, format!("the body goes on after its end: {error}")))?;
    Ok(value)
}

/// A body that is no JSON, or whose JSON is not what the operation takes.
pub fn mistake_of_json(error: Error<serde_json::Error>) -> Problem {
    mistake_at("", error)
}

fn mistake_at(place: &str, error: Error<serde_json::Error>) -> Problem {
    let path = path_at(place, error.path());
    let inner = error.into_inner();
    match inner.classify() {
        Category::Data => of_message("body", &path, strip_place(&inner.to_string())),
        _ => Problem::new(Code::InvalidJson, format!("the body is not JSON: {inner}")),
    }
}

/// Parameters that the operation does not take, or not so.
pub fn mistake_of_query(error: Error<serde_html_form::de::Error>) -> Problem {
    // The first value of a parameter is the parameter, for whoever gave it once.
    let path = path_text(error.path()).replace("[0]", "");
    of_message("query", &path, &error.into_inner().to_string())
}

/// The problem in `message`, about the value at `path` in `whole`.
fn of_message(whole: &str, path: &str, message: &str) -> Problem {
    let known = || words(message.split_once("expected").map_or("", |(_, rest)| rest));
    let first = words(message).into_iter().next().unwrap_or_default();
    if message.starts_with("unknown field") || message.starts_with("missing field") {
        let field = join(parent(path, first), first);
        let why = if message.starts_with("missing") { "is missing" } else { "is not a field of this request" };
        return Problem::invalid(field, why).suggest(first, known());
    }
    if message.starts_with("duplicate field") {
        return Problem::invalid(join(parent(path, first), first), "is given twice");
    }
    if message.starts_with("unknown variant") {
        let names = known().join("`, `");
        // A policy decides what becomes of others, so that a word for none is told apart from other mistakes.
        let code = if is_policy(path) { Code::UnknownPolicy } else { Code::InvalidArgument };
        let detail = format!("`{path}` is `{first}`, allowed are `{names}`");
        return Problem::new(code, detail).field("field", path).suggest(first, known());
    }
    Problem::invalid(if path.is_empty() { whole } else { path }, message)
}

/// Whether a value is a policy itself, and not something inside of one.
fn is_policy(path: &str) -> bool {
    let path = path.strip_suffix(".kind").unwrap_or(path);
    path.rsplit('.').next().is_some_and(|last| last.ends_with("policy"))
}

/// What stands between backticks.
fn words(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

/// The path of an unknown field may or may not end with it, by where the error arose.
fn parent<'a>(path: &'a str, field: &str) -> &'a str {
    path.strip_suffix(field).map_or(path, |rest| rest.strip_suffix('.').unwrap_or(rest))
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_string() } else { format!("{path}.{field}") }
}

fn path_at(place: &str, path: &Path) -> String {
    match path_text(path) {
        path if path.is_empty() => place.to_string(),
        path => join(place, &path),
    }
}

fn path_text(path: &Path) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => text.push_str(&format!("[{index}]")),
            Segment::Map { key } => text = join(&text, key),
            // Variants of an enum are not part of what was sent.
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    text
}

/// The message without "at line 1 column 17", which says nothing about a value that was found.
fn strip_place(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(rest, _)| rest)
}

/// How deeply objects and lists of a body are nested, as far as its brackets tell. Stops counting above `max`.
pub fn json_depth(bytes: &[u8], max: usize) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0usize, 0usize, false, false);
    for byte in bytes {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
                if deepest > max {
                    return deepest;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::{ListQuery, Submit, SubmitBatch};
    use crate::flow::{CancelFlow, SubmitFlow};
    use crate::operation::{Body, Reading};
    use bytes::Bytes;

    fn body<T: Body>(text: &'static str) -> Problem {
        T::from_json(&Bytes::from_static(text.as_bytes())).err().unwrap_or_else(|| panic!("{text} was taken"))
    }

    fn said(problem: &Problem) -> String {
        format!("{} {} {}", problem.code.name(), problem.detail, problem.hint.clone().unwrap_or_default())
    }

    #[test]
    fn api_1_a_wrong_request_is_told_which_field_and_what_would_be_right() {
        for (problem, text) in [
            (
                body::<Submit>(r#"{"kind":"a","priorty":1}"#),
                "invalid_argument `priorty` is not a field of this request did you mean `priority`?",
            ),
            (body::<Submit>(r#"{"lane":"a"}"#), "invalid_argument `kind` is missing "),
            (body::<Submit>(""), "invalid_argument `kind` is missing "),
            (
                body::<SubmitBatch>(r#"{"items":[{"kind":"a","policy":{"retry":{"jitter":"ful"}}}]}"#),
                "invalid_argument `items[0].policy.retry.jitter` is `ful`, allowed are `none`, `equal`, `full` did you mean `full`?",
            ),
            (
                body::<Submit>(r#"{"kind":"a","priority":"x"}"#),
                "invalid_argument `priority` invalid type: string \"x\", expected u32 ",
            ),
            (
                body::<Submit>(r#"{"kind":"a","input":{"json":1,"text":"a"}}"#),
                "invalid_argument `input` has exactly one of `json`, `text` and `base64` ",
            ),
            (
                ListQuery::read("lan=a").unwrap_err(),
                "invalid_argument `lan` is not a field of this request did you mean `lane`?",
            ),
            (
                ListQuery::read("state=actve").unwrap_err(),
                "invalid_argument `state` is `actve`, allowed are `waiting`, `delayed`, `held`, `waiting_children`, \
                 `rate_limited`, `active`, `suspended`, `completed`, `failed`, `cancelled`, `expired`, `skipped` \
                 did you mean `active`?",
            ),
        ] {
            assert_eq!(said(&problem), text);
        }
        assert_eq!(body::<Submit>("{").code, Code::InvalidJson);
        assert_eq!(body::<Submit>("{} {}").code, Code::InvalidArgument);
        assert_eq!(body::<Submit>(r#"{"kind":"a"} x"#).code, Code::InvalidJson);
    }

    #[test]
    fn fl_4_a_word_for_no_policy_is_told_under_its_own_code() {
        for (text, field) in [
            (r#"{"kind":"a","failure_policy":{"kind":"isolated"}}"#, "failure_policy.kind"),
            (r#"{"kind":"a","completion_policy":{"kind":"al_terminal"}}"#, "completion_policy.kind"),
            (
                r#"{"kind":"a","members":[{"key":"x","kind":"k","groups":[{"policy":{"kind":"one_of"}}]}]}"#,
                "members[0].groups[0].policy.kind",
            ),
            (r#"{"kind":"a","edges":[{"from":"x","to":"y","policy":{"kind":"none_of"}}]}"#, "edges[0].policy.kind"),
        ] {
            let problem = body::<SubmitFlow>(text);
            assert_eq!((problem.code, problem.fields["field"].as_str()), (Code::UnknownPolicy, Some(field)), "{text}");
            assert!(problem.detail.contains("allowed are `"), "{}", problem.detail);
        }
        assert_eq!(body::<CancelFlow>(r#"{"policy":"cancel_some"}"#).code, Code::UnknownPolicy);
        let inside = body::<SubmitFlow>(
            r#"{"kind":"a","members":[{"key":"x","kind":"k","policy":{"retry":{"jitter":"ful"}}}]}"#,
        );
        assert_eq!(inside.code, Code::InvalidArgument);
    }

    #[test]
    fn a_policy_without_further_fields_may_be_its_word() {
        let read =
            |text: &str| serde_json::from_str::<SubmitFlow>(text).map(|flow| serde_json::to_value(&flow).unwrap());
        let words = r#"{"kind":"a","failure_policy":{"kind":"fail_fast","remaining":"let_run"},"completion_policy":"declared",
            "edges":[{"from":"x","to":"y","policy":"any_of","then":"cancel_remaining"}]}"#;
        let objects = r#"{"kind":"a","failure_policy":{"kind":"fail_fast","remaining":{"kind":"let_run"}},
            "completion_policy":{"kind":"declared"},
            "edges":[{"from":"x","to":"y","policy":{"kind":"any_of"},"then":{"kind":"cancel_remaining"}}]}"#;
        assert_eq!(read(words).unwrap(), read(objects).unwrap());
        for (text, told) in [
            (
                r#"{"kind":"a","failure_policy":"fail_fst"}"#,
                "unknown_policy `failure_policy` is `fail_fst`, allowed are `isolate`, `fail_fast`, `collect_all` did you mean `fail_fast`?",
            ),
            (r#"{"kind":"a","completion_policy":"root"}"#, "invalid_argument `completion_policy.key` is missing "),
            (
                r#"{"kind":"a","edges":[{"from":"x","to":"y","policy":{"kind":"quorum"}}]}"#,
                "invalid_argument `edges[0].policy.k` is missing ",
            ),
            (
                r#"{"kind":"a","failure_policy":7}"#,
                "invalid_argument `failure_policy` invalid type: integer `7`, expected a word such as `fail_fast`, or an \
                 object such as `{kind: fail_fast, remaining: let_run}` ",
            ),
        ] {
            assert_eq!(said(&body::<SubmitFlow>(text)), told);
        }
    }

    #[test]
    fn queries_come_back_as_they_were() {
        let text = "state=active&state=failed&lane=a+b&created_from=2026-11-16T20%3A15%3A00Z&limit=7";
        let query = ListQuery::read(text).unwrap();
        assert_eq!((query.state.len(), query.lane.as_deref(), query.limit), (2, Some("a b"), Some(7)));
        assert_eq!(ListQuery::read(&query.write()).unwrap().created_from, query.created_from);
    }

    #[test]
    fn depth_counts_brackets_outside_of_text() {
        assert_eq!(json_depth(br#"{"a":["]]}}[[[",{"b\"[":[]}]}"#, 64), 4);
        assert_eq!(json_depth(&[b'['; 70], 64), 65);
    }
}
