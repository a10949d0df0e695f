//! A vote: two of three are enough. The one that says no, or never answers, holds nobody up.
//!
//! ```console
//! $ cargo run --release -- dev
//! $ cargo run --example vote
//! $ weft flow graph ID
//! ```

#![allow(clippy::print_stdout)]

use weft_sdk::{Client, Edge, Error, Failure, Group, Inputs, Json, Member, Node, Worker};

async fn review(Json(says): Json<Option<String>>) -> Result<Json<String>, Failure> {
    says.map(Json).ok_or_else(|| Failure::permanent("has a conflict of interest"))
}

async fn decide(inputs: Inputs) -> Result<Json<Vec<String>>, Failure> {
    Ok(Json(inputs.all("reviews[]").await?))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("WEFT_URL").unwrap_or_else(|_| "http://127.0.0.1:7700".to_owned());
    let weft = Client::connect(url).build().await?;
    let worker = Worker::new(weft.clone()).handle("review", review).handle("decide", decide);
    let worker = tokio::spawn(worker.run());

    // One that abstains is no failure of the vote.
    let mut flow = weft.flow("vote").collect_all();
    let two = Group::quorum(2).let_run();
    let decide: Node<Vec<String>> = flow.node_of(Member::new("decide", "decide", &()).group(two));
    for (key, says) in [("ann", Some("yes")), ("bob", None), ("eve", Some("yes, with a remark"))] {
        let review: Node<String> = flow.node(key, "review", &says);
        flow.connect(Edge::new(&review, &decide).input("reviews[]"));
    }
    let flow = flow.submit().await?;
    match flow.result(&decide).await {
        Ok(reviews) => println!("accepted by {}: {}", reviews.len(), reviews.join("; ")),
        Err(error) => println!("{} was not decided: {error}", flow.id()),
    }
    flow.wait().await?;
    println!("counted in {}", flow.id());
    worker.abort();
    Ok(())
}
