//! `weft scanners`.

use crate::End;
use crate::remote::{Form, Remote};
use crate::render::scanner;
use crate::terminal;
use anyhow::Result;
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};

#[derive(clap::Args)]
pub struct Args {}

pub async fn run(_: Args, remote: Remote) -> Result<End> {
    let told = remote.call::<op::ListScanners>("list scanners", [], NoQuery {}, NoBody {}).await?;
    match remote.form {
        // One object that also names the node.
        Form::Json => terminal::put(&serde_json::to_string(&told)?)?,
        _ => remote.put_all(&told.items, |one| one.name.clone(), || scanner::table(&told, remote.colour.out))?,
    }
    if remote.form == Form::People {
        remote.say(&format!("those of node {}", told.node_name));
    }
    Ok(End::Done)
}
