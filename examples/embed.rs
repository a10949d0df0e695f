//! Weft inside a web application: the engine, its SQLite file and the worker live in the process that takes the orders.
//! What was answered with an id is packed, also if the process is killed in between and started again.
//!
//! ```console
//! $ cargo run --example embed -- 127.0.0.1:8080 orders.db
//! $ curl -d '{"number": 17, "items": 3}' -H 'content-type: application/json' http://127.0.0.1:8080/orders
//! $ curl http://127.0.0.1:8080/orders/x_0_…
//! ```

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use std::future::IntoFuture;
use std::io::Write;
use weft_engine::{Config, Engine};
use weft_sdk::api::execution::Execution;
use weft_sdk::{Client, Ctx, Failure, Json, Worker, shutdown_signal};
use weft_store_sqlite::{Options, SqliteStore};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
    items: u32,
}

/// Answers when the order is safe on disk; an order that is sent twice is packed once.
async fn take(
    State(weft): State<Client>,
    axum::Json(order): axum::Json<Order>,
) -> Result<(StatusCode, String), (StatusCode, String)> {
    let key = format!("order-{}", order.number);
    let run = weft.submit("order.pack", &order).idempotency_key(key).await.map_err(refused)?;
    Ok((StatusCode::ACCEPTED, run.id().to_owned()))
}

async fn show(
    State(weft): State<Client>,
    Path(id): Path<String>,
) -> Result<axum::Json<Execution>, (StatusCode, String)> {
    weft.run(id).get().await.map(axum::Json).map_err(refused)
}

fn refused(error: weft_sdk::Error) -> (StatusCode, String) {
    let status = match &error {
        weft_sdk::Error::Rejected(problem) => StatusCode::from_u16(problem.status).ok(),
        _ => None,
    };
    (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error.to_string())
}

/// The work. Progress is shown by `GET /orders/{id}` while it goes on.
async fn pack(ctx: Ctx, Json(order): Json<Order>) -> Result<Json<String>, Failure> {
    for item in 1..=order.items {
        ctx.step(&format!("item {item}"), || async move { Ok::<_, Failure>(item) }).await?;
        ctx.progress((item * 100 / order.items) as u8, format!("item {item} of {}", order.items)).later();
    }
    Ok(Json(format!("order {} packed", order.number)))
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let file = words.next().unwrap_or_else(|| "orders.db".to_owned());

    let engine = Engine::open(SqliteStore::open(Options::new(file))?, Config::default()).await?;
    let weft = Client::embedded(engine.clone()).namespace("shop").principal("service:orders");
    let worker = Worker::new(weft.clone()).pool("packers").concurrency(8).handle("order.pack", pack);

    let app = Router::new().route("/orders", post(take)).route("/orders/{id}", get(show)).with_state(weft);
    let socket =
        tokio::net::TcpListener::bind(&address).await.with_context(|| format!("cannot listen on {address}"))?;
    writeln!(std::io::stdout(), "orders are taken on http://{}", socket.local_addr()?)?;
    let server = axum::serve(socket, app).with_graceful_shutdown(shutdown_signal()).into_future();
    let (served, worked) = tokio::join!(server, worker.run_until(shutdown_signal()));
    engine.shutdown().await;
    served?;
    Ok(worked?)
}
