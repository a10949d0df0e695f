//! Questions about the deployment.

use crate::{Acting, Answer};
use weft_api::Reply;
use weft_api::node as wire;

impl Acting<'_> {
    pub fn version(&self) -> Answer {
        let store = self.engine.describe().name.to_string();
        let version = env!("CARGO_PKG_VERSION").to_string();
        Reply::GetVersion(wire::Version { version, store, features: Vec::new() }).into()
    }
}
