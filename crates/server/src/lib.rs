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
mod auth;
mod body;
mod bucket;
mod docs;
mod drain;
mod handle;
mod health;
mod listen;
mod metrics;
mod notices;
mod raw;
mod reply;
mod routes;
pub mod tls;

pub use app::{App, Options, Rates};
pub use auth::Bootstrap;
pub use listen::{Listener, ListenError, Stopped};
pub use routes::router;
