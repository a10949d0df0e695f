//! Calls to a server over HTTP. Connections are kept and shared; a reply that is no reply of Weft is told as such.

use super::connect::Connector;
use super::{Answering, traceparent};
use crate::Error;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, IF_MATCH, RETRY_AFTER};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::error::Error as StdError;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Service;
use weft_api::operation::Carried;
use weft_api::trace::TRACEPARENT;
use weft_api::{Call, Operation, Problem, Reply};
use weft_tls::Trust;

/// Shorter than servers keep idle connections, so that a request rarely meets one that is being closed.
const IDLE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Http {
    shared: Arc<Shared>,
    namespace: Option<Arc<str>>,
}

struct Shared {
    client: legacy::Client<Connector, Full<Bytes>>,
    /// Scheme, host and what comes before the paths of the API.
    base: String,
    headers: HeaderMap,
}

impl Http {
    pub fn new(url: &str, key: Option<&str>, trust: Trust) -> Result<Self, Error> {
        let base = base_of(url)?;
        if base.starts_with("https:") {
            trust.config().map_err(|error| Error::Config(error.to_string()))?;
        }
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .retry_canceled_requests(true)
            .build(Connector { trust: Arc::new(trust) });
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            let mut value = header_value("key", &format!("Bearer {key}"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self { shared: Arc::new(Shared { client, base, headers }), namespace: None })
    }

    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    pub fn url(&self) -> &str {
        &self.shared.base
    }

    async fn send(self, call: Call) -> Result<Reply, Error> {
        let spec = call.spec();
        let wire = call.into_wire();
        let mut target = String::with_capacity(128);
        target.push_str(&self.shared.base);
        target.push_str(&spec.path_of(&wire.path));
        if !wire.query.is_empty() {
            target.push('?');
            target.push_str(&wire.query);
        }
        let uri: Uri = target.parse().map_err(|error| Error::decode(format!("`{target}` is no address"), error))?;
        let mut request = self.request(uri, wire.body.clone())?;
        *request.method_mut() = spec.method.name().parse().expect("http: methods of the table are methods");
        if !wire.body.is_empty() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &wire.idempotency_key {
            request.headers_mut().insert("idempotency-key", header_value("idempotency_key", key)?);
        }
        if let Some(revision) = &wire.if_match {
            request.headers_mut().insert(IF_MATCH, header_value("if_match", revision)?);
        }
        let response = self.shared.client.request(request).await.map_err(|error| self.failed(error))?;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.map_err(|error| {
            Error::unreachable(format!("`{}` broke off in the middle of a reply: {error}", self.shared.base), error)
        })?;
        self.read(spec.id, head.status, &head.headers, bytes.to_bytes())
    }

    /// A request with what all of them carry.
    fn request(&self, uri: Uri, body: Bytes) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::new(Full::new(body));
        *request.uri_mut() = uri;
        *request.headers_mut() = self.shared.headers.clone();
        if let Some(namespace) = &self.namespace {
            request.headers_mut().insert("weft-namespace", header_value("namespace", namespace)?);
        }
        // A context that no header can carry is not one that anybody could continue.
        if let Some(context) = traceparent().and_then(|context| HeaderValue::try_from(context).ok()) {
            request.headers_mut().insert(TRACEPARENT, context);
        }
        Ok(request)
    }

    /// The stream of notices for an instance, after the number that was heard last.
    pub async fn notices(&self, instance: &str, last: Option<u64>) -> Result<Incoming, Error> {
        let spec = weft_api::op::GetWorker::SPEC;
        let target = format!("{}{}/notices", self.shared.base, spec.path_of(&[instance.to_string()]));
        let uri: Uri = target.parse().map_err(|error| Error::decode(format!("`{target}` is no address"), error))?;
        let mut request = self.request(uri, Bytes::new())?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            request.headers_mut().insert("last-event-id", HeaderValue::from(last));
        }
        let response = self.shared.client.request(request).await.map_err(|error| self.failed(error))?;
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        Err(self.refused(head.status, &head.headers, &bytes))
    }

    /// A page that is no operation: its status, whatever that is, and its text.
    pub async fn page(&self, path: &str) -> Result<(u16, String), Error> {
        let target = format!("{}{path}", self.shared.base);
        let uri: Uri = target.parse().map_err(|error| Error::decode(format!("`{target}` is no address"), error))?;
        let request = self.request(uri, Bytes::new())?;
        let response = self.shared.client.request(request).await.map_err(|error| self.failed(error))?;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.map_err(|error| {
            Error::unreachable(format!("`{}` broke off in the middle of a reply: {error}", self.shared.base), error)
        })?;
        Ok((head.status.as_u16(), String::from_utf8_lossy(&bytes.to_bytes()).into_owned()))
    }

    fn read(&self, id: &str, status: StatusCode, headers: &HeaderMap, bytes: Bytes) -> Result<Reply, Error> {
        if !status.is_success() {
            return Err(self.refused(status, headers, &bytes));
        }
        let content_type = match status {
            StatusCode::NO_CONTENT => None,
            _ => {
                let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
                Some(given.unwrap_or("application/octet-stream").to_string())
            }
        };
        Reply::uncarry(id, Carried { bytes, content_type })
            .map_err(|error| Error::decode(format!("could not read the reply to `{id}`: {error}"), error))
    }

    fn refused(&self, status: StatusCode, headers: &HeaderMap, bytes: &[u8]) -> Error {
        if let Ok(mut problem) = serde_json::from_slice::<Problem>(bytes) {
            problem.retry_after_ms = problem.retry_after_ms.or_else(|| retry_after_ms(headers));
            return problem.into();
        }
        let said = serde_json::from_slice::<serde_json::Value>(bytes).ok();
        if let Some(code) = said.as_ref().and_then(|said| said.get("code")?.as_str()) {
            let detail = said.as_ref().and_then(|said| said.get("detail")?.as_str()).unwrap_or_default();
            let message = format!("the server refused with `{code}`, which this client does not know: {detail}");
            return Error::Decode { message, source: None };
        }
        let retryable = matches!(status.as_u16(), 408 | 429 | 502 | 503 | 504);
        let message = format!("`{}` answered {status}, and not as Weft does; is it a Weft server?", self.shared.base);
        Error::Transport { retryable, message, retry_after_ms: retry_after_ms(headers), source: None }
    }

    /// The error of the connector says it best, if it is one.
    fn failed(&self, error: legacy::Error) -> Error {
        if let Some(ours) = error.source().and_then(|source| source.downcast_ref::<Error>()) {
            let message = ours.to_string();
            return match ours {
                Error::Config(_) => Error::Config(message),
                _ => Error::unreachable(message, error),
            };
        }
        let causes = || std::iter::successors(error.source(), |&cause| cause.source());
        let is_garbled = |cause: &(dyn StdError + 'static)| cause.downcast_ref().is_some_and(hyper::Error::is_parse);
        let message = match self.shared.base.strip_prefix("http://") {
            Some(at) if causes().any(is_garbled) => {
                format!("`http://{at}` answers, but not in HTTP; a server with TLS is at `https://{at}`")
            }
            _ => {
                let causes: String = causes().map(|cause| format!(": {cause}")).collect();
                format!("`{}` gave no answer: {error}{causes}", self.shared.base)
            }
        };
        Error::unreachable(message, error)
    }
}

impl Service<Call> for Http {
    type Response = Reply;
    type Error = Error;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Answering {
        Box::pin(self.clone().send(call))
    }
}

/// The address without a slash at its end, if it is one.
fn base_of(url: &str) -> Result<String, Error> {
    let wrong = |why: &str| Error::Config(format!("`{url}` {why}; write it as `http://127.0.0.1:7700`"));
    let uri: Uri = url.parse().map_err(|_| wrong("is no address of a server"))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return Err(wrong("is neither `http:` nor `https:`")),
        None => return Err(wrong("has no scheme")),
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(wrong("names no host"));
    }
    if uri.query().is_some() {
        return Err(wrong("has parameters, which an address of a server has not"));
    }
    Ok(url.trim_end_matches('/').to_string())
}

fn header_value(what: &str, value: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(value).map_err(|_| Error::Config(format!("`{what}` has letters that HTTP cannot carry")))
}

/// The time that a reply names, in seconds or as a date. A date counts from that of the reply, so that no clock here
/// matters.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::trim);
    let named = text(RETRY_AFTER)?;
    let seconds = match named.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => seconds_of_date(named)?.saturating_sub(text(DATE).and_then(seconds_of_date)?),
    };
    Some(seconds.saturating_mul(1_000))
}

/// A date as HTTP writes it, such as `Sun, 06 Nov 1994 08:49:37 GMT`, in seconds since 1970.
fn seconds_of_date(date: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, date) = date.split_once(", ")?;
    let [day, month, year, time, "GMT"] = date.split(' ').collect::<Vec<_>>()[..] else { return None };
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>()[..] else { return None };
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number < 10_000);
    let month = 1 + MONTHS.iter().position(|name| *name == month)? as u64;
    let year = number(year).filter(|year| *year >= 1970)?;
    // Years that begin in March have their odd day at the end.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + number(day)?;
    const DAYS_TO_1970: u64 = 719_469;
    let days = days.checked_sub(DAYS_TO_1970)?;
    Some(((days * 24 + number(hour)?) * 60 + number(minute)?) * 60 + number(second)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_work_is_refused_with_what_to_write() {
        for (url, why) in [
            ("127.0.0.1:7700", "has no scheme"),
            ("ftp://host", "neither"),
            ("", "no address"),
            ("http://host/?a=1", "parameters"),
        ] {
            let told = base_of(url).unwrap_err().to_string();
            assert!(told.contains(why) && told.contains("http://127.0.0.1:7700"), "{url}: {told}");
        }
        assert_eq!(base_of("https://host:1/weft/").unwrap(), "https://host:1/weft");
    }

    #[test]
    fn sdk_3_the_time_that_a_proxy_names_is_kept_in_seconds_and_as_a_date() {
        assert_eq!(seconds_of_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(seconds_of_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(seconds_of_date("Thu, 29 Feb 2024 23:59:59 GMT"), Some(1_709_251_199));
        for none in ["", "soon", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 1 Jan 1"] {
            assert_eq!(seconds_of_date(none), None, "{none}");
        }
        let http = Http::new("http://host", None, Trust::system()).unwrap();
        let told = |headers: &[(http::HeaderName, &'static str)]| {
            let pairs = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            let error = http.refused(StatusCode::SERVICE_UNAVAILABLE, &pairs.collect(), b"<html>");
            assert!(error.is_retryable(), "{error}");
            error.retry_after_ms()
        };
        assert_eq!(told(&[(RETRY_AFTER, "7")]), Some(7_000));
        let later = (RETRY_AFTER, "Tue, 17 Nov 2026 04:00:30 GMT");
        assert_eq!(told(&[later.clone(), (DATE, "Tue, 17 Nov 2026 04:00:00 GMT")]), Some(30_000));
        assert_eq!(told(&[later.clone(), (DATE, "Tue, 17 Nov 2026 05:00:00 GMT")]), Some(0), "it has passed");
        assert_eq!(told(&[later]), None, "without a date there is nothing to count from");
        assert_eq!(told(&[]), None);
    }
}
