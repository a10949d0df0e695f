//! A race: three ways to the same answer, the first that gets there wins, and the others are stopped.
//!
//! ```console
//! $ cargo run --release -- dev
//! $ cargo run --example race
//! $ weft flow get ID                       # two members cancelled, and the flow completed
//! ```

#![allow(clippy::print_stdout)]

use std::time::Duration;
use weft_sdk::{Client, Ctx, Edge, Error, Failure, Group, Inputs, Json, Member, Node, Worker};

/// Answers after so many milliseconds, unless somebody else was quicker.
async fn ask(ctx: Ctx, Json(ms): Json<u64>) -> Result<Json<String>, Failure> {
    tokio::select! {
        _ = ctx.cancelled() => Err(Failure::permanent("somebody else was quicker")),
        () = tokio::time::sleep(Duration::from_millis(ms)) => Ok(Json(ctx.flow()?.key().to_string())),
    }
}

async fn answer(inputs: Inputs) -> Result<Json<String>, Failure> {
    let mut first: Vec<String> = inputs.all("answers[]").await?;
    first.pop().map(Json).ok_or_else(|| Failure::permanent("nobody answered"))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("WEFT_URL").unwrap_or_else(|_| "http://127.0.0.1:7700".to_owned());
    let weft = Client::connect(url).build().await?;
    let worker = Worker::new(weft.clone()).concurrency(8).handle("ask", ask).handle("answer", answer);
    let worker = tokio::spawn(worker.run());

    let mut flow = weft.flow("race");
    let any = Group::any_of().cancel_remaining();
    let answer: Node<String> = flow.node_of(Member::new("answer", "answer", &()).group(any));
    for (key, ms) in [("near", 100), ("far", 60_000), ("farther", 90_000)] {
        let ask: Node<String> = flow.node(key, "ask", &ms);
        flow.connect(Edge::new(&ask, &answer).input("answers[]"));
    }
    let flow = flow.submit().await?;
    match flow.result(&answer).await {
        Ok(winner) => println!("{winner} was first"),
        Err(error) => println!("{} did not get there: {error}", flow.id()),
    }
    let summary = flow.wait().await?.summary;
    println!("{} were stopped in {}", summary.members_neutral, flow.id());
    worker.abort();
    Ok(())
}
