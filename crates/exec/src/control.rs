//! The control pipe: what a program says in lines of JSON. Owns their words; a line that has none of them, or has one
//! wrong, is told about and left out as a whole.

use crate::body::{BYTES, Body, JSON, TEXT};
use crate::finish::{Failure, Finish, Retry, category, cut};
use crate::lines::{Line, Lines, Pipe};
use crate::nearest::nearest;
use crate::report::Report;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// The longest line in bytes.
pub const LINE_MAX: usize = 1 << 20;

const WORDS: [&str; 5] = ["progress", "checkpoint", "step", "delay_ms", "fail"];

/// Words of programs that are written for a worker which can do more.
const ELSEWHERE: [&str; 3] = ["frame", "usage", "suspend"];

const CATEGORY_MAX: usize = 128;

/// Reports what is said, and answers what the program wants to become of its task. The last wish counts.
pub async fn listen(pipe: Pipe, reports: &mpsc::Sender<Report>) -> Option<Finish> {
    let mut lines = Lines::new(pipe, LINE_MAX);
    let (mut wish, mut within_long) = (None, false);
    while let Some(line) = lines.next().await {
        let parsed = match line {
            Line::Part(_) if within_long => continue,
            Line::Part(_) => {
                within_long = true;
                Err(format!("it is longer than {LINE_MAX} bytes"))
            }
            Line::Whole(_) if std::mem::take(&mut within_long) => continue,
            Line::Whole(line) if line.trim_ascii().is_empty() => continue,
            Line::Whole(line) => parse(&line),
        };
        match parsed {
            Ok(said) => {
                wish = said.wish.or(wish);
                for report in said.reports {
                    // Nobody wants to know any more; the wish still counts.
                    let _ = reports.send(report).await;
                }
            }
            Err(why) => {
                let _ = reports.send(Report::Warning(format!("left out a line of the control pipe: {why}"))).await;
            }
        }
    }
    wish
}

/// What one line says.
#[derive(Debug, Default, PartialEq)]
struct Said {
    reports: Vec<Report>,
    wish: Option<Finish>,
}

/// A line may have several words, in any order: `{"delay_ms": 5000, "checkpoint": {"page": 7}}`.
fn parse(line: &[u8]) -> Result<Said, String> {
    let mut words: BTreeMap<String, &RawValue> =
        serde_json::from_slice(line).map_err(|error| format!("it is not an object of JSON: {error}"))?;
    if let Some(unknown) = words.keys().find(|word| !WORDS.contains(&word.as_str())) {
        return Err(unknown_word(unknown));
    }
    let mut said = Said::default();
    if let Some(raw) = words.remove("progress") {
        said.reports.push(progress(raw)?);
    }
    if let Some(raw) = words.remove("step") {
        said.reports.push(step(raw)?);
    }
    let checkpoint = words.remove("checkpoint").map(|raw| body("checkpoint", raw)).transpose()?;
    match (words.remove("delay_ms"), words.remove("fail")) {
        (Some(_), Some(_)) => return Err("`delay_ms` and `fail` exclude each other".to_owned()),
        (Some(raw), None) => said.wish = Some(Finish::Delay { ms: typed("delay_ms", raw)?, checkpoint }),
        (None, fail) => {
            said.reports.extend(checkpoint.map(Report::Checkpoint));
            said.wish = fail.map(failure).transpose()?.map(Finish::Failed);
        }
    }
    Ok(said)
}

fn unknown_word(word: &str) -> String {
    let word = cut(word, 64);
    if ELSEWHERE.contains(&word) {
        return format!("`{word}` is nothing that this version can do; known are {}", WORDS.join(", "));
    }
    match nearest(word, &WORDS) {
        Some(near) => format!("`{word}` is unknown; did you mean `{near}`?"),
        None => format!("`{word}` is unknown; known are {}", WORDS.join(", ")),
    }
}

fn progress(raw: &RawValue) -> Result<Report, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Progress {
        percent: Option<f64>,
        message: Option<String>,
    }
    let Progress { percent, message } = typed("progress", raw)?;
    if percent.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
        return Err("`progress`: `percent` is not from 0 to 100".to_owned());
    }
    // Checked above: whole percents from 0 to 100, and a hundred only when it is reached.
    Ok(Report::Progress { percent: percent.map(|percent| percent as u8), message })
}

fn step(raw: &RawValue) -> Result<Report, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Step<'a> {
        name: String,
        #[serde(borrow)]
        value: &'a RawValue,
    }
    let Step { name, value } = typed("step", raw)?;
    if name.is_empty() {
        return Err("`step`: `name` is empty".to_owned());
    }
    Ok(Report::Step { name, value: body("step", value)? })
}

fn failure(raw: &RawValue) -> Result<Failure, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fail<'a> {
        category: Option<String>,
        message: String,
        retry: Option<Wish>,
        #[serde(borrow)]
        detail: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Wish {
        Policy,
        Never,
        AfterMs(u64),
    }
    let fail: Fail<'_> = typed("fail", raw)?;
    let category = fail.category.as_deref().unwrap_or(category::EXIT);
    let printable = category.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    if category.is_empty() || category.len() > CATEGORY_MAX || !printable {
        return Err(format!(
            "`fail`: `category` is not 1 to {CATEGORY_MAX} letters of printable ASCII without spaces and commas"
        ));
    }
    let retry = match fail.retry {
        None | Some(Wish::Policy) => Retry::Policy,
        Some(Wish::Never) => Retry::Never,
        Some(Wish::AfterMs(ms)) => Retry::AfterMs(ms),
    };
    let detail = fail.detail.map(|raw| body("fail", raw)).transpose()?;
    Ok(Failure { detail, ..Failure::new(category, &fail.message, retry) })
}

/// Bytes are `{"text": …}`, `{"base64": …}` with a `type` if wanted, or `{"json": …}`; any other JSON stands for itself, as
/// it is written.
fn body(word: &str, raw: &RawValue) -> Result<Body, String> {
    let plain = || Body::new(raw.get().to_owned(), JSON);
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get()) else { return Ok(plain()) };
    let names = Vec::from_iter(fields.keys().map(String::as_str));
    let text = |name: &str| serde_json::from_str::<String>(fields[name].get()).ok();
    Ok(match names.as_slice() {
        ["json"] => Body::new(fields["json"].get().to_owned(), JSON),
        ["text"] => text("text").map_or_else(plain, |text| Body::new(text, TEXT)),
        ["base64"] | ["base64", "type"] => {
            let coded = text("base64").ok_or_else(|| format!("`{word}`: `base64` is not text"))?;
            let bytes = data_encoding::BASE64.decode(coded.as_bytes());
            let bytes = bytes.map_err(|error| format!("`{word}`: `base64` cannot be decoded: {error}"))?;
            let content_type = names.contains(&"type").then(|| text("type")).flatten();
            Body::new(bytes, content_type.as_deref().unwrap_or(BYTES))
        }
        _ => plain(),
    })
}

fn typed<'a, T: Deserialize<'a>>(word: &str, raw: &'a RawValue) -> Result<T, String> {
    serde_json::from_str(raw.get()).map_err(|error| format!("`{word}`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Said {
        parse(line.as_bytes()).unwrap()
    }

    fn reported(line: &str) -> Report {
        let Said { mut reports, wish } = said(line);
        assert_eq!((reports.len(), wish), (1, None), "{line}");
        reports.remove(0)
    }

    fn json(text: &str) -> Body {
        Body::new(text.to_owned(), JSON)
    }

    #[test]
    fn cli_13_every_word_is_understood() {
        let progress =
            |percent, message: Option<&str>| Report::Progress { percent, message: message.map(str::to_owned) };
        for (line, report) in [
            (r#"{"progress": {"percent": 40, "message": "half"}}"#, progress(Some(40), Some("half"))),
            (r#"{"progress": {"percent": 99.9}}"#, progress(Some(99), None)),
            (r#"{"progress": {}}"#, progress(None, None)),
            (r#"{"checkpoint": {"page":  1.50}}"#, Report::Checkpoint(json(r#"{"page":  1.50}"#))),
            (r#"{"checkpoint": null}"#, Report::Checkpoint(json("null"))),
            (r#"{"checkpoint": {"text": "a"}}"#, Report::Checkpoint(Body::new("a", TEXT))),
            (r#"{"checkpoint": {"text": 1}}"#, Report::Checkpoint(json(r#"{"text": 1}"#))),
            (r#"{"checkpoint": {"text": "a", "more": 1}}"#, Report::Checkpoint(json(r#"{"text": "a", "more": 1}"#))),
            (r#"{"checkpoint": {"json": {"text": "a"}}}"#, Report::Checkpoint(json(r#"{"text": "a"}"#))),
            (r#"{"checkpoint": {"json": null}}"#, Report::Checkpoint(json("null"))),
            (r#"{"checkpoint": {"base64": "AAE="}}"#, Report::Checkpoint(Body::new(&[0, 1][..], BYTES))),
            (
                r#"{"step": {"name": "pay", "value": {"base64": "AAE=", "type": "image/png"}}}"#,
                Report::Step { name: "pay".to_owned(), value: Body::new(&[0, 1][..], "image/png") },
            ),
        ] {
            assert_eq!(reported(line), report, "{line}");
        }
    }

    #[test]
    fn cli_13_a_wish_says_what_becomes_of_the_task() {
        let delay = Finish::Delay { ms: 5, checkpoint: Some(json("[7]")) };
        assert_eq!(said(r#"{"checkpoint": [7], "delay_ms": 5}"#), Said { reports: vec![], wish: Some(delay) });
        for (retry, expected) in [
            ("", Retry::Policy),
            (r#", "retry": "policy""#, Retry::Policy),
            (r#", "retry": "never""#, Retry::Never),
            (r#", "retry": {"after_ms": 5000}"#, Retry::AfterMs(5000)),
        ] {
            let line = format!(r#"{{"fail": {{"category": "smtp", "message": "550", "detail": {{"a":1}}{retry}}}}}"#);
            let failure = Failure {
                category: "smtp".to_owned(),
                message: "550".to_owned(),
                retry: expected,
                detail: Some(json(r#"{"a":1}"#)),
            };
            assert_eq!(said(&line).wish, Some(Finish::Failed(failure)), "{line}");
        }
    }

    #[test]
    fn cli_13_a_wrong_line_is_refused_by_what_is_wrong() {
        for (line, why) in [
            ("progress 40", "not an object of JSON"),
            ("[]", "not an object of JSON"),
            (r#"{"progres": {}}"#, "did you mean `progress`?"),
            (r#"{"Fail": {}}"#, "did you mean `fail`?"),
            (r#"{"suspend": {"signal": "go"}}"#, "`suspend` is nothing that this version can do"),
            (r#"{"frobnicate": 1}"#, "known are progress, checkpoint, step, delay_ms, fail"),
            (r#"{"progress": {"percnt": 4}}"#, "unknown field `percnt`, expected `percent` or `message`"),
            (r#"{"progress": {"percent": 101}}"#, "not from 0 to 100"),
            (r#"{"progress": {"percent": -1}}"#, "not from 0 to 100"),
            (r#"{"step": {"name": "", "value": 1}}"#, "`name` is empty"),
            (r#"{"step": {"name": "a"}}"#, "missing field `value`"),
            (r#"{"delay_ms": -1}"#, "`delay_ms`: invalid value"),
            (r#"{"delay_ms": 1, "fail": {"message": "a"}}"#, "exclude each other"),
            (r#"{"fail": {"message": "a", "category": "a b"}}"#, "`category` is not"),
            (r#"{"fail": {"message": "a", "retry": "sometimes"}}"#, "unknown variant `sometimes`"),
            (r#"{"fail": {}}"#, "missing field `message`"),
            (r#"{"checkpoint": {"base64": "A"}}"#, "`base64` cannot be decoded"),
        ] {
            let refused = parse(line.as_bytes()).unwrap_err();
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }
}
