//! The page of the documentation about refusals, `docs/errors.md`: a section for each code, with what to do about it.

use crate::problem::{Class, Code};
use std::fmt::Write;

const BEGINNING: &str = "\
# Errors

<!-- Written by the tests of crates/api from its table of codes: `WEFT_BLESS=1 cargo test -p weft-api`. -->

Every refusal is `application/problem+json` with a stable `code`, and the same code comes from the embedded engine, the Rust SDK
and the command line, which prints it as `error[code]: …`. What a program does about one follows from its `class`:

| Class | Do |
|---|---|
| `fix` | The call is wrong. Mend it; the same call is refused again. |
| `stop` | Abandon this work and discard its result: somebody else has it, or nobody may. |
| `conflict` | Look at what is there, then decide. |
| `later` | Send the same call again after `retry_after_ms`. |

`busy`, `draining`, `not_ready` and `rate_limited` have changed nothing. `unavailable` may have, if `fields.outcome_unknown` is
true: a repeat with the same idempotency key tells.
";

/// The whole page.
pub fn errors_page() -> String {
    let mut text = BEGINNING.to_owned();
    let mut codes = Code::ALL.to_vec();
    codes.sort_by_key(|code| code.name());
    for code in codes {
        let _ = write!(
            text,
            "\n## {}\n\n{}, class `{}`: {}. {}\n",
            code.name(),
            code.status(),
            class_name(code.class()),
            code.title(),
            advice(code)
        );
    }
    text
}

const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Fix => "fix",
        Class::Stop => "stop",
        Class::Conflict => "conflict",
        Class::Later => "later",
    }
}

/// What somebody who meets it should know or do.
const fn advice(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => {
            "`fields.field` names it, `fields.did_you_mean` the nearest name that exists. Unknown fields are refused, never ignored."
        }
        Code::InvalidId => "Ids are given out by Weft and look like `x_7_0192…`; copy the whole of it.",
        Code::InvalidCursor => "Begin again without a cursor, and keep the filters the same from page to page.",
        Code::InvalidJson => "The detail says at which line and column. Bodies nest at most 64 deep.",
        Code::FenceRequired => "Send `lease` and `epoch` as the claim gave them.",
        Code::NamespaceRequired => "The key is good in several namespaces: name one in the header `Weft-Namespace`.",
        Code::DeadlineInPast => "Give a deadline that lies ahead, or none.",
        Code::NotAChild => "Wait only for executions that this one has spawned.",
        Code::Unauthorized => {
            "Send `Authorization: Bearer weft_…`. Missing, unknown, wrong, expired and revoked keys all read the same."
        }
        Code::Forbidden => {
            "`fields.needs` names the scope that is missing; an administrator can give a key that has it."
        }
        Code::ExecutionNotFound => {
            "It never existed, was purged, or belongs to another namespace: these cannot be told apart on purpose."
        }
        Code::FlowNotFound => {
            "It never existed, was purged, or belongs to another namespace; a flow that is still being written is not there yet."
        }
        Code::WorkerNotFound => "No instance of that name has registered, or it was forgotten after its time.",
        Code::KeyNotFound => "It never existed or was revoked; `weft key list` shows those that are good.",
        Code::NotFound => "`fields.what` says what was looked for.",
        Code::RouteNotFound => "`/docs` lists every route.",
        Code::MethodNotAllowed => "`/docs` lists the methods of every route.",
        Code::NotAcceptable => "Ask for `application/json`, or leave `Accept` out.",
        Code::RequestTimeout => {
            "The body paused for 30 s, or had not arrived after 60 s and a second for each 32 KiB of its length. \
             Nothing has changed."
        }
        Code::LeaseExpired => "Renew at least every third of the lease; a longer lease forgives longer pauses.",
        Code::LeaseRevoked => "An operator took it. `fields.reason` may say why.",
        Code::LeaseLost => "`fields.cause` says how it ended.",
        Code::Cancelled => "Whatever the work has done outside of Weft stands; its result is not kept.",
        Code::StaleLease => "`fields.current_epoch` is that of the worker who has it now.",
        Code::ExecutionNotActive => "It went back to its lane, or has been put aside; a claim may get it again.",
        Code::InstanceSuperseded => "Two processes use one instance name. Give each its own.",
        Code::WorkerDead => "Register again under a new boot id if the process is in fact alive.",
        Code::ExecutionTerminal => "`fields.outcome` says how it ended. `replay` runs it again.",
        Code::ExecutionNotTerminal => "Wait for its end (`wait_ms`), or cancel it first.",
        Code::NotDelayed => "Only an execution that waits for a time can be moved to another.",
        Code::NotClaimable => "`explain` says why.",
        Code::CancelRequested => "Finish, cancel or fail it: work with a requested cancel is not put aside.",
        Code::IdempotencyMismatch => {
            "A key stands for one call with one body. `fields.existing` is what it stands for."
        }
        Code::ReplayLimit => "Submit a new execution instead, or raise `policy.max_replays` of later ones.",
        Code::FlowClosed => {
            "`fields.state` says why: it is ending or done, or its growth is `fixed`. Submit another flow; one that has completed or failed is opened again by a replay of a member."
        }
        Code::FlowTerminal => {
            "`fields.outcome` says how it ended. A replay of a member opens it again, unless it was cancelled."
        }
        Code::FlowNotTerminal => "Wait for its end (`wait_ms`), or cancel it first.",
        Code::GroupDecided => "Add the edge to a group of its own: what a decided group waited for cannot change.",
        Code::DownstreamBegun => "An edge to a member that has been claimed would come too late.",
        Code::StillImpossible => {
            "`fields.edges` are those that are not met. Replay their upstreams, which opens it again; an operator may say \
             `ignore_dependencies`."
        }
        Code::NameTaken => "Choose another name, or change what has it.",
        Code::RevisionMismatch => "Read it again, look at what changed, and send the new revision in `If-Match`.",
        Code::PayloadTooLarge => {
            "`fields.limit` and `fields.got` are bytes. Keep large data elsewhere and send where it is; or raise the limit."
        }
        Code::UriTooLong => "A URL has at most 16 KiB.",
        Code::UnsupportedMediaType => "Send `Content-Type: application/json`, or use the raw form of the call.",
        Code::EmptyFlow => "Give it members, or say `seal: false` and add them later.",
        Code::UnknownNode => "`fields.path` is the place in the request. An edge names members by their keys.",
        Code::DuplicateNode => "A key names one member for the whole life of its flow.",
        Code::SelfEdge => "Nothing can wait for itself.",
        Code::DuplicateEdge => "One edge per upstream, downstream and group.",
        Code::DuplicateInput => "Give each input a name of its own, or end the name in `[]` to collect a list.",
        Code::EmptyGroup => "A group that is declared on a member needs at least one edge.",
        Code::GroupConflict => "Give the policy of a group once, or the same each time.",
        Code::QuorumUnreachable => "Lower `k`, or add edges to the group.",
        Code::ThresholdUnreachable => "Lower `successes`, or add members.",
        Code::Cycle => "`fields.problems[0].keys` are the members around it, in order; take one of their edges away.",
        Code::GraphTooLarge => "Add edges from members that were added earlier to later ones, which needs no search.",
        Code::UnknownPolicy => {
            "Of a call: `fields.field` says which one, and the detail lists those there are. Of a stored flow: a newer version of \
             Weft wrote it, so let a node of that version do it, or bring all nodes to it."
        }
        Code::LimitExceeded => "`fields.max`, or `fields.limit` of a graph, says how many there may be.",
        Code::HeadersTooLarge => "Headers have at most 32 KiB together.",
        Code::RateLimited => "Slow down to the rate of the key; `Retry-After` says when the next call is taken.",
        Code::Internal => "This is a defect of Weft. Nothing was changed; the log has more under the request id.",
        Code::Busy => {
            "`fields.cause` is `overload` if more work arrives than the node takes in. Where the store is the reason it is `store_full`, until somebody makes room for it, or `store_refused`; `contended` if other nodes keep changing the same records. Nothing has changed."
        }
        Code::Unavailable => {
            "`weft doctor` looks at the store. Calls go on by themselves when it is back. A record in a format of a later version is answered so too: ask a node of that version, or upgrade this one."
        }
        Code::Draining => "Call another node; behind a load balancer a repeat gets there.",
        Code::NotReady => "`GET /readyz` says why, to a key with the scope `operate`.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// `WEFT_BLESS=1` rewrites the file.
    #[test]
    fn api_33_the_page_of_the_documentation_is_that_of_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
        let page = errors_page();
        if std::env::var_os("WEFT_BLESS").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(page == reviewed, "docs/errors.md differs from the table: WEFT_BLESS=1 rewrites it");
    }
}
