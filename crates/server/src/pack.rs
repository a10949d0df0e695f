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
/// Fast: replies are made for one caller, once.
const ZSTD_LEVEL: i32 = 1;

/// A packing that both sides know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Zstd,
    Gzip,
}

/// What a request's headers say that its caller likes best; none if it takes none.
pub fn wanted(headers: &HeaderMap) -> Option<Packing> {
    let (mut zstd, mut gzip, mut any) = (None, None, None);
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for part in values.flat_map(|value| value.split(',')) {
        let (name, weight) = part.split_once(';').unwrap_or((part, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0f32));
        match name.trim() {
            "*" => any = Some(weight),
            name if name.eq_ignore_ascii_case("zstd") => zstd = Some(weight),
            name if name.eq_ignore_ascii_case("gzip") => gzip = Some(weight),
            _ => {}
        }
    }
    // Whoever takes anything means what everybody knows.
    let (zstd, gzip) = (zstd.unwrap_or(0.0), gzip.or(any).unwrap_or(0.0));
    match () {
        () if zstd > 0.0 && zstd >= gzip => Some(Packing::Zstd),
        () if gzip > 0.0 => Some(Packing::Gzip),
        () => None,
    }
}

/// Packs a reply whose size is known and worth it. A stream of events has no size and stays as it is.
pub async fn pack(response: &mut Response, packing: Packing) {
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
            tokio::task::spawn_blocking(move || packing.pack(&plain)).await.ok().flatten()
        }
        false => packing.pack(&plain),
    };
    // What is packed already grows.
    let packed = packed.filter(|packed| packed.len() < plain.len());
    if packed.is_some() {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(packing.name()));
        headers.remove(CONTENT_LENGTH);
    }
    *response.body_mut() = Body::from(packed.unwrap_or(plain));
}

impl Packing {
    const fn name(self) -> &'static str {
        match self {
            Packing::Zstd => "zstd",
            Packing::Gzip => "gzip",
        }
    }

    /// None if it could not be done.
    fn pack(self, bytes: &[u8]) -> Option<Bytes> {
        match self {
            Packing::Zstd => zstd::bulk::compress(bytes, ZSTD_LEVEL).ok().map(Bytes::from),
            Packing::Gzip => {
                let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
                encoder.write_all(bytes).ok()?;
                encoder.finish().ok().map(Bytes::from)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Packing::{Gzip, Zstd};

    #[test]
    fn api_7_a_caller_gets_the_packing_that_it_likes_best() {
        for (value, packing) in [
            ("gzip", Some(Gzip)),
            ("br, GZIP;q=0.5", Some(Gzip)),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, zstd;q=0.5", Some(Gzip)),
            ("gzip;q=0, zstd", Some(Zstd)),
            ("*", Some(Gzip)),
            ("gzip;q=0", None),
            ("gzip; q=0.0, *", None),
            ("*;q=0", None),
            ("identity", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(wanted(&headers), packing, "{value}");
        }
        assert_eq!(wanted(&HeaderMap::new()), None);
    }
}
