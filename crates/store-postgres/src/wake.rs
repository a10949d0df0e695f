//! Wakes on their way to other nodes: joined while they wait, written as text for `NOTIFY`, read on the other side.
//!
//! A wake is a hint, so what does not fit may lose its detail; the partition is always told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weft_core::{PartitionId, Time};
use weft_store::Wake;

/// `NOTIFY` takes less than 8000 bytes.
pub const PAYLOAD_MAX: usize = 7_900;

/// Lanes of one partition that are told apart; beyond that the lanes are left out.
const LANES_MAX: usize = 64;

type Lane = (Arc<str>, Arc<str>);

/// What happened since the last message, per partition.
#[derive(Debug, Default)]
pub struct Gathered {
    partitions: BTreeMap<PartitionId, (BTreeSet<Lane>, Option<Time>)>,
    urgent: bool,
}

impl Gathered {
    pub fn add(&mut self, wake: Wake, urgent: bool) {
        let (lanes, due) = self.partitions.entry(wake.partition).or_default();
        lanes.extend(wake.lanes);
        *due = due.iter().copied().chain(wake.due).min();
        self.urgent |= urgent;
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    pub fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// The messages that carry everything gathered, each from `node`.
    pub fn messages(self, node: &str) -> Vec<String> {
        let mut messages: Vec<String> = Vec::new();
        for (partition, (lanes, due)) in self.partitions {
            let mut text = written(partition, &lanes, due);
            if lanes.len() > LANES_MAX || node.len() + text.len() > PAYLOAD_MAX {
                text = written(partition, &BTreeSet::new(), due);
            }
            match messages.last_mut() {
                Some(message) if message.len() + text.len() <= PAYLOAD_MAX => message.push_str(&text),
                _ => messages.push(format!("{node}{text}")),
            }
        }
        messages
    }
}

/// ` partition due lanes` and each lane as two texts behind their lengths, so that any name can be in it.
fn written(partition: PartitionId, lanes: &BTreeSet<Lane>, due: Option<Time>) -> String {
    let due = due.map_or_else(|| "-".to_owned(), |due| due.as_i64().to_string());
    let mut text = format!(" {} {due} {}", partition.0, lanes.len());
    for (namespace, lane) in lanes {
        text += &format!(" {}:{namespace}{}:{lane}", namespace.len(), lane.len());
    }
    text
}

/// The wakes of a message, unless this node sent it. A message that cannot be read is none.
pub fn read(message: &str, node: &str) -> Vec<Wake> {
    match message.split_once(' ') {
        Some((sender, rest)) if sender != node => Reader(rest).wakes().unwrap_or_default(),
        _ => Vec::new(),
    }
}

struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn wakes(&mut self) -> Option<Vec<Wake>> {
        let mut wakes = Vec::new();
        while !self.0.is_empty() {
            let partition = PartitionId(self.word()?.parse().ok()?);
            let due = match self.word()? {
                "-" => None,
                ms => Some(Time::from_ms(ms.parse().ok()?)),
            };
            let count: usize = self.word()?.parse().ok()?;
            let lanes = (0..count.min(LANES_MAX)).map(|_| self.lane()).collect::<Option<_>>()?;
            wakes.push(Wake { partition, lanes, due });
        }
        Some(wakes)
    }

    fn word(&mut self) -> Option<&'a str> {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    fn lane(&mut self) -> Option<Lane> {
        let lane = (self.text()?, self.text()?);
        self.0 = self.0.strip_prefix(' ').unwrap_or(self.0);
        Some(lane)
    }

    fn text(&mut self) -> Option<Arc<str>> {
        let (len, rest) = self.0.split_once(':')?;
        let (text, rest) = rest.split_at_checked(len.parse().ok()?)?;
        self.0 = rest;
        Some(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(partition: u16, lanes: &[(&str, &str)], due: Option<u64>) -> Wake {
        Wake {
            partition: PartitionId(partition),
            lanes: lanes.iter().map(|(namespace, lane)| (Arc::from(*namespace), Arc::from(*lane))).collect(),
            due: due.map(Time::from_ms),
        }
    }

    fn gathered(wakes: &[Wake]) -> Gathered {
        let mut gathered = Gathered::default();
        wakes.iter().cloned().for_each(|wake| gathered.add(wake, false));
        gathered
    }

    #[test]
    fn what_is_written_is_what_the_others_read() {
        let wakes = [
            wake(0, &[], Some(17)),
            wake(3, &[("a", "b"), ("a:1 2", "é:日 "), ("", "")], None),
            wake(9, &[("x", "y")], Some(0)),
            wake(1023, &[], None),
        ];
        let messages = gathered(&wakes).messages("node");
        assert_eq!(messages.len(), 1);
        let mut expected = wakes.to_vec();
        expected[1].lanes.sort();
        assert_eq!(read(&messages[0], "other"), expected);
        assert_eq!(read(&messages[0], "node"), []);
    }

    #[test]
    fn wakes_of_one_partition_are_joined() {
        let messages = gathered(&[
            wake(1, &[("n", "b")], Some(9)),
            wake(1, &[("n", "a"), ("n", "b")], Some(5)),
            wake(1, &[], None),
        ])
        .messages("node");
        assert_eq!(read(&messages[0], ""), [wake(1, &[("n", "a"), ("n", "b")], Some(5))]);
    }

    #[test]
    fn rl_56_no_message_is_longer_than_the_server_takes() {
        let long = "x".repeat(64);
        let lanes: Vec<String> = (0..50).map(|number| format!("{long}{number}")).collect();
        let lanes: Vec<(&str, &str)> = lanes.iter().map(|lane| (long.as_str(), lane.as_str())).collect();
        let wakes: Vec<Wake> = (0..40).map(|partition| wake(partition, &lanes[..20], Some(1))).collect();
        let messages = gathered(&wakes).messages("node");
        assert!(messages.len() > 1 && messages.iter().all(|message| message.len() <= PAYLOAD_MAX));
        let all: Vec<Wake> = messages.iter().flat_map(|message| read(message, "")).collect();
        assert_eq!(all.len(), 40);
        assert!(all.iter().all(|wake| wake.lanes.len() == 20));

        let huge = "y".repeat(PAYLOAD_MAX);
        let messages = gathered(&[wake(2, &[(&huge, "a")], Some(3))]).messages("node");
        assert_eq!(read(&messages[0], ""), [wake(2, &[], Some(3))], "the lanes are left out, the rest is told");
    }

    #[test]
    fn a_message_of_somebody_else_is_no_wake() {
        for strange in ["", " ", "node", "node x", "node 1", "node 1 - 1 9:a", "node 1 - 1 x", "node 99999 - 0"] {
            assert_eq!(read(strange, "me"), [], "{strange}");
        }
    }
}
