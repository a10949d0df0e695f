//! `weft key change`.

use super::{id_of, rates, scopes};
use crate::End;
use crate::fault::Fault;
use crate::remote::{Remote, duration};
use crate::render::{self, time};
use anyhow::Result;
use std::time::Duration;
use weft_api::key::{KeyChange, KeyScope, RateClass};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Change what a key may do; `--namespace shop,web` changes where it is good
#[derive(clap::Args)]
#[command(before_help = "example: weft key change ci --scope submit --expires 90d")]
pub struct Args {
    /// Its id or its name
    #[arg(value_name = "KEY")]
    named: String,

    /// Another name
    #[arg(long)]
    name: Option<String>,

    /// All that it may do from now on; may be given more than once, or joined by commas
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', value_parser = scopes())]
    scopes: Vec<KeyScope>,

    /// Whether it may only read
    #[arg(long, value_name = "BOOL")]
    read_only: Option<bool>,

    /// How many calls it may make
    #[arg(long, value_name = "CLASS", value_parser = rates())]
    rate_class: Option<RateClass>,

    /// It is good for this time from now, like `90d`
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires: Option<Duration>,

    /// It is good until it is revoked
    #[arg(long, conflicts_with = "expires")]
    never_expires: bool,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    // A namespace of the environment is where commands work; only one that was given here is a change.
    let namespaces =
        remote.given_namespace.as_deref().map(|names| names.split(',').map(|name| name.trim().to_owned()).collect());
    let body = KeyChange {
        name: args.name,
        scopes: (!args.scopes.is_empty()).then_some(args.scopes),
        namespaces,
        read_only: args.read_only,
        rate_class: args.rate_class,
        expires_at: args.never_expires.then_some(None),
        expires_in_ms: args.expires.map(|left| left.as_millis() as u64),
        request_id: None,
    };
    if body == KeyChange::default() {
        return Err(Fault::usage(
            "nothing to change is given: `--name`, `--scope`, `--namespace`, `--read-only`, `--rate-class`, `--expires`, \
             `--never-expires`",
        ));
    }
    let id = id_of(&remote, &args.named).await?;
    let key = remote.call::<op::ChangeKey>("change the key", [id], NoQuery {}, body).await?;
    remote.put(&key, &key.id, || render::key::card(&key, time::now_ms(), remote.colour.out))?;
    Ok(End::Done)
}
