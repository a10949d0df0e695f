//! `weft flow submit`: a flow from a file.

use super::{end_of, put_ending};
use crate::End;
use crate::fault::{Code, Fault};
use crate::remote::{self, Form, Heard, Remote, read_stdin};
use crate::render::{self, count};
use crate::terminal;
use anyhow::{Context, Result};
use weft_api::flow::{FlowSubmitted, SubmitFlow};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Submit a flow: its members and the edges between them
#[derive(clap::Args)]
#[command(before_help = "example: weft flow submit etl.json")]
#[command(after_help = "A file holds one JSON object, as the HTTP API takes it:\n  \
    {\"kind\": \"etl\", \"members\": [{\"key\": \"load\", \"kind\": \"load\"}, {\"key\": \"merge\", \"kind\": \"merge\"}],\n   \
    \"edges\": [{\"from\": \"load\", \"to\": \"merge\"}]}")]
pub struct Args {
    /// File that holds the flow as JSON, or `-` for stdin
    #[arg(value_name = "FILE")]
    file: String,

    /// Wait for its end; exit 5 if it ends without success
    #[arg(long)]
    wait: bool,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let (bytes, name) = match args.file.as_str() {
        "-" => (read_stdin().await?, "stdin"),
        path => {
            let unreadable = || Fault::new(Code::Usage, format!("cannot read `{path}`"));
            (std::fs::read(path).with_context(unreadable)?.into(), path)
        }
    };
    let submitted = remote.call::<op::SubmitFlow>("submit it", [], NoQuery {}, parse(&bytes, name)?).await?;
    if submitted.duplicate {
        remote.say("the idempotency key is bound already; this is the flow it stands for");
    }
    if args.wait {
        return wait_for(&remote, &submitted).await;
    }
    remote.put(&submitted, &submitted.id, || {
        let state = render::flow::state(submitted.public_flow_state, remote.colour.out);
        format!("{}  {state}, {}", submitted.id, count(submitted.members.len() as u64, "member"))
    })?;
    Ok(End::Done)
}

/// A mistake is found here, and named by its place, before anything is sent.
fn parse(bytes: &[u8], name: &str) -> Result<SubmitFlow> {
    serde_json::from_slice(bytes).map_err(|error| {
        Fault::new(Code::Usage, format!("`{name}` is not a flow: {error}"))
            .hint("`weft flow submit --help` shows what a file looks like")
            .into()
    })
}

/// The id is told before anything can happen to the wait.
async fn wait_for(remote: &Remote, submitted: &FlowSubmitted) -> Result<End> {
    match remote.form {
        Form::Ids => terminal::put(&submitted.id)?,
        _ => remote.say(&format!("{}  {}", submitted.id, submitted.public_flow_state.name())),
    }
    let short = render::id::short(&submitted.id);
    remote.if_interrupted(format!("`{}` goes on; `weft flow watch {short}` shows it", submitted.id));
    let ended = remote::until_flow_done(remote, &submitted.id, Heard::Before).await?;
    if remote.form != Form::Ids {
        put_ending(remote, &ended)?;
    }
    Ok(end_of(&ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_a_file_that_is_no_flow_is_misuse_and_says_where() {
        assert_eq!(parse(b"{\"kind\": \"etl\"}", "etl.json").unwrap().kind, "etl");
        for (text, part) in
            [("{", "line 1"), ("{\"kind\": \"etl\", \"egdes\": []}", "`egdes`"), ("[]", "`f` is not a flow")]
        {
            let error = parse(text.as_bytes(), "f").unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert_eq!(Fault::exit_code(&error), 2);
        }
    }
}
