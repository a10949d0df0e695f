//! `weft result`: the bytes of a result, as its worker gave them.

use super::end_of;
use crate::End;
use crate::fault::{Code, Fault};
use crate::remote::{self, Form, Heard, Remote, names};
use crate::render::{execution, id};
use crate::terminal;
use crate::visible::visible;
use anyhow::Result;
use std::borrow::Cow;
use std::io::IsTerminal;
use weft_api::execution::GetQuery;
use weft_api::op;
use weft_api::operation::NoBody;

/// Write the result of an execution to stdout, byte for byte; on a terminal with escapes for control characters
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
            let is_terminal = std::io::stdout().is_terminal();
            terminal::put_bytes(&written(&result.bytes, is_terminal))?;
            // A prompt behind the last letter is hard to read; a file or pipe gets the bytes and nothing else.
            if is_terminal && !result.bytes.ends_with(b"\n") {
                terminal::put("")?;
            }
        }
        None => remote.say(&format!("{}  {}: there is no result", seen.id, execution::ending(&seen))),
    }
    Ok(end_of(&seen))
}

/// The bytes of a result as they are; on a terminal as text with escapes for what would move the cursor.
fn written(bytes: &[u8], is_terminal: bool) -> Cow<'_, [u8]> {
    match is_terminal {
        true => visible(&String::from_utf8_lossy(bytes), false).into_owned().into_bytes().into(),
        false => bytes.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_cannot_move_the_cursor_of_a_terminal_and_is_whole_in_a_pipe() {
        let rows: [(&[u8], &str); 3] = [
            (b"done\n", "done\n"),
            (b"a\x1b[2J\x1b[31mb", r"a\u001b[2J\u001b[31mb"),
            (b"\xff\x1bc", "\u{fffd}\\u001bc"),
        ];
        for (bytes, shown) in rows {
            assert_eq!(*written(bytes, false), *bytes);
            assert_eq!(String::from_utf8_lossy(&written(bytes, true)), shown);
        }
    }
}
