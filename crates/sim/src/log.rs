//! What happened, as a running hash: the same seed gives the same hash, to the byte.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use weft_core::PartitionId;
use weft_core::change::{Batch, Change, Head};

/// Every commit and every acknowledged reply, in order. The text itself is kept only if it was asked for.
#[derive(Default)]
pub struct Log {
    hasher: Sha256,
    text: Option<Vec<String>>,
}

impl Log {
    /// Keeps the lines too, for a person to read.
    pub fn traced() -> Self {
        Self { text: Some(Vec::new()), ..Self::default() }
    }

    pub fn is_traced(&self) -> bool {
        self.text.is_some()
    }

    pub fn line(&mut self, line: &str) {
        self.hasher.update(line.as_bytes());
        self.hasher.update(b"\n");
        if let Some(text) = &mut self.text {
            text.push(line.to_owned());
        }
    }

    /// A line that does not count: it explains, but is no part of the record.
    pub fn remark(&mut self, line: impl FnOnce() -> String) {
        if let Some(text) = &mut self.text {
            text.push(line());
        }
    }

    pub fn commit(&mut self, partition: PartitionId, head: Head, batch: &Batch) {
        let mut line = format!("commit {partition} {} {} {}", head.position.seq, batch.now.ms(), batch.id);
        for write in &batch.writes {
            let _ = write!(line, " {:?}", write.key);
        }
        self.line(&line);
        self.remark(|| {
            let (expect, fast, strict) = (batch.expect.position.seq, batch.fast, batch.strict);
            format!(
                "  expects {expect} fast {fast} strict {strict} reads {:?} drops {:?}",
                batch.reads, batch.due_drops
            )
        });
        for write in &batch.writes {
            match &write.what {
                Change::Insert(body) | Change::Update { body, .. } => {
                    for (part, bytes) in &body.parts {
                        self.hasher.update([*part, u8::from(bytes.is_some())]);
                        self.hasher.update(bytes.as_deref().unwrap_or_default());
                    }
                }
                Change::Delete { .. } => self.hasher.update(b"-"),
            }
        }
        self.hasher.update(&batch.feed);
    }

    /// The hash so far, as hex.
    pub fn hash(&self) -> String {
        hex(&self.hasher.clone().finalize())
    }

    pub fn into_text(self) -> Vec<String> {
        self.text.unwrap_or_default()
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_covers_every_line_and_no_remark() {
        let hash = |lines: &[&str]| {
            let mut log = Log::traced();
            for line in lines {
                log.line(line);
                log.remark(|| "said aside".to_owned());
            }
            log.hash()
        };
        assert_eq!(hash(&["a", "b"]), hash(&["a", "b"]));
        assert_ne!(hash(&["a", "b"]), hash(&["b", "a"]));
        assert_ne!(hash(&["ab"]), hash(&["a", "b"]));
    }
}
