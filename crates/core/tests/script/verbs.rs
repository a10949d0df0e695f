//! From a line to a command.

use super::{Line, Script};
use crate::kit::calls;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_core::command::*;
use weft_core::id::ExecutionId;
use weft_core::record::execution::{Backoff, Deadline, Policy};
use weft_core::text::{Capabilities, Text};
use weft_core::time::Time;

impl Script {
    pub fn build(&mut self, line: &Line<'_>) -> Command {
        match line.verb {
            "submit" | "submits" => self.submit(line),
            "claims" => self.claim(line),
            "registers" | "beats" | "leaves" | "drains" | "undrains" | "marks" => worker(line),
            _ => self.other(line),
        }
    }

    fn submit(&mut self, line: &Line<'_>) -> Command {
        let id = self.world.fresh_id();
        let parent = line.get("parent").map(|parent| {
            let holder = line.get("by").unwrap_or(line.who);
            (self.id(parent), self.fence_of(holder, parent))
        });
        // A second submit of one name is meant to find the first.
        self.names.entry(line.target.to_owned()).or_insert(id);
        Command::Submit(Box::new(Submit {
            id: Some(id),
            input: bytes(line, "input"),
            content_type: line.get("content_type").map(Text::from),
            priority: line.ms("priority").map(|priority| priority as u32),
            start: when(line, "start_in", "start_at"),
            deadline: when(line, "deadline_in", "deadline_at"),
            policy: policy(line),
            idempotency_key: bytes(line, "key"),
            parent,
            ..crate::kit::calls::submit()
        }))
    }

    fn claim(&mut self, line: &Line<'_>) -> Command {
        let lease = self.world.fresh_lease();
        Command::Claim(Claim {
            id: self.id(line.target),
            lease,
            worker: line.who.into(),
            instance: line.who.into(),
            lease_ms: line.ms("lease_ms").unwrap_or(30_000),
            kinds: line.get("kind").map(|kind| Arc::from([Text::from(kind)])),
            capabilities: Capabilities::default(),
            claim_ref: None,
            session: None,
        })
    }

    fn other(&mut self, line: &Line<'_>) -> Command {
        let id = self.id(line.target);
        let fence = self.fence(line);
        let reason = Text::from(line.get("reason").unwrap_or("because"));
        let checkpoint = bytes(line, "checkpoint");
        let steps = steps(line);
        match line.verb {
            "renews" => Command::Renew(Renew {
                id,
                fence,
                lease_ms: line.ms("lease_ms"),
                percent: line.ms("percent").map(|percent| percent as u8),
                message: line.get("message").map(Text::from),
                checkpoint: checkpoint.map(Into::into),
                steps,
            }),
            "records" => Command::RecordSteps(RecordSteps { id, fence, steps }),
            "progresses" => Command::Progress(Progress {
                id,
                fence,
                percent: line.ms("percent").map(|percent| percent as u8),
                message: line.get("message").map(Text::from),
                checkpoint: checkpoint.map(Into::into),
                renew_ms: line.ms("renew_ms"),
            }),
            "completes" => {
                Command::Complete(Complete { id, fence, result: bytes(line, "result"), content_type: None, steps })
            }
            "fails" => Command::Fail(Fail {
                id,
                fence,
                category: line.get("category").unwrap_or("application").into(),
                message: line.get("message").unwrap_or("no luck").into(),
                detail: bytes(line, "detail").map(Into::into),
                retry: match line.get("retry") {
                    None => RetryWish::Policy,
                    Some("never") => RetryWish::Never,
                    Some(_) => RetryWish::AfterMs(line.ms("retry").expect("a time")),
                },
                steps,
                entropy: 0,
            }),
            "delays" => {
                let until = when(line, "by", "until").expect("delay: by= or until=");
                Command::Delay(Delay { id, fence, until, checkpoint: checkpoint.map(Into::into), steps })
            }
            "waits" => Command::WaitChildren(WaitChildren {
                id,
                fence,
                children: line.get("for").map(|names| names.split(',').map(|name| self.id(name)).collect()),
                rule: match line.get("rule") {
                    None | Some("all") => ChildrenRule::AllOf,
                    Some("any") => ChildrenRule::AnyOf,
                    Some(quorum) => ChildrenRule::Quorum(quorum.parse().expect("a quorum")),
                },
                timeout_ms: line.ms("timeout_ms"),
                checkpoint: checkpoint.map(Into::into),
            }),
            "cancels" => Command::Cancel(Cancel {
                id,
                fence,
                reason,
                mode: match line.ms("grace_ms") {
                    None => CancelMode::Immediate,
                    Some(grace_ms) => CancelMode::Graceful { grace_ms },
                },
                cascade: line.get("cascade") != Some("false"),
            }),
            _ => self.unfenced(line, id, reason),
        }
    }

    fn unfenced(&self, line: &Line<'_>, id: ExecutionId, reason: Text) -> Command {
        match line.verb {
            "reschedules" => {
                Command::Reschedule(Reschedule { id, start: when(line, "in", "to").expect("in= or to="), reason })
            }
            "prioritises" => {
                Command::ChangePriority(ChangePriority { id, priority: line.ms("to").expect("to=") as u32, reason })
            }
            "tags" => Command::SetTags(SetTags {
                id,
                fence: None,
                set: pairs(line.get("set").unwrap_or("")),
                remove: line
                    .get("remove")
                    .unwrap_or("")
                    .split(',')
                    .filter(|key| !key.is_empty())
                    .map(Text::from)
                    .collect(),
                reason,
            }),
            "revokes" => Command::Revoke(Revoke {
                id,
                expected_epoch: line.ms("epoch"),
                reason,
                hold: line.get("hold") == Some("true"),
            }),
            "holds" => Command::Hold(Hold { id, reason, revoke: line.get("revoke") == Some("true") }),
            "releases" => Command::Release(Release { id, reason }),
            "force_completes" => {
                Command::ForceComplete(ForceComplete { id, result: bytes(line, "result"), content_type: None, reason })
            }
            "force_fails" => Command::ForceFail(ForceFail { id, message: "forced".into(), reason }),
            "purges" => Command::Purge(Purge { id, reason }),
            "replays" => Command::Replay(Replay {
                downstream: Downstream::Reopen,
                ignore_dependencies: false,
                id,
                reason,
                deadline: match (line.get("deadline"), line.ms("deadline_in")) {
                    (Some("none"), _) => DeadlineWish::None,
                    (_, Some(ms)) => DeadlineWish::New(Deadline::InMs(ms)),
                    _ => DeadlineWish::Keep,
                },
                delay_ms: line.ms("delay_ms"),
                priority: line.ms("priority").map(|priority| priority as u32),
                steps: if line.get("steps") == Some("keep") { Steps::Keep } else { Steps::Clear },
            }),
            verb => panic!("no such verb: {verb}"),
        }
    }

    /// Workers use the fence of their last claim; `epoch` replaces its epoch.
    fn fence(&self, line: &Line<'_>) -> Option<Fence> {
        if matches!(line.who, "client" | "operator") || line.get("fence") == Some("none") {
            return None;
        }
        let fence = self.fence_of(line.who, line.target);
        Some(Fence { epoch: line.ms("epoch").unwrap_or(fence.epoch), ..fence })
    }

    fn fence_of(&self, who: &str, target: &str) -> Fence {
        *self.fences.get(&(who.into(), target.into())).unwrap_or_else(|| panic!("{who} has claimed {target}"))
    }
}

fn bytes(line: &Line<'_>, field: &str) -> Option<Bytes> {
    line.get(field).map(|text| Bytes::copy_from_slice(text.as_bytes()))
}

/// `steps=a:1,b:2`; a value such as `*300000` is that many bytes.
fn steps(line: &Line<'_>) -> Vec<Step> {
    let pairs = line.get("steps").unwrap_or("").split(',').filter_map(|pair| pair.split_once(':'));
    let value = |value: &str| match value.strip_prefix('*') {
        Some(count) => vec![b'x'; count.parse().expect("a number of bytes")],
        None => value.as_bytes().to_vec(),
    };
    pairs.map(|(name, text)| crate::kit::calls::step(name, &value(text))).collect()
}

fn when(line: &Line<'_>, relative: &str, absolute: &str) -> Option<When> {
    match (line.ms(relative), line.ms(absolute)) {
        (Some(ms), None) => Some(When::InMs(ms)),
        (None, Some(ms)) => Some(When::At(Time::from_ms(ms))),
        (None, None) => None,
        (Some(_), Some(_)) => panic!("one of {relative} and {absolute}"),
    }
}

fn pairs(text: &str) -> BTreeMap<Text, Text> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
    pairs.map(|(key, value)| (Text::from(key), Text::from(value))).collect()
}

fn policy(line: &Line<'_>) -> Policy {
    let mut policy = crate::kit::calls::policy();
    let number = |field: &str| line.ms(field).map(|number| number as u32);
    policy.retry.max_retries = number("retries").unwrap_or(policy.retry.max_retries);
    policy.max_reclaims = number("reclaims").unwrap_or(policy.max_reclaims);
    policy.max_replays = number("replays").unwrap_or(policy.max_replays);
    policy.attempt_timeout_ms = line.ms("timeout");
    policy.retention_ms = line.ms("retention").or(policy.retention_ms);
    policy.idempotency_ttl_ms = line.ms("ttl").unwrap_or(policy.idempotency_ttl_ms);
    if let Some(delay_ms) = line.ms("backoff") {
        policy.retry.backoff = Backoff::Fixed { delay_ms };
    }
    if let Some(categories) = line.get("never_on") {
        policy.retry.never_on = categories.split(',').map(Text::from).collect();
    }
    policy
}

fn worker(line: &Line<'_>) -> Command {
    let instance = line.target;
    let session = line.get("session").map(|session| session.parse().expect("a session"));
    match line.verb {
        "registers" => calls::register_worker(instance, line.get("boot").unwrap_or("a")),
        "beats" => calls::beat_worker(instance, session),
        "leaves" => calls::deregister_worker(instance, session),
        "drains" => calls::drain_worker(instance, line.ms("deadline")),
        "undrains" => calls::undrain_worker(instance),
        _ => calls::mark_dead_worker(instance),
    }
}
