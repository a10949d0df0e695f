//! `weft wait`: until executions have ended.

use super::{end_of, put_ending};
use crate::End;
use crate::remote::{self, Form, Heard, Remote, names};
use anyhow::Result;

/// Wait until executions have ended; exit 5 if one ends without success
#[derive(clap::Args)]
#[command(before_help = "example: weft wait 3c9e01 --timeout 5m")]
pub struct Args {
    /// Ids, or unique ends of ids
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let ids = names(&remote, &args.ids).await?;
    let alone = ids.len() == 1;
    let (mut all, mut good) = (Vec::new(), true);
    let waited = remote::until_all_done(&remote, ids, "result", Heard::NotYet, |ended| {
        good &= matches!(end_of(&ended), End::Done);
        match remote.form {
            Form::Json if !alone => all.push(ended),
            _ => put_ending(&remote, &ended)?,
        }
        Ok(())
    });
    let waited = waited.await;
    if remote.form == Form::Json && !alone {
        remote.put_all(&all, |ended| ended.id.clone(), String::new)?;
    }
    waited?;
    Ok(if good { End::Done } else { End::Unsuccessful })
}
