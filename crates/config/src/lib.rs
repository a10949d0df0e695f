//! What can be set about Weft. Owns the table of keys and all that follows from it: reading `weft.toml`, variables and
//! flags, the defaults, the example file and the page of the documentation. Never acts on a value.
//!
//! A new key is a row in `keys.rs` and nothing else here.

pub mod duration;
pub mod keys;
pub mod size;

mod example;
mod file;
mod flags;
mod injected;
mod kind;
mod mistake;
mod nearest;
mod network;
mod origin;
mod page;
mod relations;
mod row;
mod secret;
mod settings;
mod value;
mod variables;
mod words;

pub use example::example;
pub use flags::{Flag, arguments};
pub use kind::Kind;
pub use mistake::Mistake;
pub use network::Network;
pub use origin::Origin;
pub use page::page;
pub use row::{Area, Fallback, Key, Row};
pub use secret::Secret;
pub use settings::{Reloaded, Settings, Shown, Sources, injected_variables, unknown_variables};
pub use value::{Setting, Value};
pub use variables::{OTHERS, Other};
pub use words::{Durability, LogFormat, Migrate};

/// The name of the file that is read if no other is named.
pub const FILE: &str = "weft.toml";
