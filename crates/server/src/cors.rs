//! Which web pages may call: none, unless their origins are listed. Credentials of a browser are never taken; a page needs
//! a key like everybody else.

use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method};

const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
const TAKEN: &str =
    "authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id, weft-namespace";
const SHOWN: &str = "etag, retry-after, x-request-id, weft-now, idempotency-replayed";
/// How long a browser may remember the answer, in seconds.
const MAX_AGE: &str = "600";

/// Exact origins; none of them unless listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    listed: Vec<String>,
    any: bool,
}

/// Why a text is no origin.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an origin; it looks like `https://example.org`, without a path")]
pub struct BadOrigin(String);

impl Origins {
    /// From texts of the form `https://example.org:8443`. `*` is taken only if `any` may be.
    pub fn parse(texts: &[String], any: bool) -> Result<Self, BadOrigin> {
        let mut origins = Self::default();
        for text in texts {
            match text.as_str() {
                "*" if any => origins.any = true,
                origin if is_origin(origin) => origins.listed.push(origin.to_string()),
                other => return Err(BadOrigin(other.to_string())),
            }
        }
        Ok(origins)
    }

    /// The origin of the request, if it may call.
    pub fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        let text = origin.to_str().ok()?;
        (self.any || self.listed.iter().any(|listed| listed == text)).then(|| origin.clone())
    }
}

fn is_origin(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else { return false };
    let host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
    !rest.is_empty() && rest.bytes().all(host)
}

/// True if a browser asks beforehand whether it may call.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ORIGIN) && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Lets the page at `origin` read the reply.
pub fn allow(response: &mut Response, origin: HeaderValue, preflight: bool) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(VARY, HeaderValue::from_static("origin"));
    if preflight {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(TAKEN));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    } else {
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(SHOWN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_53_a_malformed_origin_is_refused_and_any_only_where_it_may_be() {
        let parse = |text: &str, any| Origins::parse(&[text.to_string()], any);
        for good in ["https://example.org", "http://localhost:3000", "http://[::1]:8080"] {
            assert!(parse(good, false).is_ok(), "{good}");
        }
        for bad in ["example.org", "https://", "https://example.org/", "https://Example.org", "null", "", "https://a b"]
        {
            assert!(parse(bad, true).is_err(), "{bad}");
        }
        assert!(parse("*", false).is_err() && parse("*", true).is_ok());
    }
}
