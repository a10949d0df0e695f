//! Whether the process turns, and whether the node takes work. Neither asks the store when it is asked itself.

use weft_api::node::Readiness;
use weft_engine::Engine;

pub struct Health {
    engine: Engine,
}

impl Health {
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Ready unless something keeps the node from serving; the reasons are short and hold no secrets.
    pub fn readiness(&self, draining: bool) -> Readiness {
        let mut why = self.engine.not_ready();
        if draining {
            why.push("the node is stopping".to_string());
        }
        Readiness { ready: why.is_empty(), why }
    }
}
