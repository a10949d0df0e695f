//! `weft undrain`: lets workers take work again.

use super::{Target, check_label};
use crate::End;
use crate::remote::Remote;
use anyhow::Result;
use weft_api::op;
use weft_api::operation::NoQuery;
use weft_api::worker::UndrainTarget;

/// Let drained workers take work again
#[derive(clap::Args)]
#[command(before_help = "example: weft undrain mailer-3@host")]
pub struct Args {
    #[command(flatten)]
    target: Target,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    check_label(args.target.label.as_ref())?;
    let Target { instance, pool: worker, version, label } = args.target;
    let body = UndrainTarget { instance, worker, version, label, ..UndrainTarget::default() };
    let told = remote.call::<op::UndrainWorkers>("undrain", [], NoQuery {}, body).await?;
    remote.put(&told, &told.instances.join("\n"), || match told.instances.is_empty() {
        true => "no worker was told".to_owned(),
        false => told.instances.iter().map(|name| format!("{name}  active")).collect::<Vec<_>>().join("\n"),
    })?;
    Ok(End::Done)
}
