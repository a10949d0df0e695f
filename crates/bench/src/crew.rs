//! The clients of a load, one per engine. Producers and workers are dealt out to them in turn.

use weft_engine::Client;

#[derive(Clone)]
pub struct Crew {
    clients: Vec<Client>,
}

impl Crew {
    /// There is at least one.
    pub fn new(clients: Vec<Client>) -> Self {
        assert!(!clients.is_empty(), "crew: a bed has an engine");
        Self { clients }
    }

    /// The client of the producer or worker with this number.
    pub fn member(&self, number: usize) -> &Client {
        &self.clients[number % self.clients.len()]
    }

    /// The one that checks.
    pub fn first(&self) -> &Client {
        &self.clients[0]
    }
}
