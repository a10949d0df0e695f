//! A pipeline with a branch that fails: what depends on it is skipped, the rest goes on, an alarm is raised on the failure
//! and the clean-up runs whatever happened.
//!
//! ```console
//! $ cargo run --release -- dev
//! $ cargo run --example pipeline
//! $ weft flow graph ID                     # publish is skipped, alarm and clean-up have run
//! ```

#![allow(clippy::print_stdout)]

use weft_sdk::{Client, Error, Failure, Inputs, Json, Worker};

async fn step(Json(name): Json<String>) -> Result<Json<String>, Failure> {
    Ok(Json(format!("{name} done")))
}

async fn check(Json(name): Json<String>) -> Result<Json<String>, Failure> {
    Err(Failure::permanent(format!("{name}: the picture is too large")).category("check"))
}

async fn alarm(inputs: Inputs) -> Result<Json<String>, Failure> {
    let failure = inputs.failure("what").map(|failure| failure.message.clone());
    Ok(Json(failure.unwrap_or_else(|| "nothing is wrong".to_owned())))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("WEFT_URL").unwrap_or_else(|_| "http://127.0.0.1:7700".to_owned());
    let weft = Client::connect(url).build().await?;
    let worker = Worker::new(weft.clone()).handle("step", step).handle("check", check).handle("alarm", alarm);
    let worker = tokio::spawn(worker.run());

    let flow = weft
        .flow("pipeline")
        .member("fetch", "step", &"fetch")
        .member("index", "step", &"index")
        .member("check", "check", &"check")
        .member("publish", "step", &"publish")
        .member("alarm", "alarm", &())
        .member("clean-up", "step", &"clean-up")
        .edge("fetch", "index")
        .edge("fetch", "check")
        .edge("check", "publish")
        .edge("index", "publish")
        .edge("check", "alarm")
        .on_failure()
        .input("what")
        .edge("publish", "clean-up")
        .any()
        .edge("index", "clean-up")
        .any();
    let flow = flow.submit().await?;
    let summary = flow.wait().await?.summary;
    println!(
        "{} completed, {} failed, {} skipped",
        summary.members_completed, summary.members_failed, summary.members_skipped
    );
    match flow.member("alarm").await?.result::<String>().await {
        Ok(alarm) => println!("alarm: {alarm}"),
        Err(error) => println!("the alarm did not ring: {error}"),
    }
    println!("see `weft flow graph {}`", flow.id());
    worker.abort();
    Ok(())
}
