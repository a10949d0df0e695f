//! `weft result`: the bytes of a result, as its worker gave them.

use super::end_of;
use crate::End;
use crate::fault::{Code, Fault};
use crate::remote::{self, Form, Heard, Remote, names};
use crate::render::{execution, id};
use crate::terminal;
use anyhow::Result;
use std::io::IsTerminal;
use weft_api::execution::GetQuery;
use weft_api::op;
use weft_api::operation::NoBody;

/// Write the result of an execution to stdout, byte for byte
#[derive(clap::Args)]
#[command(before_help = "example: weft result 3c9e01 --wait")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,

    /// Wait for its end
    #[arg(long)]
    wait: bool,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = names(&remote, &[args.id]).await?.remove(0);
    let seen = match args.wait {
        true => remote::until_done(&remote, &id, "result", Heard::NotYet).await?,
        false => {
            let query = GetQuery { include: Some("result".to_owned()), ..GetQuery::default() };
            remote.call::<op::GetExecution>("get its result", [id], query, NoBody {}).await?
        }
    };
    if !seen.public_state.is_terminal() {
        let message = format!("there is no result: `{}` is {}", seen.id, seen.public_state.name());
        let hint = format!("`weft result {} --wait` waits for it", id::short(&seen.id));
        return Err(Fault::new(Code::Refused, message).named("execution_not_terminal").hint(hint).into());
    }
    match &seen.result {
        Some(result) if matches!(remote.form, Form::Json | Form::Jsonl) => {
            terminal::put(&serde_json::to_string(result)?)?
        }
        Some(result) => {
            terminal::put_bytes(&result.bytes)?;
            // A prompt behind the last letter is hard to read; a file or pipe gets the bytes and nothing else.
            if std::io::stdout().is_terminal() && !result.bytes.ends_with(b"\n") {
                terminal::put("")?;
            }
        }
        None => remote.say(&format!("{}  {}: there is no result", seen.id, execution::ending(&seen))),
    }
    Ok(end_of(&seen))
}
