//! Retries, steps that are not done twice, and a failure that no retry mends: a card is charged by a bank whose line
//! breaks twice.
//!
//! ```console
//! $ cargo run --release -- dev
//! $ cargo run --example retries
//! $ weft submit charge --input '{"cents": 500}' --wait      # two retries, then it is paid
//! $ weft submit charge --input '{"cents": 0}' --wait        # fails at once and for good
//! $ weft get ID --attempts
//! ```

use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weft_sdk::{Client, Ctx, Error, Failure, Json, OrFail, State, Worker, shutdown_signal};

#[derive(Deserialize)]
struct Order {
    cents: u64,
}

#[derive(Serialize)]
struct Receipt {
    reservation: u32,
    payment: String,
    attempt: u32,
}

async fn charge(ctx: Ctx, Json(order): Json<Order>, State(bank): State<Arc<Bank>>) -> Result<Json<Receipt>, Failure> {
    if order.cents == 0 {
        return Err(Failure::permanent("there is nothing to charge").category("order"));
    }
    // Recorded when it succeeds: the attempts that follow get the same reservation, and the bank is not asked again.
    let reservation = ctx.step("reserve", || bank.reserve()).await?;
    // The key is the same in every attempt, so that the bank can tell a repeat from a second payment.
    let key = ctx.step_key("pay");
    let payment = ctx.step("pay", || bank.pay(order.cents, key)).await.retry_after(Duration::from_millis(100))?;
    Ok(Json(Receipt { reservation, payment, attempt: ctx.attempt() }))
}

/// A bank that is out of reach for the first two payments.
#[derive(Default)]
struct Bank {
    reservations: AtomicU32,
    payments: AtomicU32,
}

impl Bank {
    async fn reserve(&self) -> Result<u32, io::Error> {
        Ok(self.reservations.fetch_add(1, Ordering::Relaxed) + 1)
    }

    async fn pay(&self, cents: u64, key: String) -> Result<String, io::Error> {
        match self.payments.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(io::Error::new(io::ErrorKind::ConnectionReset, "the line to the bank broke")),
            _ => Ok(format!("{cents} cents paid once for {key}")),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("WEFT_URL").unwrap_or_else(|_| "http://127.0.0.1:7700".to_owned());
    let weft = Client::connect(url).build().await?;
    let worker = Worker::new(weft).pool("cards").state(Arc::new(Bank::default())).handle("charge", charge);
    worker.run_until(shutdown_signal()).await
}
