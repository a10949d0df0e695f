//! The smallest worker: it greets.
//!
//! ```console
//! $ cargo run --release -- dev                        # a server, in one terminal
//! $ cargo run --example hello                         # this worker, in a second
//! $ weft submit greet --input '"Ada"' --wait          # in a third
//! ```

use weft_sdk::{Client, Error, Failure, Json, Worker, shutdown_signal};

async fn greet(Json(name): Json<String>) -> Result<Json<String>, Failure> {
    Ok(Json(format!("Hello, {name}!")))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("WEFT_URL").unwrap_or_else(|_| "http://127.0.0.1:7700".to_owned());
    let weft = Client::connect(url).build().await?;
    Worker::new(weft).concurrency(16).handle("greet", greet).run_until(shutdown_signal()).await
}
