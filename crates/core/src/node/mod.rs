//! Commands about the nodes of a deployment.

pub mod heartbeat;
