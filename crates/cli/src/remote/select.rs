//! One verb over one or many executions: by their ids, or by a filter. Asks before it touches many. What a filter selects is
//! done by a bulk job, where a person asks and the key may start one; a program is told of each execution, which takes a
//! call for each.

use super::page::{PAGE_MAX, walk};
use super::{Bulk, Filter, Form, Remote, names};
use crate::End;
use crate::fault::{Code, Fault};
use crate::render::{count, id};
use crate::terminal::{self, Progress};
use anyhow::{Context, Result};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use weft_api::bulk::BulkJob;
use weft_api::execution::{Counts, ListQuery, PublicState};
use weft_api::op;
use weft_api::operation::NoBody;

/// Calls on their way at once.
const AT_ONCE: usize = 16;

/// Which executions a verb is for.
#[derive(clap::Args)]
pub struct Selection {
    /// Ids, or unique ends of ids
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,

    #[command(flatten)]
    pub filter: Filter,

    /// All that the verb can be meant for
    #[arg(long, help_heading = "Selection")]
    pub all: bool,

    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// What it costs to have meant something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Danger {
    /// It can be taken back
    None,
    /// Work is ended, repeated or removed
    Destructive,
}

/// A verb, in the words of people.
pub struct Verb {
    /// `cancel`
    pub name: &'static str,
    /// `cancelled`
    pub past: &'static str,
    pub danger: Danger,
    /// What a filter without states is for; empty for every state
    pub states: &'static [PublicState],
}

/// States in which something may still happen.
pub const LIVE: &[PublicState] = &[
    PublicState::Waiting,
    PublicState::Delayed,
    PublicState::Held,
    PublicState::WaitingChildren,
    PublicState::RateLimited,
    PublicState::Active,
    PublicState::Suspended,
];

/// States in which nothing happens any more.
pub const ENDED: &[PublicState] =
    &[PublicState::Completed, PublicState::Failed, PublicState::Cancelled, PublicState::Expired, PublicState::Skipped];

/// The end of the verb for one execution.
#[derive(Serialize)]
struct Done<T> {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refused>,
}

/// One object for all.
#[derive(Serialize)]
struct Results<'a, T> {
    results: &'a [Done<T>],
}

#[derive(Serialize)]
struct Refused {
    code: String,
    detail: String,
}

/// Applies `one` to every execution that is selected, or starts `bulk` for those of a filter. `shown` tells a person what
/// became of one.
pub async fn apply<T: Serialize, F: Future<Output = Result<T>>>(
    remote: &Remote,
    selection: Selection,
    verb: &Verb,
    bulk: Option<Bulk>,
    one: impl Fn(String) -> F,
    shown: impl Fn(&T) -> String,
) -> Result<End> {
    let tally = Tally {
        remote,
        verb,
        shown,
        results: Vec::new(),
        by_filter: false,
        total: 1,
        done: 0,
        refused: BTreeMap::new(),
    };
    let mut run = Run { one, tally };
    match selection.check(verb)? {
        true => run.by_filter(selection, bulk).await,
        false => run.by_ids(selection).await,
    }
}

impl Selection {
    /// True if a filter selects, false if ids do. Both or neither is misuse.
    fn check(&self, verb: &Verb) -> Result<bool> {
        let by_filter = !self.filter.is_empty() || self.all;
        match (self.ids.is_empty(), by_filter) {
            (false, true) => Err(Fault::usage("ids and a filter exclude each other")),
            (true, false) => Err(Fault::new(Code::Usage, format!("nothing to {} is named", verb.name))
                .hint("name ids, or select with `--lane`, `--kind`, `--state`, `--tag` or `--filter`; `--all` selects everything")
                .into()),
            (_, by_filter) => Ok(by_filter),
        }
    }
}

struct Run<'a, One, Shown, T> {
    one: One,
    tally: Tally<'a, Shown, T>,
}

/// What has been done so far, and how it is told.
struct Tally<'a, Shown, T> {
    remote: &'a Remote,
    verb: &'a Verb,
    shown: Shown,
    /// Kept for one JSON object at the end
    results: Vec<Done<T>>,
    /// Executions of a filter are reported by their number, even a single one
    by_filter: bool,
    /// How many are to be done; 0 if that is not known
    total: u64,
    done: u64,
    refused: BTreeMap<String, u64>,
}

impl<T, F, One, Shown> Run<'_, One, Shown, T>
where
    T: Serialize,
    F: Future<Output = Result<T>>,
    One: Fn(String) -> F,
    Shown: Fn(&T) -> String,
{
    async fn by_ids(&mut self, selection: Selection) -> Result<End> {
        let Tally { remote, verb, .. } = self.tally;
        let ids = names(remote, &selection.ids).await?;
        if let [only] = &ids[..] {
            let ok = (self.one)(only.clone()).await?;
            self.tally.note(Done { id: only.clone(), ok: Some(ok), error: None }, true)?;
            return self.tally.end();
        }
        let question = format!("{} {}?", verb.name, count(ids.len() as u64, "execution"));
        if verb.danger == Danger::Destructive && !confirm(selection.yes, &question).await? {
            return Ok(End::Refused);
        }
        self.tally.total = ids.len() as u64;
        let progress = Progress::new(remote.colour, verb.name, ids.len() as u64);
        self.all(ids, &progress, true).await?;
        progress.end();
        self.tally.end()
    }

    async fn by_filter(&mut self, selection: Selection, bulk: Option<Bulk>) -> Result<End> {
        let Tally { remote, verb, .. } = self.tally;
        let mut filter = selection.filter.resolve(remote).await?;
        if filter.state.is_empty() {
            filter.state = verb.states.to_vec();
        }
        let doing = format!("count what to {}", verb.name);
        let counted = remote.call::<op::CountExecutions>(&doing, [], filter.count(), NoBody {}).await?;
        if counted.total == 0 && !counted.at_least {
            remote.say(&format!("nothing to {}: no execution is selected", verb.name));
            return self.tally.end();
        }
        let question = question(verb.name, counted.total, counted.at_least);
        // Also for a single execution: a filter does not show what it selects, and the next run may select more.
        if !confirm(selection.yes, &question).await? {
            return Ok(End::Refused);
        }
        self.tally.by_filter = true;
        let total = total(&counted);
        self.tally.total = total;
        if let Some(bulk) = bulk.filter(|_| remote.form == Form::People)
            && let Some(job) = bulk.run(remote, verb.name, &filter, total).await?
        {
            self.tally.take(job);
            return self.tally.end();
        }
        let progress = Progress::new(remote.colour, verb.name, total);
        let query = ListQuery { limit: Some(PAGE_MAX), ..filter.list() };
        let doing = format!("find what to {}", verb.name);
        walk(remote, &doing, query, async |page| {
            self.all(page.into_iter().map(|execution| execution.id).collect(), &progress, false).await?;
            Ok(true)
        })
        .await?;
        progress.end();
        self.tally.end()
    }

    async fn all(&mut self, ids: Vec<String>, progress: &Progress, tell_each: bool) -> Result<()> {
        let Self { one, tally } = self;
        let one = &*one;
        let calls = ids.into_iter().map(|id| async move { (id.clone(), one(id).await) });
        let mut answered = stream::iter(calls).buffered(AT_ONCE);
        tally.if_interrupted();
        while let Some((id, answer)) = answered.next().await {
            progress.advance();
            let done = match answer {
                Ok(ok) => Done { id, ok: Some(ok), error: None },
                // Whoever is not heard or not allowed is so for every other one too.
                Err(error) if Fault::exit_code(&error) > Code::Refused as u8 => return Err(tally.broken_off(error)),
                Err(error) => {
                    let (code, detail) = Fault::named_parts(&error);
                    Done { id, ok: None, error: Some(Refused { code, detail }) }
                }
            };
            tally.note(done, tell_each)?;
            tally.if_interrupted();
        }
        Ok(())
    }
}

impl<T: Serialize, Shown: Fn(&T) -> String> Tally<'_, Shown, T> {
    fn so_far(&self) -> String {
        match self.total {
            0 => format!("{} {}", self.verb.past, count(self.done, "execution")),
            total => format!("{} {} of {}", self.verb.past, self.done, count(total, "execution")),
        }
    }

    /// What was done stays done, so it is told.
    fn if_interrupted(&self) {
        self.remote.if_interrupted(format!("interrupted: {}; a few more may be on their way", self.so_far()));
    }

    fn broken_off(&self, error: anyhow::Error) -> anyhow::Error {
        if self.done > 0 {
            self.remote.say(&format!("broken off: {}", self.so_far()));
        }
        error
    }

    /// What a job did, whose executions are not told one by one.
    fn take(&mut self, job: BulkJob) {
        self.done = job.done;
        self.refused = job.refused;
        if job.unreadable > 0 {
            let count = count(job.unreadable, "execution");
            self.remote
                .say(&format!("{count} could not be read, and may have been meant: `weft doctor --deep` names them"));
        }
    }

    fn note(&mut self, done: Done<T>, tell: bool) -> Result<()> {
        match &done.error {
            None => self.done += 1,
            Some(refused) => {
                *self.refused.entry(refused.code.clone()).or_default() += 1;
                if tell && self.remote.form != Form::Json && self.remote.form != Form::Jsonl {
                    terminal::say(&format!("{}  {}: {}", id::short(&done.id), refused.code, refused.detail));
                }
            }
        }
        match self.remote.form {
            Form::Json => self.results.push(done),
            Form::Jsonl => terminal::put(&serde_json::to_string(&done)?)?,
            Form::Ids if done.ok.is_some() => terminal::put(&done.id)?,
            Form::People if tell => {
                if let Some(ok) = &done.ok {
                    terminal::put(&format!("{}  {}", done.id, (self.shown)(ok)))?;
                }
            }
            Form::Ids | Form::People => {}
        }
        Ok(())
    }

    fn end(&self) -> Result<End> {
        if self.remote.form == Form::Json {
            terminal::put(&serde_json::to_string(&Results { results: &self.results })?)?;
        }
        let refused: u64 = self.refused.values().sum();
        if self.by_filter || self.done + refused > 1 {
            let codes = self.refused.iter().map(|(code, times)| format!("{times} {code}"));
            let refusals = match refused {
                0 => String::new(),
                _ => format!("; {refused} refused: {}", codes.collect::<Vec<_>>().join(", ")),
            };
            self.remote.say(&format!("{} {}{refusals}", self.verb.past, count(self.done, "execution")));
        }
        Ok(if refused > 0 { End::Refused } else { End::Done })
    }
}

/// Does `one` to each of several things that are no executions, whatever becomes of the others. With `--json` one object
/// tells of all; `shown` tells a person of one.
pub async fn each<T: Serialize, F: Future<Output = Result<T>>>(
    remote: &Remote,
    ids: Vec<String>,
    one: impl Fn(String) -> F,
    shown: impl Fn(&T) -> String,
) -> Result<End> {
    let alone = ids.len() == 1;
    let mut results = Vec::new();
    for id in ids {
        let done = match one(id.clone()).await {
            Ok(ok) => Done { id, ok: Some(ok), error: None },
            Err(error) if alone || Fault::exit_code(&error) > Code::Refused as u8 => return Err(error),
            Err(error) => {
                let (code, detail) = Fault::named_parts(&error);
                Done { id, ok: None, error: Some(Refused { code, detail }) }
            }
        };
        match (remote.form, &done.ok, &done.error) {
            (Form::Json, _, _) => {}
            (Form::Jsonl, _, _) => terminal::put(&serde_json::to_string(&done)?)?,
            (Form::Ids, Some(_), _) => terminal::put(&done.id)?,
            (Form::People, Some(ok), _) => terminal::put(&format!("{}  {}", done.id, shown(ok)))?,
            (_, None, Some(refused)) => terminal::say(&format!("{}  {}: {}", done.id, refused.code, refused.detail)),
            (_, None, None) => {}
        }
        results.push(done);
    }
    if remote.form == Form::Json {
        terminal::put(&serde_json::to_string(&Results { results: &results })?)?;
    }
    Ok(if results.iter().any(|done| done.error.is_some()) { End::Refused } else { End::Done })
}

/// Asks for the executions of a filter. A count that took too long is a lower bound, and one of 0 says nothing.
fn question(verb: &str, total: u64, at_least: bool) -> String {
    match (total, at_least) {
        (0, true) => format!("{verb} all executions of the filter, which could not be counted in time?"),
        (total, true) => format!("{verb} at least {}?", count(total, "execution")),
        (total, false) => format!("{verb} {}?", count(total, "execution")),
    }
}

/// How many executions there are to be done with; 0 if that is not known, as of a lower bound.
fn total(counted: &Counts) -> u64 {
    if counted.at_least { 0 } else { counted.total }
}

/// Asks a question that is answered by yes or no. Where nobody can be asked it refuses, unless `yes` was said before.
pub async fn confirm(yes: bool, question: &str) -> Result<bool> {
    if yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Fault::new(Code::Refused, format!("{question} there is no terminal to ask on"))
            .named("confirmation_required")
            .hint("`--yes` says yes before")
            .into());
    }
    let question = question.to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let mut err = std::io::stderr();
        write!(err, "{question} [y/N] ")?;
        err.flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        Ok::<_, std::io::Error>(matches!(answer.trim(), "y" | "Y" | "yes"))
    });
    let yes = asked.await.context("the question was not asked")?.context("could not ask")?;
    if !yes {
        terminal::say("nothing was done");
    }
    Ok(yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_no_number_that_is_not_known() {
        assert_eq!(question("cancel", 1, false), "cancel 1 execution?");
        assert_eq!(question("cancel", 7, true), "cancel at least 7 executions?");
        let uncounted = question("cancel", 0, true);
        assert_eq!(uncounted, "cancel all executions of the filter, which could not be counted in time?");
    }

    #[test]
    fn a_lower_bound_is_no_total() {
        let counts = |at_least| Counts { total: 7, at_least, ..Counts::default() };
        assert_eq!((total(&counts(false)), total(&counts(true))), (7, 0));
    }
}
