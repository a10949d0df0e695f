//! `weft key create`.

use super::{put_secret, rates, scopes};
use crate::End;
use crate::fault::Fault;
use crate::remote::{Remote, duration};
use crate::store::StoreArg;
use anyhow::Result;
use std::time::Duration;
use weft_api::key::{KeyScope, NewKey, RateClass};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Make a key; its secret goes to stdout, this once. `--namespace shop,web` says where it is good
#[derive(clap::Args)]
#[command(before_help = "example: weft key create --name ci --scope submit,work --namespace shop")]
pub struct Args {
    /// A name to know it by
    #[arg(long)]
    pub name: String,

    /// What it may do; may be given more than once, or joined by commas
    #[arg(long = "scope", value_name = "SCOPE", required_unless_present = "admin", value_delimiter = ',', value_parser = scopes())]
    scopes: Vec<KeyScope>,

    /// It may read and nothing else
    #[arg(long)]
    read_only: bool,

    /// How many calls it may make [default: default]
    #[arg(long, value_name = "CLASS", value_parser = rates())]
    rate_class: Option<RateClass>,

    /// It is good for this time, like `90d` [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires: Option<Duration>,

    /// Make a key with all rights in the store itself, with its master key at hand and no server on it: for whoever has
    /// lost the last one
    #[arg(long, conflicts_with_all = ["scopes", "read_only", "rate_class", "expires"])]
    pub admin: bool,

    #[command(flatten)]
    pub store: StoreArg,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    if args.store.is_named() {
        return Err(Fault::usage(
            "a store is named, and a server makes the key; `--admin` makes one in the store itself",
        ));
    }
    let everywhere = if args.scopes.contains(&KeyScope::Admin) { "*" } else { weft_api::NAMESPACE_DEFAULT };
    let namespaces = remote.namespace.as_deref().unwrap_or(everywhere).split(',').map(|name| name.trim().to_owned());
    let body = NewKey {
        name: args.name,
        scopes: args.scopes,
        namespaces: namespaces.collect(),
        read_only: args.read_only,
        rate_class: args.rate_class,
        expires_in_ms: args.expires.map(|time| time.as_millis() as u64),
        ..NewKey::default()
    };
    let made = remote.call::<op::CreateKey>("create the key", [], NoQuery {}, body).await?;
    put_secret(&remote, &made)?;
    Ok(End::Done)
}
