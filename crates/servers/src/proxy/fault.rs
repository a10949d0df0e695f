//! What a proxy is armed with, and at which byte it trips.

use super::pump::Direction;

#[derive(Debug)]
pub enum Fault {
    /// After so many bytes of requests.
    RequestBytes(usize),
    /// At these bytes in a request.
    Request(Vec<u8>),
    /// At these bytes in a reply.
    Reply(Vec<u8>),
    /// Replies are thrown away.
    Swallow,
}

/// What becomes of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Swallow,
    /// This many bytes pass, and then everything is cut.
    Cut(usize),
}

impl Fault {
    /// `before` is what went the same way on the same connection right before the chunk: a marker may begin there.
    pub fn judge(&mut self, direction: Direction, before: &[u8], chunk: &[u8]) -> Verdict {
        match (self, direction) {
            (Fault::RequestBytes(left), Direction::Request) if chunk.len() >= *left => Verdict::Cut(*left),
            (Fault::RequestBytes(left), Direction::Request) => {
                *left -= chunk.len();
                Verdict::Pass
            }
            (Fault::Request(marker), Direction::Request) | (Fault::Reply(marker), Direction::Reply)
                if meets(marker, before, chunk) =>
            {
                Verdict::Cut(0)
            }
            (Fault::Swallow, Direction::Reply) => Verdict::Swallow,
            _ => Verdict::Pass,
        }
    }
}

/// Whether the marker ends in the chunk. An empty one does in any.
fn meets(marker: &[u8], before: &[u8], chunk: &[u8]) -> bool {
    let reach = marker.len().saturating_sub(1).min(before.len());
    let joined = [&before[before.len() - reach..], chunk].concat();
    marker.is_empty() || joined.windows(marker.len()).any(|window| window == marker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_met_over_the_bound_of_two_chunks() {
        for (marker, before, chunk, met) in [
            ("COMMIT", "xCOM", "MITy", true),
            ("COMMIT", "", "a COMMIT b", true),
            ("COMMIT", "COMMIT", "rest", false),
            ("COMMIT", "COMM", "", false),
            ("C", "C", "x", false),
            ("", "", "x", true),
        ] {
            assert_eq!(meets(marker.as_bytes(), before.as_bytes(), chunk.as_bytes()), met, "{marker} {before}|{chunk}");
        }
    }

    #[test]
    fn bytes_of_requests_are_counted_and_those_of_replies_are_not() {
        let mut fault = Fault::RequestBytes(5);
        assert_eq!(fault.judge(Direction::Reply, b"", b"123456"), Verdict::Pass);
        assert_eq!(fault.judge(Direction::Request, b"", b"123"), Verdict::Pass);
        assert_eq!(fault.judge(Direction::Request, b"", b"456"), Verdict::Cut(2));
    }
}
