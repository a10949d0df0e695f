//! Packing replies for callers who can unpack them.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use http::{HeaderMap, HeaderValue};
use http_body::Body as _;
use http_body_util::BodyExt;
use std::io::Write;

/// Smaller replies are not worth packing.
const PACK_MIN: u64 = 1 << 10;
/// Larger ones are packed where they hold nobody up.
const PACK_ASIDE: usize = 128 << 10;

/// True if a request's headers say that its caller takes gzip.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let (mut named, mut any) = (None, None);
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for part in values.flat_map(|value| value.split(',')) {
        let (name, weight) = part.split_once(';').unwrap_or((part, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0f32));
        match name.trim() {
            "*" => any = Some(weight),
            name if name.eq_ignore_ascii_case("gzip") => named = Some(weight),
            _ => {}
        }
    }
    named.or(any).is_some_and(|weight| weight > 0.0)
}

/// Packs a reply whose size is known and worth it. A stream of events has no size and stays as it is.
pub async fn pack(response: &mut Response) {
    if response.body().size_hint().exact().is_none_or(|size| size < PACK_MIN) {
        return;
    }
    let plain = match std::mem::take(response.body_mut()).collect().await {
        Ok(all) => all.to_bytes(),
        Err(error) => {
            tracing::warn!(%error, "could not collect a reply");
            return;
        }
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    let packed = match plain.len() > PACK_ASIDE {
        true => {
            let plain = plain.clone();
            tokio::task::spawn_blocking(move || gzip(&plain)).await.ok().flatten()
        }
        false => gzip(&plain),
    };
    // What is packed already grows.
    let packed = packed.filter(|packed| packed.len() < plain.len());
    if packed.is_some() {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.remove(CONTENT_LENGTH);
    }
    *response.body_mut() = Body::from(packed.unwrap_or(plain));
}

fn gzip(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_7_only_those_who_say_so_take_gzip() {
        for (value, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, *", false),
            ("*;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(takes_gzip(&headers), takes, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
