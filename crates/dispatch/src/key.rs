//! API keys and the audit log. Nobody gives a key more namespaces than their own, and a key that reaches further than
//! the caller does is not seen.

use crate::cursor::Bound;
use crate::read::limit;
use crate::rejection::problem;
use crate::secret::{KeyText, Macs};
use crate::steer::expected;
use crate::submit::time;
use crate::{Acting, Answer, request_id, text};
use std::sync::Arc;
use weft_api::key as wire;
use weft_api::operation::{NoBody, NoQuery};
use weft_api::page::PageQuery;
use weft_api::{Args, Code, Moment, Page, Problem, Reply};
use weft_core::command::{ChangeKey, CreateKey, RotateKey, Scopes};
use weft_core::error::Rejection;
use weft_core::record::api_key::{Attributes, Mac, RateClass, Reach};
use weft_core::record::{ApiKey, Audit};
use weft_core::text::Text;
use weft_core::{KeyId, PartitionId, Time};
use weft_engine::{AuditFilter, Client, KeyCreation};

type One<B> = Args<[String; 1], NoQuery, B>;

impl Acting<'_> {
    /// A client for what belongs to the deployment and not to a namespace, as keys do.
    pub fn keeper(&self) -> Client {
        self.engine.client_as(self.caller.principal("".into()))
    }

    fn macs(&self) -> Result<&Macs, Problem> {
        self.macs.ok_or_else(|| {
            Problem::new(Code::Forbidden, "this server asks for no keys and cannot make any")
                .hint("run `weft serve`, which asks for keys")
        })
    }

    /// A repeat is answered with the first key and an empty secret: it was shown once.
    pub async fn create_key(&self, args: Args<[String; 0], NoQuery, wire::NewKey>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let macs = self.macs()?;
        let body = args.body;
        let namespaces = reach(body.namespaces)?;
        self.check_reach("create_key", "", &namespaces)?;
        let key = KeyText::random().map_err(|_| no_entropy())?;
        let command = CreateKey {
            id: key.id.parse().map_err(|_| no_entropy())?,
            mac: Mac(macs.of(&key)),
            name: text(body.name),
            scopes: scopes(&body.scopes),
            namespaces,
            attributes: Attributes {
                read_only: body.read_only,
                rate_class: body.rate_class.map(rate_class).unwrap_or_default(),
            },
            expires_at: self.expiry(body.expires_at, body.expires_in_ms)?,
            only_if_none: false,
        };
        match self.keeper().create_key(command, request_id).await.map_err(problem)? {
            KeyCreation::Created(made) => {
                let created = wire::CreatedKey { key: self.shown(&made), secret: key.reveal() };
                Ok(Reply::CreateKey(created).into())
            }
            KeyCreation::Repeated(first) => {
                let created = wire::CreatedKey { key: self.shown(&first), secret: String::new() };
                Ok(Answer { replayed: true, ..Reply::CreateKey(created).into() })
            }
            KeyCreation::KeysExist => Err(Problem::new(Code::Internal, "a key was not made")),
        }
    }

    pub async fn list_keys(&self, args: Args<[String; 0], PageQuery, NoBody>) -> Result<Answer, Problem> {
        let bound = Bound::new("list_keys", &self.caller.reach.to_string(), &());
        let cursor = args.query.cursor.as_deref().map(|cursor| bound.open(cursor)).transpose()?;
        let page = self.keeper().keys(Some(limit(args.query.limit)?), cursor.as_deref()).await.map_err(problem)?;
        let items = page.keys.iter().filter(|key| self.sees(key)).map(|key| self.shown(key)).collect();
        let next_cursor = page.next_cursor.map(|cursor| bound.seal(&cursor));
        Ok(Reply::ListKeys(Page { items, next_cursor }).into())
    }

    pub async fn get_key(&self, args: One<NoBody>) -> Result<Answer, Problem> {
        let (key, revision) = self.keeper().key(key_id(&args.path[0])?).await.map_err(problem)?;
        if !self.sees(&key) {
            return Err(problem(Rejection::KeyNotFound));
        }
        Ok(Answer { revision: Some(revision.to_string()), ..Reply::GetKey(self.shown(&key)).into() })
    }

    pub async fn change_key(&self, args: One<wire::KeyChange>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let expected = expected(args.if_match.as_deref())?;
        let id = self.within_reach("change_key", &args.path[0]).await?;
        let body = args.body;
        let namespaces = body.namespaces.map(reach).transpose()?;
        if let Some(namespaces) = &namespaces {
            self.check_reach("change_key", &args.path[0], namespaces)?;
        }
        let change = ChangeKey {
            id,
            name: body.name.map(text),
            scopes: body.scopes.as_deref().map(scopes),
            namespaces,
            read_only: body.read_only,
            rate_class: body.rate_class.map(rate_class),
            expires_at: match (body.expires_at, body.expires_in_ms) {
                (Some(None), None) => Some(None),
                (at, in_ms) => self.expiry(at.flatten(), in_ms)?.map(Some),
            },
        };
        let changed = self.keeper().change_key(change, request_id, expected).await.map_err(problem)?;
        let replayed = changed.repeated;
        Ok(Answer { replayed, ..Reply::ChangeKey(self.shown(&changed)).into() })
    }

    /// A repeat is answered with an empty secret, like that of a creation.
    pub async fn rotate_key(&self, args: One<wire::RotateKey>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let expected = expected(args.if_match.as_deref())?;
        let macs = self.macs()?;
        let id = self.within_reach("rotate_key", &args.path[0]).await?;
        let key = KeyText::rotated(&id.to_string()).map_err(|_| no_entropy())?;
        let rotation = RotateKey { id, mac: Mac(macs.of(&key)), overlap_ms: args.body.overlap_ms };
        let rotated = self.keeper().rotate_key(rotation, request_id, expected).await.map_err(problem)?;
        let secret = if rotated.repeated { String::new() } else { key.reveal() };
        let replayed = rotated.repeated;
        let reply = Reply::RotateKey(wire::CreatedKey { key: self.shown(&rotated), secret });
        Ok(Answer { replayed, ..reply.into() })
    }

    pub async fn revoke_key(&self, args: One<NoBody>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, None)?;
        let expected = expected(args.if_match.as_deref())?;
        let id = self.within_reach("revoke_key", &args.path[0]).await?;
        let revoked = self.keeper().revoke_key(id, request_id, expected).await.map_err(problem)?;
        let replayed = revoked.repeated;
        Ok(Answer { replayed, ..Reply::RevokeKey(wire::RevokedKey { revoked: true }).into() })
    }

    /// Newest first. A caller that does not reach all namespaces sees the acts in its own.
    pub async fn list_audit(&self, args: Args<[String; 0], wire::AuditQuery, NoBody>) -> Result<Answer, Problem> {
        let query = args.query;
        let filters = (&query.principal, &query.verb, &query.target, query.from, query.until);
        let bound = Bound::new("list_audit", &self.caller.reach.to_string(), &filters);
        let cursor = query.cursor.as_deref().map(|cursor| bound.open(cursor)).transpose()?;
        let filter = AuditFilter {
            principal: query.principal.map(text),
            verb: query.verb.map(text),
            target: query.target.map(text),
            from: query.from.map(time),
            until: query.until.map(time),
            within: match &self.caller.reach {
                Reach::All => None,
                some => Some(some.clone()),
            },
            limit: Some(limit(query.limit)?),
            cursor,
        };
        let page = self.keeper().audit(filter).await.map_err(problem)?;
        let items = page.entries.iter().map(entry).collect();
        let next_cursor = page.next_cursor.map(|cursor| bound.seal(&cursor));
        Ok(Reply::ListAudit(Page { items, next_cursor }).into())
    }

    /// The log is one of the whole deployment, and so is its chain.
    pub async fn verify_audit(&self) -> Result<Answer, Problem> {
        if self.caller.reach != Reach::All {
            return Err(Problem::new(Code::Forbidden, "the audit log is that of all namespaces")
                .field("namespaces", self.caller.reach.to_string())
                .hint("use a key on `*`"));
        }
        let mut checked = wire::AuditChecked { sound: true, logs: Vec::new() };
        for partition in 0..self.engine.describe().partitions {
            let check = self.keeper().verify_audit(PartitionId(partition)).await.map_err(problem)?;
            let broken = check.broken.map(|entry| wire::BrokenAudit { no: entry.number, why: entry.why.to_string() });
            checked.sound &= broken.is_none();
            if check.end.number > 0 || broken.is_some() {
                let chain = check.end.chain.iter().map(|byte| format!("{byte:02x}")).collect();
                let (entries, last) = (check.entries, check.end.number);
                checked.logs.push(wire::AuditLog { partition, entries, last, chain, broken });
            }
        }
        Ok(Reply::VerifyAudit(checked).into())
    }

    fn sees(&self, key: &ApiKey) -> bool {
        self.caller.reach.covers(&key.body.namespaces)
    }

    /// The id of a key that the caller may change; one that reaches further reads like an unknown one. Whether there is
    /// such a key is for the core to say.
    async fn within_reach(&self, verb: &str, id: &str) -> Result<KeyId, Problem> {
        let found = key_id(id)?;
        let unseen = match self.caller.reach {
            Reach::All => false,
            Reach::Some(_) => self.engine.find_key(found).await.map_err(problem)?.is_some_and(|key| !self.sees(&key)),
        };
        if unseen { Err(self.refuse(verb, id, problem(Rejection::KeyNotFound))) } else { Ok(found) }
    }

    fn check_reach(&self, verb: &str, target: &str, namespaces: &Reach) -> Result<(), Problem> {
        if self.caller.reach.covers(namespaces) {
            return Ok(());
        }
        let refusal = Problem::new(Code::Forbidden, "a key cannot reach further than the key that makes it")
            .field("namespaces", self.caller.reach.to_string());
        Err(self.refuse(verb, target, refusal))
    }

    /// Tells the audit log of a refusal that the core does not see.
    pub fn refuse(&self, verb: &str, target: &str, refusal: Problem) -> Problem {
        let principal = self.caller.principal("".into());
        self.engine.audit_refusal(&principal, verb, target, refusal.code.name());
        refusal
    }

    fn expiry(&self, at: Option<Moment>, in_ms: Option<u64>) -> Result<Option<Time>, Problem> {
        match (at, in_ms) {
            (Some(_), Some(_)) => Err(Problem::invalid("expires_at", "and `expires_in_ms` are both given; give one")),
            (at, in_ms) => Ok(at.map(time).or_else(|| in_ms.map(|ms| self.engine.now() + ms))),
        }
    }

    fn shown(&self, key: &ApiKey) -> wire::Key {
        let body = &key.body;
        wire::Key {
            id: key.id.to_string(),
            name: body.name.to_string(),
            scopes: wire::KeyScope::ALL.into_iter().filter(|scope| body.scopes.has(scope_of(*scope))).collect(),
            namespaces: match &body.namespaces {
                Reach::All => vec!["*".to_string()],
                Reach::Some(names) => names.iter().map(|name| name.to_string()).collect(),
            },
            read_only: body.attributes.read_only,
            rate_class: match body.attributes.rate_class {
                RateClass::Default => wire::RateClass::Default,
                RateClass::Worker => wire::RateClass::Worker,
                RateClass::None => wire::RateClass::None,
            },
            creator: body.creator.to_string(),
            created_at: body.created_at.ms(),
            expires_at: body.expires_at.map(Time::ms),
            last_used_at: body.last_used_at.map(Time::ms),
            previous_until: key.previous_until(self.engine.now()).map(Time::ms),
        }
    }
}

/// An entry of the audit log as it is told.
pub fn entry(audit: &Audit) -> wire::AuditEntry {
    let act = &audit.body.act;
    let some = |text: &Text| Some(text.to_string()).filter(|text| !text.is_empty());
    wire::AuditEntry {
        no: audit.number,
        partition: audit.partition.0,
        at: act.at.ms(),
        principal: act.principal.to_string(),
        key: some(&act.key),
        address: some(&act.address),
        request_id: some(&act.request),
        verb: act.verb.to_string(),
        target: act.target.to_string(),
        change: some(&act.change),
        result: act.result.to_string(),
    }
}

/// A text that is no id is one that no key has.
fn key_id(text: &str) -> Result<KeyId, Problem> {
    text.parse().map_err(|_| problem(Rejection::KeyNotFound))
}

fn reach(names: Vec<String>) -> Result<Reach, Problem> {
    match names.iter().any(|name| name == "*") {
        true if names.len() == 1 => Ok(Reach::All),
        true => Err(Problem::invalid("namespaces", "has `*`, which means all, beside others")),
        false => {
            let mut names: Vec<Text> = names.into_iter().map(Text::from).collect();
            names.sort();
            names.dedup();
            Ok(Reach::Some(Arc::from(names)))
        }
    }
}

const fn scope_of(scope: wire::KeyScope) -> Scopes {
    match scope {
        wire::KeyScope::Submit => Scopes::SUBMIT,
        wire::KeyScope::Work => Scopes::WORK,
        wire::KeyScope::Signal => Scopes::SIGNAL,
        wire::KeyScope::Operate => Scopes::OPERATE,
        wire::KeyScope::Admin => Scopes::ADMIN,
    }
}

fn scopes(wanted: &[wire::KeyScope]) -> Scopes {
    wanted.iter().fold(Scopes::NONE, |all, scope| all.with(scope_of(*scope)))
}

const fn rate_class(class: wire::RateClass) -> RateClass {
    match class {
        wire::RateClass::Default => RateClass::Default,
        wire::RateClass::Worker => RateClass::Worker,
        wire::RateClass::None => RateClass::None,
    }
}

fn no_entropy() -> Problem {
    Problem::new(Code::Internal, "the system gave no random bytes")
}
