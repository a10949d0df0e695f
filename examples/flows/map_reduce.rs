//! Fan-out and fan-in: a text is split, the pieces are counted side by side, and one member adds the counts up.
//!
//! ```console
//! $ cargo run --release -- dev
//! $ cargo run --example map_reduce
//! $ weft flow graph ID --svg -o map_reduce.svg
//! ```

#![allow(clippy::print_stdout)]

use weft_sdk::{Client, Edge, Error, Failure, Inputs, Json, Node, Worker};

const TEXT: &str = "the quick brown fox jumps over the lazy dog and the dog sleeps on";
const PIECES: usize = 6;

async fn split(Json(text): Json<String>) -> Result<Json<Vec<String>>, Failure> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pieces = words.chunks(words.len().div_ceil(PIECES).max(1));
    Ok(Json(pieces.map(|piece| piece.join(" ")).collect()))
}

/// Each counts the piece with its own number, out of what `split` left.
async fn count(Json(number): Json<usize>, inputs: Inputs) -> Result<Json<usize>, Failure> {
    let pieces: Vec<String> = inputs.get("pieces").await?;
    Ok(Json(pieces.get(number).map_or(0, |piece| piece.split_whitespace().count())))
}

async fn reduce(inputs: Inputs) -> Result<Json<usize>, Failure> {
    Ok(Json(inputs.all::<usize>("counts[]").await?.into_iter().sum()))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("WEFT_URL").unwrap_or_else(|_| "http://127.0.0.1:7700".to_owned());
    let weft = Client::connect(url).build().await?;
    let worker = Worker::new(weft.clone()).handle("split", split).handle("count", count).handle("reduce", reduce);
    let worker = tokio::spawn(worker.run());

    let mut flow = weft.flow("map-reduce");
    let split: Node<Vec<String>> = flow.node("split", "split", &TEXT);
    let reduce: Node<usize> = flow.node("reduce", "reduce", &());
    for number in 0..PIECES {
        let count: Node<usize> = flow.node(format!("count-{number}"), "count", &number);
        flow.connect(Edge::new(&split, &count).input("pieces"));
        flow.connect(Edge::new(&count, &reduce).input("counts[]"));
    }
    let flow = flow.submit().await?;
    match flow.result(&reduce).await {
        Ok(words) => println!("{words} words, counted by {}", flow.id()),
        Err(error) => println!("{} did not get there: {error}", flow.id()),
    }
    worker.abort();
    Ok(())
}
