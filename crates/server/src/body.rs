//! Reading request bodies: bounded while they arrive and while they are unpacked.

use crate::budget::Share;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body_util::BodyExt;
use std::error::Error;
use std::io::{self, ErrorKind, Read};
use std::time::Duration;
use tokio::time::Instant;
use weft_api::{Code, JSON_DEPTH_MAX, Problem, json_depth};

/// A body that brings nothing for so long is given up.
const IDLE: Duration = Duration::from_secs(30);
/// A body must have arrived after this time and what its length takes at the lowest rate, however steadily it trickles.
const ARRIVAL: Duration = Duration::from_secs(60);
/// The lowest rate in bytes per second: 16 MiB may take ten minutes.
const RATE_MIN: usize = 32 << 10;

/// The field of a payload whose bytes are written in base64.
const BASE64: &[u8] = b"\"base64\"";

/// A packed body may hold so many times its size.
const RATIO_MAX: usize = 16;
/// Small bodies may shrink more: they cost nothing to unpack.
const UNPACK_MIN: usize = 64 << 10;
/// What a packed body may ask to be remembered while it is unpacked: 8 MiB, which packers keep to
/// unless told otherwise.
const ZSTD_WINDOW_LOG: u32 = 23;

/// How large a body may be.
#[derive(Clone, Copy, Debug)]
pub struct Max {
    pub plain: usize,
    /// If it holds bytes in base64, which are longer than what they stand for.
    pub base64: usize,
}

impl Max {
    pub const fn of(max: usize) -> Self {
        Self { plain: max, base64: max }
    }
}

/// All of the body, unpacked, if it is not larger than `max` and there is memory for it.
pub async fn read(headers: &HeaderMap, body: Body, max: Max, share: &mut Share<'_>) -> Result<Bytes, Problem> {
    let arrived = arrived(headers, body, max.base64, share).await?;
    let bytes = unpack(headers, arrived, max.base64, share)?;
    let is_longer = || bytes.windows(BASE64.len()).any(|window| window == BASE64);
    match bytes.len() > max.plain && !is_longer() {
        true => Err(too_large(max.plain, Some(bytes.len()))),
        false => Ok(bytes),
    }
}

async fn arrived(headers: &HeaderMap, mut body: Body, max: usize, share: &mut Share<'_>) -> Result<Bytes, Problem> {
    let declared = headers.get(http::header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: usize| length > max) {
        return Err(too_large(max, declared));
    }
    share.grow(declared.unwrap_or(0))?;
    let mut bytes = BytesMut::new();
    // A length that is not declared may be all that is allowed.
    let latest = Instant::now() + time_for(declared.unwrap_or(max));
    loop {
        let frame = match tokio::time::timeout_at(latest.min(Instant::now() + IDLE), body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(broken(&error)),
            Err(_) => return Err(Problem::new(Code::RequestTimeout, "the body did not arrive in time")),
        };
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > max {
                return Err(too_large(max, None));
            }
            share.grow(bytes.len() + data.len())?;
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes.freeze())
}

fn time_for(length: usize) -> Duration {
    ARRIVAL + Duration::from_secs((length / RATE_MIN) as u64)
}

/// A body whose framing is wrong is the caller's fault; one that is cut off may arrive whole when it is sent again.
fn broken(error: &axum::Error) -> Problem {
    let causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |&cause| cause.source());
    let malformed = |cause: &&io::Error| matches!(cause.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData);
    match causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).find(malformed) {
        Some(cause) => Problem::invalid("body", format!("is not framed as HTTP asks: {cause}")),
        None => Problem::new(Code::RequestTimeout, "the body ended before its end"),
    }
}

fn too_large(max: usize, got: Option<usize>) -> Problem {
    let problem = Problem::new(Code::PayloadTooLarge, format!("the body is larger than {max} bytes"));
    let problem = problem.field("field", "body").field("limit", max);
    match got {
        Some(got) => problem.field("got", got),
        None => problem,
    }
}

fn unpack(headers: &HeaderMap, bytes: Bytes, max: usize, share: &mut Share<'_>) -> Result<Bytes, Problem> {
    let encoding = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim().to_lowercase());
    match encoding.as_deref() {
        None | Some("" | "identity") => Ok(bytes),
        // Both go on where a stream ends, and take nothing there but another one.
        Some("gzip") => drawn("gzip", MultiGzDecoder::new(&bytes[..]), bytes.len(), max, share),
        Some("zstd") => {
            let mut decoder = zstd::Decoder::new(&bytes[..]).map_err(|_| no_memory())?;
            decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(|_| no_memory())?;
            drawn("zstd", decoder, bytes.len(), max, share)
        }
        Some(other) => {
            let problem =
                Problem::new(Code::UnsupportedMediaType, format!("the content encoding `{other}` is not taken here"));
            Err(problem.hint("send it as it is, or with `gzip` or `zstd`"))
        }
    }
}

/// What a decoder gives, if that is no more than is allowed.
fn drawn(
    packing: &str,
    decoder: impl Read,
    packed: usize,
    max: usize,
    share: &mut Share<'_>,
) -> Result<Bytes, Problem> {
    // What honest callers send does not shrink more than this.
    let most = max.min(packed.saturating_mul(RATIO_MAX).max(UNPACK_MIN));
    share.grow(packed + most)?;
    let mut out = Vec::new();
    // One byte more than allowed is enough to know.
    let read = decoder.take(most as u64 + 1).read_to_end(&mut out);
    read.map_err(|_| Problem::invalid("body", format!("is not {packing}, although its header says so")))?;
    if out.len() > most { Err(too_large(most, None)) } else { Ok(out.into()) }
}

fn no_memory() -> Problem {
    Problem::new(Code::Busy, "could not unpack the body now").retry_after(1_000)
}

/// Refuses JSON that is nested too deeply, before anything walks into it.
pub fn check_depth(bytes: &[u8]) -> Result<(), Problem> {
    match json_depth(bytes, JSON_DEPTH_MAX) > JSON_DEPTH_MAX {
        true => Err(Problem::new(Code::InvalidJson, format!("the body is nested more than {JSON_DEPTH_MAX} deep"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{BodyMemory, Budget};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures_util::StreamExt;
    use std::io::Write;

    async fn taken(headers: &HeaderMap, body: Body, max: Max) -> Result<Bytes, Problem> {
        let budget = Budget::new(BodyMemory::default());
        read(headers, body, max, &mut budget.share(None, false)).await
    }

    fn packed(bytes: &[u8]) -> Body {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        Body::from(encoder.finish().unwrap())
    }

    #[tokio::test]
    async fn api_7_a_body_is_unpacked_up_to_its_limit_and_no_further() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, "gzip".parse().unwrap());
        let good = taken(&headers, packed(&[7; 1_000]), Max::of(1_000)).await.unwrap();
        assert_eq!(good, vec![7; 1_000]);
        for bomb in [50 << 20, 900 << 10] {
            let refused = taken(&headers, packed(&vec![0; bomb]), Max::of(1 << 20)).await.unwrap_err();
            assert_eq!(refused.code, Code::PayloadTooLarge, "{bomb}");
        }
        let lie = taken(&headers, Body::from("not gzip"), Max::of(1_000)).await.unwrap_err();
        assert_eq!(lie.code, Code::InvalidArgument);
    }

    #[tokio::test]
    async fn api_7_zstd_is_taken_like_gzip() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, "zstd".parse().unwrap());
        let packed = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).unwrap();
        let body = Body::from(packed(&[7; 1_000]));
        assert_eq!(taken(&headers, body, Max::of(1_000)).await.unwrap(), vec![7; 1_000]);
        let more = [packed(b"{}"), b"and more".to_vec()].concat();
        let half = packed(&(0..=255).cycle().take(999).collect::<Vec<u8>>())[..100].to_vec();
        for (bytes, code) in [
            (packed(&vec![0; 50 << 20]), Code::PayloadTooLarge),
            (b"not zstd".to_vec(), Code::InvalidArgument),
            (more, Code::InvalidArgument),
            (half, Code::InvalidArgument),
        ] {
            assert_eq!(taken(&headers, Body::from(bytes), Max::of(1 << 20)).await.unwrap_err().code, code);
        }
    }

    #[tokio::test]
    async fn api_7_bytes_after_a_packed_body_are_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, "gzip".parse().unwrap());
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(b"{}").unwrap();
        let mut bytes = encoder.finish().unwrap();
        bytes.extend_from_slice(b"and more");
        let refused = taken(&headers, Body::from(bytes), Max::of(1_000)).await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument);
    }

    #[tokio::test]
    async fn base64_may_be_longer_than_what_it_stands_for() {
        let (headers, max) = (HeaderMap::new(), Max { plain: 20, base64: 30 });
        assert!(taken(&headers, Body::from(r#"{"base64":"AAAAAAAAAAAA"}"#), max).await.is_ok());
        let plain = taken(&headers, Body::from(r#"{"text":"AAAAAAAAAAAA"}"#), max).await;
        assert_eq!(plain.unwrap_err().code, Code::PayloadTooLarge);
    }

    /// So many bytes, each 2 s after the one before it.
    fn trickled(bytes: u8) -> Body {
        let bytes = futures_util::stream::iter(0..bytes).then(async |_| {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok::<_, std::io::Error>(Bytes::from_static(b" "))
        });
        Body::from_stream(bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_byte_by_byte_is_given_up_after_its_time() {
        let (headers, begun) = (HeaderMap::new(), Instant::now());
        assert_eq!(taken(&headers, trickled(29), Max::of(1_000)).await.unwrap().len(), 29);
        assert_eq!(begun.elapsed().as_secs(), 58);
        let begun = Instant::now();
        let refused = taken(&headers, trickled(200), Max::of(1_000)).await.unwrap_err();
        assert_eq!((refused.code, begun.elapsed().as_secs()), (Code::RequestTimeout, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_body_has_the_time_that_a_slow_line_takes() {
        let (mut headers, begun, max) = (HeaderMap::new(), Instant::now(), Max::of(10 * RATE_MIN));
        assert_eq!(taken(&headers, trickled(34), max).await.unwrap().len(), 34);
        assert_eq!(begun.elapsed().as_secs(), 68, "what is allowed takes 10 s more");
        let begun = Instant::now();
        assert_eq!(taken(&headers, trickled(200), max).await.unwrap_err().code, Code::RequestTimeout);
        assert_eq!(begun.elapsed().as_secs(), 70);
        headers.insert(http::header::CONTENT_LENGTH, "34".parse().unwrap());
        let begun = Instant::now();
        assert_eq!(taken(&headers, trickled(34), max).await.unwrap_err().code, Code::RequestTimeout);
        assert_eq!(begun.elapsed().as_secs(), 60, "what is declared takes no time");
        assert_eq!(time_for(16 << 20).as_secs(), 572);
    }

    #[tokio::test]
    async fn a_body_of_one_byte_too_many_is_refused() {
        let headers = HeaderMap::new();
        assert_eq!(taken(&headers, Body::from(vec![1; 10]), Max::of(10)).await.unwrap().len(), 10);
        assert_eq!(
            taken(&headers, Body::from(vec![1; 11]), Max::of(10)).await.unwrap_err().code,
            Code::PayloadTooLarge
        );
    }
}
