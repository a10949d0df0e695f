//! What goes over the wire: one Rust type per request and reply, one table of all operations, and the OpenAPI document
//! made from both. The server and the clients share this crate and nothing else. It knows neither HTTP libraries nor the
//! engine, so that a field renamed inside the engine cannot change what a client sees.

pub mod problem;

pub mod payload;
pub mod time;

pub mod bulk;
pub mod execution;
pub mod flow;
pub mod key;
pub mod node;
pub mod page;
pub mod scanner;
pub mod work;
pub mod worker;

mod batch;
mod big;
mod decode;
mod document;
mod errors;
pub mod operation;
mod raw;
mod reader;
mod table;
pub mod trace;
mod unique;

pub use batch::{Many, Unreadable};
pub use big::with_big_as_text;
pub use decode::{json_depth, mistake_of_json, mistake_of_query};
pub use document::document;
pub use errors::errors_page;
pub use operation::{Args, Body, Method, Operation, Reading, Scope, Spec};
pub use page::{Batch, Item, Page, Results};
pub use payload::Payload;
pub use problem::{Class, Code, Problem, nearest};
pub use raw::{RawForm, from_raw, has_raw_form};
pub use reader::Reader;
pub use table::{Call, OPERATIONS, Reply, op};
pub use time::Moment;

/// Items of a batch.
pub const BATCH_ITEMS_MAX: usize = 1_000;
/// Nesting of a request body.
pub const JSON_DEPTH_MAX: usize = 64;
/// The namespace of a server that asks nobody for a key.
pub const NAMESPACE_DEFAULT: &str = "default";
