//! `weft submit`: hands in work, one piece or a file of it.

use super::{end_of, put_ending, tag, tags};
use crate::End;
use crate::fault::{Code, Fault};
use crate::remote::{self, Form, Heard, Remote, duration, read_input, read_stdin};
use crate::render::{self, count};
use crate::terminal::{self, Progress};
use anyhow::{Context, Result};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_api::execution::{Submit, SubmitBatch, Submitted};
use weft_api::operation::NoQuery;
use weft_api::{Item, Moment, op};

/// Submit an execution, or a file of them
#[derive(clap::Args)]
#[command(before_help = "example: weft submit invoice.send --input '{\"order\":17}' --lane mail")]
pub struct Args {
    /// What is to be done; the worker that handles this kind does it
    #[arg(value_name = "KIND", required_unless_present = "batch")]
    kind: Option<String>,

    /// Its input: JSON, `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON|@FILE|-", conflicts_with = "batch", allow_hyphen_values = true)]
    input: Option<String>,

    /// Content type of the input [default: application/json]
    #[arg(long = "type", value_name = "TYPE", requires = "input")]
    content_type: Option<String>,

    /// Lane it waits in [default: default]
    #[arg(long)]
    lane: Option<String>,

    /// 0 to 9000, larger first [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=9000), allow_negative_numbers = true)]
    priority: Option<u32>,

    /// Time before it may start, like `10m`
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    delay: Option<Duration>,

    /// Time until which it must have ended: `1h` from now, or like 2026-11-16T20:15:00Z
    #[arg(long, value_name = "TIME", value_parser = deadline, allow_hyphen_values = true)]
    deadline: Option<Deadline>,

    /// A tag; may be given more than once
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    tags: Vec<(String, String)>,

    /// A capability that its worker must offer; may be given more than once
    #[arg(long = "cap", value_name = "NAME")]
    capabilities: Vec<String>,

    /// A second submission with this key never makes a second execution
    #[arg(long, value_name = "KEY", conflicts_with = "batch")]
    idempotency_key: Option<String>,

    /// Wait for its end; exit 5 if it ends without success
    #[arg(long)]
    wait: bool,

    /// File with one submission per line, as the HTTP API takes them, or `-` for stdin; other flags fill in what a line
    /// leaves out
    #[arg(long, value_name = "FILE.jsonl")]
    batch: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Deadline {
    In(Duration),
    At(Moment),
}

fn deadline(text: &str) -> Result<Deadline, String> {
    match duration(text) {
        Ok(left) => Ok(Deadline::In(left)),
        Err(_) => Moment::parse(text)
            .map(Deadline::At)
            .ok_or_else(|| "write a time from now like `1h`, or a time like 2026-11-16T20:15:00Z".to_owned()),
    }
}

/// Submissions of one call.
const BATCH_MAX: usize = 500;
/// Bytes of one call, well below what a server takes.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// Letters of a result that is shown though nobody asked for it.
const RESULT_LETTERS: usize = 400;

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    tags(args.tags.clone())?;
    match args.batch.clone() {
        Some(path) => batch(args, &path, &remote).await,
        None => one(args, &remote).await,
    }
}

async fn one(args: Args, remote: &Remote) -> Result<End> {
    let mut submit = Submit { kind: args.kind.clone().unwrap_or_default(), ..Submit::default() };
    if let Some(given) = &args.input {
        submit.input = Some(read_input("--input", given, args.content_type.as_deref()).await?);
    }
    submit.idempotency_key = args.idempotency_key.clone();
    let wait = args.wait;
    fill(&mut submit, &args);
    let submitted = remote.call::<op::SubmitExecution>("submit", [], NoQuery {}, submit).await?;
    if submitted.duplicate {
        remote.say("the idempotency key is bound already; this is the execution it stands for");
    }
    if wait {
        return wait_for(remote, &submitted).await;
    }
    remote.put(&submitted, &submitted.id, || line(&submitted, remote))?;
    Ok(End::Done)
}

/// The id is told before anything can happen to the wait.
async fn wait_for(remote: &Remote, submitted: &Submitted) -> Result<End> {
    let short = render::id::short(&submitted.id);
    match remote.form {
        Form::Ids => terminal::put(&submitted.id)?,
        _ => remote.say(&format!("{}  {}", submitted.id, submitted.public_state.name())),
    }
    remote.if_interrupted(format!("`{}` goes on; `weft get {short} --watch` shows it", submitted.id));
    let ended = remote::until_done(remote, &submitted.id, "result", Heard::Before).await?;
    if remote.form != Form::Ids {
        put_ending(remote, &ended)?;
    }
    if let (Form::People, Some(result)) = (remote.form, &ended.result) {
        let shown = render::payload::line(result);
        let cut = render::cut(&shown, RESULT_LETTERS);
        let terminal = std::io::stdout().is_terminal();
        if terminal {
            terminal::put(&cut)?;
        }
        if !terminal || cut != shown {
            remote.say(&format!("`weft result {short}` writes its result"));
        }
    }
    Ok(end_of(&ended))
}

fn line(submitted: &Submitted, remote: &Remote) -> String {
    format!("{}  {}", submitted.id, render::state(submitted.public_state, remote.colour.out))
}

/// What the flags say, where the submission itself says nothing.
fn fill(submit: &mut Submit, args: &Args) {
    if submit.kind.is_empty() {
        submit.kind = args.kind.clone().unwrap_or_default();
    }
    submit.lane = submit.lane.take().or_else(|| args.lane.clone());
    submit.priority = submit.priority.or(args.priority);
    if submit.delay_ms.is_none() && submit.start_at.is_none() {
        submit.delay_ms = args.delay.map(|delay| delay.as_millis() as u64);
    }
    if submit.deadline_in_ms.is_none() && submit.deadline_at.is_none() {
        match args.deadline {
            Some(Deadline::In(left)) => submit.deadline_in_ms = Some(left.as_millis() as u64),
            Some(Deadline::At(at)) => submit.deadline_at = Some(at),
            None => {}
        }
    }
    if submit.capabilities.is_empty() {
        submit.capabilities = args.capabilities.clone();
    }
    for (key, value) in &args.tags {
        submit.tags.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// Submits every line of a file. Nothing is sent before every line was read.
async fn batch(args: Args, path: &Path, remote: &Remote) -> Result<End> {
    let name = path.display().to_string();
    let bytes = match name.as_str() {
        "-" => read_stdin().await?,
        _ => {
            let unreadable = || Fault::new(Code::Usage, format!("cannot read `{name}` of `--batch`"));
            std::fs::read(path).with_context(unreadable)?.into()
        }
    };
    let lines = parse(&bytes, &name, &args)?;
    let progress = Progress::new(remote.colour, "submit", lines.len() as u64);
    let (mut ids, mut refused) = (Vec::new(), 0_u64);
    let mut submitted = Vec::new();
    for chunk in chunks(lines) {
        let numbers: Vec<usize> = chunk.iter().map(|(number, _)| *number).collect();
        let items = chunk.into_iter().map(|(_, submit)| submit).collect();
        let body = SubmitBatch { items, atomic: false };
        let reply = remote.call::<op::SubmitExecutions>("submit", [], NoQuery {}, body).await?;
        progress.advance_by(numbers.len() as u64);
        for (number, item) in numbers.into_iter().zip(reply.results) {
            match &item {
                Item::Ok(one) => {
                    ids.push(one.id.clone());
                    if args.wait && remote.form != Form::Ids {
                        remote.say(&format!("{}  {}", one.id, one.public_state.name()));
                    }
                    match remote.form {
                        Form::People if !args.wait => terminal::put(&line(one, remote))?,
                        Form::Ids => terminal::put(&one.id)?,
                        _ => {}
                    }
                }
                Item::Error(problem) => {
                    refused += 1;
                    terminal::say(&format!("{name}:{number}: {}", remote::told(problem)));
                }
            }
            match remote.form {
                Form::Jsonl if !args.wait => terminal::put(&serde_json::to_string(&item)?)?,
                Form::Json => submitted.push(item),
                _ => {}
            }
        }
    }
    progress.end();
    let refusals = if refused > 0 { format!(", {refused} refused") } else { String::new() };
    remote.say(&format!("submitted {}{refusals}", count(ids.len() as u64, "execution")));
    let ended = match args.wait {
        true => wait_for_all(remote, ids).await?,
        false => End::Done,
    };
    if remote.form == Form::Json && !args.wait {
        terminal::put(&serde_json::to_string(&weft_api::Results { results: submitted })?)?;
    }
    Ok(if refused > 0 { End::Refused } else { ended })
}

async fn wait_for_all(remote: &Remote, ids: Vec<String>) -> Result<End> {
    let progress = Progress::new(remote.colour, "wait", ids.len() as u64);
    let all_of_them = count(ids.len() as u64, "execution");
    remote.if_interrupted(format!("{all_of_them} go on; `weft list` shows them"));
    let (mut all, mut good) = (Vec::new(), true);
    let waited = remote::until_all_done(remote, ids, "", Heard::Before, |ended| {
        progress.advance();
        good &= matches!(end_of(&ended), End::Done);
        match remote.form {
            Form::Json => all.push(ended),
            // It was written when it was submitted.
            Form::Ids => {}
            _ => put_ending(remote, &ended)?,
        }
        Ok(())
    });
    let waited = waited.await;
    progress.end();
    if remote.form == Form::Json {
        remote.put_all(&all, |ended| ended.id.clone(), String::new)?;
    }
    waited?;
    Ok(if good { End::Done } else { End::Unsuccessful })
}

/// Every line that is not empty, with its number.
fn parse(bytes: &[u8], name: &str, args: &Args) -> Result<Vec<(usize, Submit)>> {
    let mut lines = Vec::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = at + 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let wrong = |why: String| {
            let hint = "a line looks like {\"kind\": \"invoice.send\", \"input\": {\"json\": {\"order\": 17}}}";
            anyhow::Error::from(Fault::new(Code::Usage, format!("{name}:{number}: {why}")).hint(hint))
        };
        // A line may leave the kind to the command.
        let mut fields: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(line).map_err(|error| wrong(format!("not a JSON object: {error}")))?;
        if let Some(kind) = args.kind.as_ref().filter(|_| !fields.contains_key("kind")) {
            fields.insert("kind".to_owned(), serde_json::value::to_raw_value(kind)?);
        }
        let line = serde_json::to_vec(&fields)?;
        let mut submit: Submit = weft_api::Body::from_json(&line.into()).map_err(|problem| {
            let hint = problem.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
            wrong(format!("{}{hint}", problem.detail))
        })?;
        fill(&mut submit, args);
        lines.push((number, submit));
    }
    match lines.is_empty() {
        true => Err(Fault::usage(format!("`{name}` has no line with a submission"))),
        false => Ok(lines),
    }
}

/// Cut so that every call stays below what a server takes.
fn chunks(lines: Vec<(usize, Submit)>) -> Vec<Vec<(usize, Submit)>> {
    let mut chunks: Vec<Vec<(usize, Submit)>> = Vec::new();
    let mut bytes = 0;
    for line in lines {
        let size = 512 + line.1.input.as_ref().map_or(0, |input| input.bytes.len() * 4 / 3);
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < BATCH_MAX && bytes + size <= BATCH_BYTES_MAX => {
                chunk.push(line);
                bytes += size;
            }
            _ => {
                chunks.push(vec![line]);
                bytes = size;
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn args(given: &[&str]) -> Args {
        Cli::parse_from(["submit"].iter().chain(given)).args
    }

    #[test]
    fn flags_fill_in_what_a_line_leaves_out() {
        let args = args(&["mail", "--lane", "bulk", "--tag", "a=1", "--deadline", "1h", "--batch", "f"]);
        let lines = parse(
            b"{\"input\": {\"json\": 1.00}}\n\n{\"kind\": \"sms\", \"lane\": \"x\", \"tags\": {\"a\": \"2\"}}",
            "f",
            &args,
        )
        .unwrap();
        let [(1, first), (3, second)] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(
            (first.kind.as_str(), first.lane.as_deref(), first.deadline_in_ms),
            ("mail", Some("bulk"), Some(3_600_000))
        );
        assert_eq!((second.kind.as_str(), second.lane.as_deref()), ("sms", Some("x")));
        assert_eq!(first.input.as_ref().unwrap().bytes, "1.00", "digits stay as they were sent");
        assert_eq!((first.tags["a"].as_str(), second.tags["a"].as_str()), ("1", "2"));
    }

    #[test]
    fn cli_1_a_wrong_line_is_named_before_anything_is_sent() {
        let args = args(&["mail", "--batch", "f"]);
        for (text, part) in
            [("{}\n{\"lnae\": \"x\"}", "f:2: "), ("{}\n\nnope", "f:3: not a JSON object"), ("\n", "`f` has no line")]
        {
            let error = parse(text.as_bytes(), "f", &args).unwrap_err();
            assert!(error.to_string().starts_with(part), "{error}");
            assert_eq!(Fault::exit_code(&error), 2);
        }
    }

    #[test]
    fn a_batch_is_cut_by_count_and_by_size() {
        let submit =
            |bytes| (1, Submit { input: Some(weft_api::Payload::new(vec![0; bytes], None)), ..Submit::default() });
        assert_eq!(chunks(vec![submit(0); 501]).iter().map(Vec::len).collect::<Vec<_>>(), [500, 1]);
        assert_eq!(chunks(vec![submit(5 << 19); 3]).len(), 2);
    }
}
