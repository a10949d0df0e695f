//! Talking to a server: the connection, calls, and what their errors mean for the exit code. Commands hold what they
//! ask and what they show; how it travels is the client library's.

mod bulk;
mod input;
mod name;
mod options;
mod page;
mod problem;
mod select;
mod wait;

pub use bulk::{Bulk, follow};
pub use input::{read_input, read_stdin};
pub use name::{flow_name, names};
pub use options::{Here, Options, With, duration};
pub use page::{Filter, moment, states, tag, walk};
pub use problem::{fault, told};
pub use select::{Danger, ENDED, LIVE, Selection, Verb, apply, confirm, each};
pub use wait::{Heard, Patience, TIMED_OUT, until_all_done, until_done, until_flow_done};

use crate::terminal::{self, Colour};
use anyhow::Result;
use serde::Serialize;
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use weft_api::{Args, Operation};

/// For whom the output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    People,
    /// One object
    Json,
    /// One line per item
    Jsonl,
    /// Ids and values, nothing around them
    Ids,
}

/// A server, and how to show what it says.
pub struct Remote {
    client: weft_sdk::Client,
    /// Where commands work; None leaves it to the key
    pub namespace: Option<String>,
    /// The same if it was said on the command line
    pub given_namespace: Option<String>,
    pub form: Form,
    quiet: bool,
    pub colour: Colour,
    /// How long to wait for something to end; None for as long as it takes
    pub patience: Option<Duration>,
    parting: Parting,
}

/// What is said, and done before, if the command is interrupted now.
#[derive(Clone, Default)]
struct Parting(Rc<RefCell<Option<Farewell>>>);

struct Farewell {
    line: String,
    act: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

/// How long something may take that is done after an interrupt.
const FAREWELL: Duration = Duration::from_secs(5);

impl Parting {
    /// Does what is to be done, and answers what is to be said.
    async fn take(&self) -> Option<String> {
        let Farewell { line, act } = self.0.take()?;
        if let Some(act) = act {
            // It was tried; the line says what it was about.
            drop(tokio::time::timeout(FAREWELL, act).await);
        }
        Some(line)
    }
}

impl Remote {
    /// Calls an operation. `doing` completes the sentence "cannot …" if it is refused.
    pub async fn call<O: Operation>(
        &self,
        doing: &str,
        path: O::Path,
        query: O::Query,
        body: O::Body,
    ) -> Result<O::Reply> {
        let args = Args::new(path, query, body);
        self.client.call::<O>(args).await.map_err(|error| problem::fault(doing, error))
    }

    /// Says something about the work to the person, unless nobody wants to hear it.
    pub fn say(&self, line: &str) {
        if !self.quiet {
            terminal::say(line);
        }
    }

    /// What is said if the command is interrupted from here on.
    pub fn if_interrupted(&self, line: impl Into<String>) {
        self.parting.0.replace(Some(Farewell { line: line.into(), act: None }));
    }

    /// The same, with something to do first.
    pub fn if_interrupted_then(&self, line: impl Into<String>, act: impl Future<Output = ()> + 'static) {
        self.parting.0.replace(Some(Farewell { line: line.into(), act: Some(Box::pin(act)) }));
    }

    /// Writes one thing: as JSON, as the id or value that stands for it, or as a person reads it.
    pub fn put<T: Serialize>(&self, item: &T, id: &str, shown: impl FnOnce() -> String) -> Result<()> {
        match self.form {
            Form::Json | Form::Jsonl => terminal::put(&serde_json::to_string(item)?),
            Form::Ids => terminal::put(id),
            Form::People => terminal::put(&shown()),
        }
    }

    /// Writes a list: one object with `items`, a line each, ids, or a table.
    pub fn put_all<T: Serialize>(
        &self,
        items: &[T],
        id: impl Fn(&T) -> String,
        shown: impl FnOnce() -> String,
    ) -> Result<()> {
        #[derive(Serialize)]
        struct Items<'a, T> {
            items: &'a [T],
        }
        match self.form {
            Form::Json => terminal::put(&serde_json::to_string(&Items { items })?),
            Form::Jsonl => items.iter().try_for_each(|item| terminal::put(&serde_json::to_string(item)?)),
            Form::Ids => items.iter().try_for_each(|item| terminal::put(&id(item))),
            Form::People => terminal::put(&shown()),
        }
    }
}
