//! What a reply of the server says about a call. One place decides it; what is not known here may have happened.

use crate::link::Fault;
use crate::options::Address;
use redis::ServerError;
use weft_store::{Error, Full, Outcome};

/// What an error reply means for the call it answers. All but the last two: it was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The slot lives elsewhere now.
    Moved(Option<Address>),
    /// The slot is on its way there, and so are these keys.
    Ask(Option<Address>),
    /// The keys are partly here and partly there.
    Again,
    /// The library is missing on this server.
    Load,
    NotApplied {
        retry_after_ms: u64,
    },
    /// The server's memory has reached its limit, or its disk has no room for the append-only file.
    Full,
    Unknown,
    /// A function failed half-way. It may have written something, which must never be.
    Broken,
}

const SOON_MS: u64 = 50;
const LATER_MS: u64 = 1_000;
const INSIDE: &str = "@user_function:";

/// `asked` is the server that replied; a redirect without a host means that host.
pub fn of(error: &ServerError, asked: &Address) -> Verdict {
    let detail = error.details().unwrap_or_default();
    let later = Verdict::NotApplied { retry_after_ms: LATER_MS };
    match error.code() {
        "WEFT" => Verdict::NotApplied { retry_after_ms: 0 },
        // The server names the place in errors that come from inside a function, whatever their code is.
        _ if detail.contains(INSIDE) => Verdict::Broken,
        "MOVED" => Verdict::Moved(redirect(detail, asked)),
        "ASK" => Verdict::Ask(redirect(detail, asked)),
        "TRYAGAIN" => Verdict::Again,
        "ERR" if detail.starts_with("Function not found") => Verdict::Load,
        "BUSY" => Verdict::NotApplied { retry_after_ms: SOON_MS },
        "MISCONF" if is_disk_full(detail) => Verdict::Full,
        "CROSSSLOT" | "CLUSTERDOWN" | "READONLY" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" | "NOAUTH"
        | "NOPERM" => later,
        "OOM" => Verdict::Full,
        _ => Verdict::Unknown,
    }
}

/// Whether a server that refuses all writes does so because its disk is full. It takes writes again by itself as soon as it
/// can append. A failed snapshot has other causes too, and its reply does not name them.
fn is_disk_full(detail: &str) -> bool {
    let detail = detail.to_ascii_lowercase();
    detail.contains("errors writing to the aof") || detail.contains("no space left")
}

fn redirect(detail: &str, asked: &Address) -> Option<Address> {
    let (_, address) = detail.split_once(' ')?;
    match address.strip_prefix(':') {
        Some(port) => Some(Address::new(asked.host.clone(), port.parse().ok()?)),
        None => Address::parse(address),
    }
}

/// What became of a commit that was answered with a fault.
pub fn outcome(fault: Fault) -> Outcome {
    let retry_after_ms = match &fault {
        Fault::NotSent { .. } => Some(SOON_MS),
        Fault::Lost { .. } | Fault::Short { .. } | Fault::Broken { .. } => None,
        Fault::Reply { error, address } => match of(error, address) {
            Verdict::NotApplied { retry_after_ms } => Some(retry_after_ms),
            Verdict::Full => {
                let source = std::sync::Arc::new(Full(fault.to_string()));
                return Outcome::NotApplied { retry_after_ms: LATER_MS, source };
            }
            Verdict::Moved(_) | Verdict::Ask(_) | Verdict::Again => Some(SOON_MS),
            Verdict::Load => Some(LATER_MS),
            Verdict::Unknown | Verdict::Broken => None,
        },
    };
    let source = std::sync::Arc::new(fault);
    match retry_after_ms {
        Some(retry_after_ms) => Outcome::NotApplied { retry_after_ms, source },
        None => Outcome::Unknown { source },
    }
}

/// How a call that is not a commit is told: a read that did not come through, or a `resolve`.
pub fn error(fault: Fault) -> Error {
    match outcome(fault) {
        Outcome::NotApplied { source, .. } => Error::Unavailable(source),
        Outcome::Unknown { source } => Error::Indeterminate(source),
        Outcome::Applied { .. } | Outcome::Conflict { .. } | Outcome::Lost { .. } => {
            unreachable!("verdict: a fault is no success")
        }
    }
}

/// Reads change nothing, so trying again is always safe.
pub fn read_error(fault: Fault) -> Error {
    Error::Unavailable(std::sync::Arc::new(fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(line: &str) -> ServerError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
            redis::Value::ServerError(error) => error,
            other => panic!("{other:?}"),
        }
    }

    fn address() -> Address {
        Address::new("10.0.0.1", 7000)
    }

    #[test]
    fn rl_15_every_error_reply_has_a_verdict() {
        let there = |host: &str| Some(Address::new(host, 7001));
        let later = Verdict::NotApplied { retry_after_ms: LATER_MS };
        let inside = "script: weft2_commit, on @user_function:12.";
        let rows = [
            ("MOVED 3999 10.0.0.2:7001".to_owned(), Verdict::Moved(there("10.0.0.2"))),
            ("MOVED 3999 :7001".to_owned(), Verdict::Moved(there("10.0.0.1"))),
            ("MOVED 3999 2001:db8::1:7001".to_owned(), Verdict::Moved(there("2001:db8::1"))),
            ("MOVED 3999 ?:x".to_owned(), Verdict::Moved(None)),
            ("ASK 3999 10.0.0.2:7001".to_owned(), Verdict::Ask(there("10.0.0.2"))),
            ("TRYAGAIN Multiple keys request during rehashing of slot".to_owned(), Verdict::Again),
            ("CROSSSLOT Keys in request don't hash to the same slot".to_owned(), later.clone()),
            ("CLUSTERDOWN The cluster is down".to_owned(), later.clone()),
            ("READONLY You can't write against a read only replica.".to_owned(), later.clone()),
            ("LOADING Valkey is loading the dataset in memory".to_owned(), later.clone()),
            ("MASTERDOWN Link with MASTER is down".to_owned(), later.clone()),
            ("MISCONF Errors writing to the AOF file: No space left on device".to_owned(), Verdict::Full),
            ("MISCONF Errors writing to the AOF file: Disk quota exceeded".to_owned(), Verdict::Full),
            ("MISCONF could not persist: no space left on device".to_owned(), Verdict::Full),
            (
                "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk."
                    .to_owned(),
                later.clone(),
            ),
            ("NOREPLICAS Not enough good replicas to write.".to_owned(), later.clone()),
            ("OOM allow-oom flag is not set on the function".to_owned(), Verdict::Full),
            ("BUSY Valkey is busy running a script.".to_owned(), Verdict::NotApplied { retry_after_ms: SOON_MS }),
            ("NOAUTH Authentication required.".to_owned(), later.clone()),
            ("NOPERM User weft has no permissions to run the 'fcall' command".to_owned(), later),
            ("ERR Function not found".to_owned(), Verdict::Load),
            ("WEFT barred: the commit was given up".to_owned(), Verdict::NotApplied { retry_after_ms: 0 }),
            ("WEFT conflict".to_owned(), Verdict::NotApplied { retry_after_ms: 0 }),
            ("UNBLOCKED force unblock from blocking operation".to_owned(), Verdict::Unknown),
            ("ERR unknown command".to_owned(), Verdict::Unknown),
            ("WRONGTYPE Operation against a key".to_owned(), Verdict::Unknown),
            ("SOMETHING new".to_owned(), Verdict::Unknown),
            (format!("ERR user_function:12: attempt to index a nil value {inside}"), Verdict::Broken),
            (format!("ERR Wrong number of args calling command from script {inside}"), Verdict::Broken),
            (format!("WRONGTYPE Operation against a key {inside}"), Verdict::Broken),
            (format!("OOM command not allowed {inside}"), Verdict::Broken),
            ("WRONGTYPE Operation against a key script: on @user_function:103.".to_owned(), Verdict::Broken),
            (format!("NOPERM this user may not {inside}"), Verdict::Broken),
        ];
        for (line, expected) in rows {
            assert_eq!(of(&reply(&line), &address()), expected, "{line}");
        }
    }

    #[test]
    fn rl_77_a_server_whose_disk_is_full_is_a_full_store() {
        let is_full = |line: &str| match outcome(Fault::Reply { error: reply(line), address: address() }) {
            Outcome::NotApplied { source, .. } => source.is::<Full>(),
            other => panic!("{line}: {other:?}"),
        };
        assert!(is_full("MISCONF Errors writing to the AOF file: No space left on device"));
        assert!(!is_full("MISCONF Valkey is configured to save RDB snapshots"));
    }

    #[test]
    fn rl_15_what_was_sent_and_not_answered_is_unknown() {
        let why = || "it broke".into();
        let reply = |line: &str| Fault::Reply { error: reply(line), address: address() };
        let unknown = [
            Fault::Lost { address: address(), why: why() },
            Fault::Short { address: address(), reached: 0, needed: 1 },
            Fault::Broken { address: address(), why: "WRONGTYPE".to_owned() },
            reply("UNBLOCKED force unblock"),
            reply("ERR x script: weft2_commit, on @user_function:1."),
            reply("NEW kind of error"),
        ];
        for fault in unknown {
            assert!(matches!(outcome(fault), Outcome::Unknown { .. }));
        }
        let not_applied = [
            Fault::NotSent { address: address(), why: why() },
            reply("TRYAGAIN"),
            reply("MOVED 1 10.0.0.1:1"),
            reply("ASK 1 10.0.0.1:1"),
            reply("ERR Function not found"),
            reply("OOM no"),
        ];
        for fault in not_applied {
            assert!(matches!(outcome(fault), Outcome::NotApplied { .. }));
        }
    }
}
