//! A commit as the server gets it: a transaction, or a call of the commit function; and its reply as an outcome.
//!
//! The layout of a call is the table at the top of `weft.lua`; a transaction writes the same.

use crate::groups::{Groups, Part, REVISION_BYTES};
use crate::keys::PartitionKeys;
use crate::members::Strings;
use redis::{Cmd, Pipeline, RedisWrite, Value as Reply};
use std::io::Write as _;
use weft_core::change::{Batch, Head, Position};
use weft_core::limits::{BYTES_PER_COMMIT_MAX, RECORDS_PER_COMMIT_MAX};
use weft_core::record::Key;
use weft_core::{CommitId, PartitionId, Time};
use weft_store::Outcome;

/// Stands between the revision and the bytes of part 0. A value that ends after the revision has no part 0.
const PRESENT: u8 = b'+';
const SCORE: &[u8] = b"0";

/// A commit, ready to be sent as a transaction or as a call of the commit function.
pub struct Call<'a> {
    batch: &'a Batch,
    groups: Groups<'a>,
    again: bool,
    refusal: Option<&'static str>,
}

/// Works out what a batch writes. With `again` a commit that was applied before is written once more, so that it can be
/// waited for.
pub fn call<'a>(keys: &'a PartitionKeys, partition: PartitionId, batch: &'a Batch, again: bool) -> Call<'a> {
    let refusal = refusal(partition, batch);
    let mut groups = Groups::new(keys, partition, batch);
    if refusal.is_none() {
        for write in &batch.writes {
            groups.write(write);
        }
        for entry in &batch.due_drops {
            groups.due.drop_entry(entry);
        }
    }
    groups.only_seen();
    Call { batch, groups, again, refusal }
}

/// What speaks against a batch whatever is stored.
fn refusal(partition: PartitionId, batch: &Batch) -> Option<&'static str> {
    if batch.writes.len() > RECORDS_PER_COMMIT_MAX || batch.weight() > BYTES_PER_COMMIT_MAX {
        return Some("the commit is larger than a store has to take");
    }
    let foreign = batch.writes.iter().any(|write| write.key.partition() != partition);
    foreign.then_some("the commit names a record of another partition")
}

fn write_value(command: &mut Cmd, id: CommitId, value: &Part<'_>) {
    match value {
        Part::Other(bytes) => command.write_arg(bytes),
        Part::First(bytes) => {
            let mut argument = command.writer_for_next_arg();
            let pieces = [Some(&id.0.as_bytes()[..]), bytes.map(|_| &[PRESENT][..]), *bytes];
            for piece in pieces.into_iter().flatten() {
                argument.write_all(piece).expect("command: it is written to memory");
            }
        }
    }
}

/// The revision and part 0 out of the value that holds them; `None` if it is not such a value.
pub fn first_part(value: &[u8]) -> Option<(CommitId, Option<&[u8]>)> {
    let (revision, rest) = value.split_first_chunk::<REVISION_BYTES>()?;
    let part = match rest.split_first() {
        None => None,
        Some((&PRESENT, bytes)) => Some(bytes),
        Some(_) => return None,
    };
    Some((CommitId(uuid::Uuid::from_bytes(*revision)), part))
}

impl Call<'_> {
    pub fn id(&self) -> CommitId {
        self.batch.id
    }

    /// Whether a partition that stands there takes this commit without a look at any record.
    pub fn holds_at(&self, head: Head) -> bool {
        let batch = self.batch;
        batch.fast
            && batch.expect.is_at(&head)
            && batch.now >= head.now
            && batch.raise.is_none()
            && self.refusal.is_none()
    }

    /// Appends the commands of a transaction that does what the commit function would do at `before`. Answers what the
    /// function would reply, and which command tells whether the id is new.
    pub fn transaction(&self, before: Head, all: &mut Pipeline) -> (Reply, usize) {
        let (groups, id) = (&self.groups, self.batch.id);
        let Position { generation, seq } = before.position.next();
        let head = format!("{generation} {seq} {}", self.batch.now.ms());
        all.cmd("XADD").arg(groups.names.feed()).arg(format!("{seq}-0")).arg("c").arg(&id.0.as_bytes()[..]);
        all.arg("e").arg(&self.batch.feed[..]);
        all.cmd("HSETNX").arg(groups.names.commits()).arg(&id.0.as_bytes()[..]).arg(&head);
        all.cmd("SET").arg(groups.names.head()).arg([head.as_bytes(), b" ", id.0.as_bytes()].concat());
        for (name, delta) in groups.sorted_sets() {
            if delta.gone.len() > 0 {
                let mut remove = Cmd::with_capacity(delta.gone.len() + 2, delta.gone.bytes.len() + 64);
                remove.arg("ZREM").arg(&name);
                delta.gone.iter().for_each(|member| remove.write_arg(member));
                all.add_command(remove);
            }
            if delta.come.len() > 0 {
                let mut add = Cmd::with_capacity(2 * delta.come.len() + 2, delta.come.bytes.len() * 2 + 64);
                add.arg("ZADD").arg(&name);
                for member in delta.come.iter() {
                    add.write_arg(SCORE);
                    add.write_arg(member);
                }
                all.add_command(add);
            }
        }
        self.write_records(all);
        (Reply::Array(vec![Reply::Int(1), Reply::BulkString(head.into_bytes())]), 1)
    }

    /// Appends the commands that write the parts of records.
    fn write_records(&self, all: &mut Pipeline) {
        let (groups, batch) = (&self.groups, self.batch);
        let set = groups.set.len() + groups.set_seen.keys.len();
        if set > 0 {
            let mut command = Cmd::with_capacity(2 * set + 1, batch.weight() + set * 64);
            command.arg("MSET");
            let names = groups.set.iter().chain(groups.set_seen.names.iter());
            for (name, value) in names.zip(groups.set_values.iter().chain(&groups.set_seen_values)) {
                command.write_arg(name);
                write_value(&mut command, batch.id, value);
            }
            all.add_command(command);
        }
        for name in groups.touched.names.iter() {
            all.cmd("SETRANGE").arg(name).arg(0).arg(&batch.id.0.as_bytes()[..]);
        }
        if groups.deleted.len() + groups.deleted_seen.keys.len() > 0 {
            let mut command = redis::cmd("DEL");
            groups.deleted_seen.names.iter().chain(groups.deleted.iter()).for_each(|name| command.write_arg(name));
            all.add_command(command);
        }
    }

    /// The call of the commit function.
    pub fn function(&self) -> Cmd {
        let (groups, batch) = (&self.groups, self.batch);
        let sets = groups.sorted_sets();
        let seen = [&groups.set_seen, &groups.touched, &groups.only, &groups.deleted_seen];
        let names = [&groups.set].into_iter().chain(seen.iter().map(|seen| &seen.names)).chain([&groups.deleted]);
        let counts = [sets.len()].into_iter().chain(names.clone().map(Strings::len));
        let keys = 3 + counts.clone().sum::<usize>();

        let mut command = Cmd::with_capacity(keys * 2 + 64, batch.weight() + keys * 64 + 512);
        command.arg("FCALL").arg(if self.only_frees() { "weft2_purge" } else { "weft2_commit" }).arg(keys);
        for key in [groups.names.head(), groups.names.feed(), groups.names.commits()] {
            command.write_arg(&key);
        }
        sets.iter().for_each(|(name, _)| command.write_arg(name));
        names.for_each(|names| names.iter().for_each(|name| command.write_arg(name)));

        let Head { position, last, .. } = batch.expect;
        command.write_arg(batch.id.0.as_bytes());
        command.arg(position.generation).arg(position.seq);
        command.write_arg(if last == CommitId::default() { &[] } else { &last.0.as_bytes()[..] });
        command.arg(batch.now.ms()).arg(position.next().seq);
        command.arg(self.flags());
        match batch.raise {
            Some(raise) => command.arg(raise.generation).arg(raise.seq),
            None => command.arg("").arg(""),
        };
        command.arg(self.refusal.unwrap_or_default()).write_arg(&batch.feed);
        command.write_arg(&seen.map(|seen| &seen.revisions[..]).concat());
        counts.for_each(|count| command.write_arg_fmt(count));
        for (_, delta) in &sets {
            command.arg(delta.gone.len()).arg(2 * delta.come.len());
            delta.gone.iter().for_each(|member| command.write_arg(member));
            for member in delta.come.iter() {
                command.write_arg(SCORE);
                command.write_arg(member);
            }
        }
        for value in groups.set_values.iter().chain(&groups.set_seen_values) {
            write_value(&mut command, batch.id, value);
        }
        command
    }

    fn flags(&self) -> String {
        let flags = [('f', self.batch.fast), ('s', self.batch.strict), ('w', self.again)];
        flags.into_iter().filter(|(_, set)| *set).map(|(flag, _)| flag).collect()
    }

    /// Whether it leaves less behind than it finds, but for its feed entry.
    fn only_frees(&self) -> bool {
        let groups = &self.groups;
        let adds = groups.sorted_sets().iter().any(|(_, delta)| delta.come.len() > 0);
        let removes = !self.batch.writes.is_empty() || !self.batch.due_drops.is_empty();
        removes && !adds && groups.set.len() == 0 && groups.set_seen.keys.is_empty()
    }

    /// What a reply of the commit function says; `None` if it is not one.
    pub fn outcome(&self, reply: &Reply) -> Option<Outcome> {
        let Reply::Array(fields) = reply else { return None };
        match fields.split_first()? {
            (Reply::Int(1), [left]) => {
                Some(Outcome::Applied { head: Head { last: self.batch.id, ..head(Some(left))? } })
            }
            (Reply::Int(2), [found]) => Some(Outcome::Lost { head: head(Some(found))? }),
            (Reply::Int(0), [found, places @ ..]) => {
                let key = |place: &Reply| match place {
                    Reply::Int(place) => self.groups.seen_key(*place),
                    _ => None,
                };
                let keys: Option<Vec<Key>> = places.iter().map(key).collect();
                Some(Outcome::Conflict { keys: keys?, head: head(Some(found))? })
            }
            _ => None,
        }
    }
}

/// The head out of `generation seq now last`, the last in bytes. A partition without one stands at the beginning.
pub fn head(value: Option<&Reply>) -> Option<Head> {
    let bytes = match value {
        Some(Reply::BulkString(bytes)) => &bytes[..],
        Some(Reply::SimpleString(text)) => text.as_bytes(),
        Some(Reply::Nil) => return Some(Head::default()),
        _ => return None,
    };
    let mut fields = bytes.splitn(4, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse::<u64>().ok();
    let (generation, seq, now) = (number()?, number()?, number()?);
    let last = match fields.next().unwrap_or_default() {
        [] => CommitId::default(),
        id => CommitId(uuid::Uuid::from_slice(id).ok()?),
    };
    Some(Head { position: Position { generation, seq }, last, now: Time::from_ms(now) })
}
