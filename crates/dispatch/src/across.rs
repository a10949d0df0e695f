//! Reads across namespaces. A call that names none, by a caller who may read several, reads all of them: one after the
//! other, in the order of their names.

use crate::cursor::Bound;
use crate::rejection::problem;
use crate::{Acting, Reach};
use serde::Serialize;
use weft_api::{Page, Problem};
use weft_core::error::Rejection;
use weft_core::text::Text;
use weft_engine::Client;

/// Namespaces that one page looks at; one that found little in so many is short, and has a cursor.
const LOOK_MAX: usize = 200;
/// Namespaces that are asked for at a time.
const NAMES: usize = 50;
/// Parts a namespace from what it says of a page; no name has one.
const SEPARATOR: char = ' ';

/// Which namespaces there are, for a caller who may read all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Those that hold executions.
    Executions,
    /// Those that have worker processes.
    Workers,
}

/// Which page is asked for.
pub struct Asked {
    pub cursor: Option<String>,
    pub limit: usize,
}

impl Acting<'_> {
    /// Namespaces that a read looks at, in order, after `after`.
    pub async fn namespaces_after(&self, of: Of, after: Option<&str>, max: usize) -> Result<Vec<Text>, Problem> {
        match self.caller.chosen()? {
            Some(one) => {
                Ok([one].into_iter().filter(|one| after.is_none_or(|after| &***one > after)).cloned().collect())
            }
            None => self.reachable_after(of, after, max).await,
        }
    }

    /// Namespaces that the caller may read, whichever the call names.
    pub async fn reachable_after(&self, of: Of, after: Option<&str>, max: usize) -> Result<Vec<Text>, Problem> {
        let beyond = |name: &&Text| after.is_none_or(|after| &***name > after);
        match (&self.caller.reach, of) {
            (Reach::Some(names), _) => {
                let mut names: Vec<Text> = names.iter().filter(beyond).cloned().collect();
                names.sort();
                names.dedup();
                names.truncate(max);
                Ok(names)
            }
            (Reach::All, Of::Executions) => self.engine.namespaces(after, max).await.map_err(problem),
            (Reach::All, Of::Workers) => self.engine.worker_namespaces(after, max).await.map_err(problem),
        }
    }

    /// All of them, for what has to be exact.
    pub async fn all_namespaces(&self, of: Of) -> Result<Vec<Text>, Problem> {
        let mut all: Vec<Text> = Vec::new();
        loop {
            let more = self.namespaces_after(of, all.last().map(|last| &**last), NAMES).await?;
            if more.is_empty() {
                return Ok(all);
            }
            all.extend(more);
        }
    }

    /// One page. `page` reads a part of it in the namespace of its client: from a cursor of its own, so many items at most.
    pub async fn across<T, F>(
        &self,
        of: Of,
        operation: &str,
        filters: &(impl Serialize + ?Sized),
        asked: Asked,
        page: impl Fn(Client, Option<String>, usize) -> F,
    ) -> Result<Page<T>, Problem>
    where
        F: Future<Output = Result<(Vec<T>, Option<String>), Problem>>,
    {
        let one = self.caller.chosen()?.cloned();
        let bound = Bound::new(operation, one.as_deref().unwrap_or_default(), filters);
        let opened = asked.cursor.map(|cursor| bound.open(&cursor)).transpose()?;
        let client = |namespace: Text| self.engine.client_as(self.caller.principal(namespace));
        if let Some(one) = one {
            let (items, next) = page(client(one), opened, asked.limit).await?;
            return Ok(Page { items, next_cursor: next.map(|next| bound.seal(&next)) });
        }
        let (mut after, mut resumed) = match &opened {
            None => (None, None),
            Some(opened) => {
                let (name, inner) = self.resume(opened)?;
                (Some(name.clone()), inner.map(|inner| (name, inner)))
            }
        };
        let (mut items, mut looked) = (Vec::new(), 0);
        loop {
            let (names, mut inner) = match resumed.take() {
                Some((name, inner)) => (vec![name], Some(inner)),
                None => (self.namespaces_after(of, after.as_deref(), NAMES).await?, None),
            };
            if names.is_empty() {
                return Ok(Page { items, next_cursor: None });
            }
            for name in names {
                let (found, next) = page(client(name.clone()), inner.take(), asked.limit - items.len()).await?;
                items.extend(found);
                looked += 1;
                if let Some(next) = next {
                    return Ok(Page { items, next_cursor: Some(bound.seal(&format!("{name}{SEPARATOR}{next}"))) });
                }
                if items.len() == asked.limit || looked == LOOK_MAX {
                    // The cursor is absent exactly at the end.
                    let more = !self.namespaces_after(of, Some(&name), 1).await?.is_empty();
                    return Ok(Page { items, next_cursor: more.then(|| bound.seal(&format!("{name}{SEPARATOR}"))) });
                }
                after = Some(name);
            }
        }
    }

    /// Where a cursor goes on: after a namespace, or at a place inside of it.
    fn resume(&self, opened: &str) -> Result<(Text, Option<String>), Problem> {
        let invalid = || problem(Rejection::InvalidCursor);
        let (name, inner) = opened.split_once(SEPARATOR).ok_or_else(invalid)?;
        // A cursor gives no rights: the key may have lost some since, and anybody can make one up.
        if !self.caller.reach.holds(name) {
            return Err(invalid());
        }
        Ok((name.into(), (!inner.is_empty()).then(|| inner.to_string())))
    }
}
