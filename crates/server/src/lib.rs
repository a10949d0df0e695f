//! Weft over HTTP: an engine behind routes, keys and limits. Routes, permissions and the OpenAPI document all come from
//! the one table of operations in `weft-api`; what a call does is in `weft-dispatch`. This crate knows HTTP and nothing
//! of the rules.
//!
//! ```no_run
//! # async fn run(engine: weft_engine::Engine) -> Result<(), Box<dyn std::error::Error>> {
//! use weft_server::{App, Listener, Options};
//!
//! let app = App::new(engine, Options::dev());
//! let listener = Listener::bind(&app, "127.0.0.1:7700".parse()?, None).await?;
//! listener.run(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod access;
mod app;
mod around;
mod auth;
mod body;
mod bucket;
mod budget;
mod claim;
mod connection;
mod cors;
mod docs;
mod drain;
mod forwarded;
mod handle;
mod health;
mod identify;
mod kept;
mod leftover;
mod listen;
mod metrics;
mod notices;
mod pack;
mod pages;
mod query;
mod reply;
mod routes;
pub mod tls;
mod waiting;

pub use app::{App, Auth, Options, Rates};
pub use auth::{Finding, Keys, RateClass, StoredKey};
pub use bucket::Rate;
pub use budget::BodyMemory;
pub use connection::Silence;
pub use cors::{BadOrigin, Origins};
pub use docs::document_text;
pub use forwarded::Proxies;
pub use kept::Bootstrap;
pub use listen::{ListenError, Listener, Stopped};
pub use metrics::{FAMILIES as METRICS, page as metrics_page};
pub use routes::{metrics_router, router};
