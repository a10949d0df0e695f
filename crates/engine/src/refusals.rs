//! Calls that were refused before they became commands, on their way to the audit log. All of them get there; those of
//! one caller that are alike share an entry that says how many they were, so that failing is no way to fill the store.
//! Nobody who is refused waits for it.

use crate::client::Urgency;
use crate::engine::Shared;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_core::command::{Call, Command, NoteRefusal, Origin, Principal};
use weft_core::record::api_key::HOME;
use weft_core::text::Text;

/// The first refusal is written at once; those after it are gathered for so long.
const GATHER_MS: u64 = 1_000;
/// Entries that wait to be written. Beyond so many different ones addresses are no longer told apart.
const WAITING_MAX: usize = 10_000;
/// Entries that are written together.
const WRITE: usize = 250;
/// The address of refusals that came from many.
const MANY: &str = "many";

/// Refusals that are not written yet.
#[derive(Default)]
pub struct Refusals(Mutex<Book>);

#[derive(Default)]
struct Book {
    waiting: BTreeMap<Alike, Noted>,
    /// Somebody writes them, and looks again afterwards.
    writing: bool,
}

/// What refusals that share an entry have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    principal: Text,
    namespace: Text,
    key: Text,
    address: Text,
    verb: Text,
    code: Text,
}

/// How many there were, and which request and target the first of them had.
#[derive(Clone, Debug)]
struct Noted {
    count: u64,
    request: Text,
    target: Text,
    other_targets: bool,
}

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> BTreeMap<Alike, Noted> {
        std::mem::take(&mut self.lock().waiting)
    }
}

impl Book {
    fn add(&mut self, mut alike: Alike, noted: Noted) {
        if self.waiting.len() >= WAITING_MAX && !self.waiting.contains_key(&alike) {
            alike.address = MANY.into();
        }
        match self.waiting.get_mut(&alike) {
            None => drop(self.waiting.insert(alike, noted)),
            Some(first) => {
                first.count += noted.count;
                first.other_targets |= noted.other_targets || noted.target != first.target;
            }
        }
    }
}

/// Notes one refusal, to be written soon.
pub(crate) fn note(shared: &Arc<Shared>, principal: &Principal, verb: &str, target: &str, code: &str) {
    let Origin { key, address, request } = principal.origin.as_deref().cloned().unwrap_or_default();
    let (principal, namespace) = (principal.name.clone(), principal.namespace.clone());
    let alike = Alike { principal, namespace, key, address, verb: verb.into(), code: code.into() };
    let mut book = shared.refusals.lock();
    book.add(alike, Noted { count: 1, request, target: target.into(), other_targets: false });
    if book.writing || shared.is_closing() {
        return;
    }
    book.writing = true;
    drop(book);
    let task = shared.clone();
    shared.start(async move {
        loop {
            write(&task).await;
            let closed = task.closed.notified();
            if !task.is_closing() {
                futures_util::future::select(task.runtime.sleep(GATHER_MS), Box::pin(closed)).await;
            }
            let mut book = task.refusals.lock();
            if book.waiting.is_empty() || task.is_closing() {
                book.writing = false;
                return;
            }
        }
    });
}

/// Writes what is waiting. What cannot be written now waits on.
pub(crate) async fn write(shared: &Shared) {
    let mut left = shared.refusals.take().into_iter().peekable();
    while left.peek().is_some() {
        let some: Vec<(Alike, Noted)> = left.by_ref().take(WRITE).collect();
        let calls = some.iter().map(|(alike, noted)| Ok(call(alike, noted))).collect();
        let answers = shared.run(calls, Urgency::Normal).await;
        for ((alike, noted), answer) in some.into_iter().zip(answers) {
            if let Err(rejection) = answer {
                tracing::warn!(%rejection, verb = %alike.verb, count = noted.count, "could not note a refusal yet");
                shared.refusals.lock().add(alike, noted);
            }
        }
    }
}

fn call(alike: &Alike, noted: &Noted) -> Call {
    let origin = Origin { key: alike.key.clone(), address: alike.address.clone(), request: noted.request.clone() };
    let note = NoteRefusal {
        partition: HOME,
        principal: alike.principal.clone(),
        namespace: alike.namespace.clone(),
        origin: Some(Arc::new(origin)),
        verb: alike.verb.clone(),
        target: noted.target.clone(),
        code: alike.code.clone(),
        times: noted.count,
        other_targets: noted.other_targets,
    };
    Call {
        principal: Principal::engine(),
        request_id: None,
        expected_revision: None,
        command: Command::NoteRefusal(note),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_28_no_refusal_is_lost_when_there_are_too_many_different_ones() {
        let mut book = Book::default();
        let alike = |address: usize| Alike {
            principal: "unknown".into(),
            namespace: "".into(),
            key: "".into(),
            address: address.to_string().into(),
            verb: "authenticate".into(),
            code: "unauthorized".into(),
        };
        for address in 0..WAITING_MAX + 500 {
            book.add(alike(address), Noted { count: 2, request: "".into(), target: "".into(), other_targets: false });
        }
        assert_eq!(book.waiting.len(), WAITING_MAX + 1);
        assert_eq!(book.waiting.values().map(|noted| noted.count).sum::<u64>(), 2 * (WAITING_MAX as u64 + 500));
        assert_eq!(book.waiting[&Alike { address: MANY.into(), ..alike(0) }].count, 1_000);
    }
}
