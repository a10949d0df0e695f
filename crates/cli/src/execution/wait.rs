//! `weft wait`: until executions have ended.

use super::{end_of, put_ending};
use crate::End;
use crate::remote::{self, Form, Remote, names};
use anyhow::Result;
use futures_util::{StreamExt, stream};

/// Wait until executions have ended; exit 5 if one ends without success
#[derive(clap::Args)]
#[command(before_help = "example: weft wait 3c9e01 --timeout 5m")]
pub struct Args {
    /// Ids, or unique ends of ids
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Waits at once.
const AT_ONCE: usize = 64;

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let ids = names(&remote, &args.ids).await?;
    let alone = ids.len() == 1;
    let waits = ids.into_iter().map(|id| {
        let remote = &remote;
        async move { remote::until_done(remote, &id, "result").await }
    });
    let mut waiting = stream::iter(waits).buffered(AT_ONCE);
    let (mut all, mut good) = (Vec::new(), true);
    while let Some(ended) = waiting.next().await {
        let ended = ended?;
        good &= matches!(end_of(&ended), End::Done);
        match remote.form {
            Form::Json if !alone => all.push(ended),
            _ => put_ending(&remote, &ended)?,
        }
    }
    if remote.form == Form::Json && !alone {
        remote.put_all(&all, |ended| ended.id.clone(), String::new)?;
    }
    Ok(if good { End::Done } else { End::Unsuccessful })
}
