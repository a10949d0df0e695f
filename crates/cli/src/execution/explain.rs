//! `weft explain`: why an execution is not running, or a flow not done.

use crate::End;
use crate::fault::Fault;
use crate::remote::{Remote, flow_name, names};
use crate::render;
use anyhow::Result;
use weft_api::execution::ExplainQuery;
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};

/// Tell why an execution is not running, or why a flow is not done
#[derive(clap::Args)]
#[command(before_help = "example: weft explain 3c9e01")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,
    /// Tell why this worker does not get it
    #[arg(long, value_name = "INSTANCE")]
    instance: Option<String>,
}

/// What an id is of.
enum Subject {
    Execution(String),
    Flow(String),
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = match subject(&remote, &args.id).await? {
        Subject::Execution(id) => id,
        Subject::Flow(_) if args.instance.is_some() => {
            return Err(Fault::usage("`--instance` is about an execution, and a flow is not claimed; name a member"));
        }
        Subject::Flow(id) => return flow(&remote, id).await,
    };
    let query = ExplainQuery { instance: args.instance };
    let told = remote.call::<op::ExplainExecution>("explain it", [id], query, NoBody {}).await?;
    remote.put(&told, told.public_state.name(), || render::explain::alone(&told, remote.colour.out))?;
    Ok(End::Done)
}

/// The id of a flow says so; an end of an id may be that of either, and executions are looked through first.
async fn subject(remote: &Remote, given: &str) -> Result<Subject> {
    if given.to_lowercase().starts_with("f_") {
        return Ok(Subject::Flow(flow_name(remote, given).await?));
    }
    match names(remote, &[given.to_owned()]).await {
        Ok(mut ids) => Ok(Subject::Execution(ids.remove(0))),
        Err(error) if Fault::named_parts(&error).0 == "execution_not_found" => {
            flow_name(remote, given).await.map(Subject::Flow).map_err(|_| error)
        }
        Err(error) => Err(error),
    }
}

async fn flow(remote: &Remote, id: String) -> Result<End> {
    let told = remote.call::<op::ExplainFlow>("explain it", [id], NoQuery {}, NoBody {}).await?;
    remote.put(&told, told.public_flow_state.name(), || render::explain::flow_text(&told, remote.colour.out))?;
    Ok(End::Done)
}
