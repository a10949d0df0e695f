//! What worker and supervisor say to each other over the socket that joins them.
//!
//! The worker writes [`TERMINATE`]; when it closes its side, all is killed. The supervisor writes a line of JSON per word.

use serde::{Deserialize, Serialize};

/// SIGTERM to the program's group.
pub const TERMINATE: u8 = b't';

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The program runs, as the leader of the group of this number.
    Started(i32),
    NotStarted(String),
    /// The program ended with this code, and nothing of it is left.
    Exited(i32),
    /// The same, by a signal.
    Killed(i32),
}

impl Word {
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("link: a word is JSON");
        line.push(b'\n');
        line
    }

    pub fn parse(line: &str) -> Option<Word> {
        serde_json::from_str(line).ok()
    }
}
