//! What one operation of the API is: how it is called, who may call it, what goes in and what comes out.

use crate::batch::{self, Many, Unreadable};
use crate::decode::{json_with, mistake_of_query};
use crate::payload::Payload;
use crate::problem::{Code, Problem};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::any::TypeId;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, ToSchema};

/// One operation, as data. Routes, permissions, limits and the document are made from it.
pub struct Spec {
    /// Names it in metrics, logs and generated clients
    pub id: &'static str,
    pub method: Method,
    pub path: &'static str,
    pub summary: &'static str,
    pub tag: &'static str,
    pub scope: Scope,
    pub status: u16,
    pub body_max: BodyMax,
    /// Refusals beside those that every operation may give
    pub codes: &'static [&'static [Code]],
    pub parameters: fn() -> Vec<Value>,
    pub body: Option<fn(&mut Schemas) -> Value>,
    pub reply: Option<fn(&mut Schemas) -> Value>,
}

impl Spec {
    /// True if it may change something.
    pub fn changes(&self) -> bool {
        self.method != Method::Get && !self.id.starts_with("read_")
    }

    /// Names of the parts of the path that are given by the caller.
    pub fn path_names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The path with its parts filled in, escaped.
    pub fn path_of(&self, given: &[String]) -> String {
        let mut given = given.iter();
        let parts = self.path.split('/').map(|part| match part.starts_with('{') {
            true => escape(given.next().map_or("", String::as_str)),
            false => part.to_string(),
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// True if the call may depend on what its caller has seen.
    pub fn takes_revision(&self) -> bool {
        self.all_codes().contains(&Code::RevisionMismatch)
    }

    /// Refuses a condition that the call would not look at.
    pub fn check_conditions(&self, wire: &Wire) -> Result<(), Problem> {
        match wire.if_match {
            Some(_) if self.changes() && !self.takes_revision() => {
                Err(Problem::invalid("If-Match", "is not for this call, which has no single revision to compare with"))
            }
            _ => Ok(()),
        }
    }

    pub fn all_codes(&self) -> Vec<Code> {
        let mut codes: Vec<Code> = COMMON.iter().chain(self.codes.iter().copied().flatten()).copied().collect();
        codes.sort();
        codes.dedup();
        codes
    }
}

/// Percent-encodes what could end a part of a path.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' | b'@' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }
}

/// Who may call: a key with any of the scopes that the word stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any good key
    Any,
    /// `submit`, `operate` or `admin`
    Read,
    Submit,
    Work,
    SubmitOrOperate,
    WorkOrOperate,
    Operate,
    Admin,
}

impl Scope {
    /// The scopes of which one is needed, by name. None for `Any`.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Scope::Any => &[],
            Scope::Read => &["submit", "operate", "admin"],
            Scope::Submit => &["submit"],
            Scope::Work => &["work"],
            Scope::SubmitOrOperate => &["submit", "operate", "admin"],
            Scope::WorkOrOperate => &["work", "operate", "admin"],
            Scope::Operate => &["operate", "admin"],
            Scope::Admin => &["admin"],
        }
    }
}

/// How large the body may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyMax {
    /// What most requests need
    Small,
    /// One input or result
    Payload,
    /// A batch
    Batch,
}

/// Refusals that every operation may give.
pub const COMMON: &[Code] = &[
    Code::InvalidArgument,
    Code::InvalidJson,
    Code::NamespaceRequired,
    Code::Unauthorized,
    Code::Forbidden,
    Code::RouteNotFound,
    Code::MethodNotAllowed,
    Code::NotAcceptable,
    Code::RequestTimeout,
    Code::PayloadTooLarge,
    Code::UriTooLong,
    Code::UnsupportedMediaType,
    Code::RateLimited,
    Code::HeadersTooLarge,
    Code::Internal,
    Code::Busy,
    Code::Unavailable,
    Code::Draining,
    Code::NotReady,
];

/// Named schemas that a document needs.
pub type Schemas = std::collections::BTreeMap<String, RefOr<Schema>>;

/// A typed operation: what its call holds and what its reply is.
pub trait Operation {
    type Path;
    type Query;
    type Body;
    type Reply;
    const SPEC: &'static Spec;

    fn call(args: Args<Self::Path, Self::Query, Self::Body>) -> crate::Call;
    fn reply(reply: crate::Reply) -> Option<Self::Reply>;
}

/// One call of an operation.
#[derive(Clone, Debug, Default)]
pub struct Args<P, Q, B> {
    pub path: P,
    pub query: Q,
    pub body: B,
    /// The `Idempotency-Key` header
    pub idempotency_key: Option<String>,
    /// The `If-Match` header: the revision the caller has seen
    pub if_match: Option<String>,
    /// Items of a batch that are not in its body because they could not be read: their places, and why
    pub unreadable: Vec<Unreadable>,
}

impl<P, Q, B> Args<P, Q, B> {
    /// A call without conditions.
    pub fn new(path: P, query: Q, body: B) -> Self {
        Self { path, query, body, idempotency_key: None, if_match: None, unreadable: Vec::new() }
    }
}

/// A call as it travels: everything is text or bytes.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    pub path: Vec<String>,
    pub query: String,
    pub body: Bytes,
    pub idempotency_key: Option<String>,
    pub if_match: Option<String>,
    /// `Weft-Big: text`: numbers of 64 bits in the body may be text
    pub big_as_text: bool,
}

impl<const N: usize, Q: Reading, B: Body> Args<[String; N], Q, B> {
    pub fn from_wire(wire: Wire) -> Result<Self, Problem> {
        let body = B::read_json(&wire.body, wire.big_as_text)?;
        Self::around(wire, body, Vec::new())
    }

    /// Reads a batch, whatever its items are. One that is good is read once and whole; only one that is not is taken apart.
    pub fn batch_from_wire(wire: Wire) -> Result<Self, Problem>
    where
        B: Many,
    {
        let (body, unreadable) = match B::read_json(&wire.body, wire.big_as_text) {
            Ok(body) => (body, Vec::new()),
            Err(problem) => batch::by_items(&wire.body, wire.big_as_text, problem)?,
        };
        Self::around(wire, body, unreadable)
    }

    fn around(wire: Wire, body: B, unreadable: Vec<Unreadable>) -> Result<Self, Problem> {
        let path = wire.path.try_into();
        Ok(Self {
            path: path.map_err(|_| Problem::new(Code::RouteNotFound, "the path has another number of parts"))?,
            query: Q::read(&wire.query)?,
            body,
            idempotency_key: wire.idempotency_key,
            if_match: wire.if_match,
            unreadable,
        })
    }

    pub fn into_wire(self) -> Wire {
        Wire {
            path: self.path.into(),
            query: self.query.write(),
            body: self.body.to_json(),
            idempotency_key: self.idempotency_key,
            if_match: self.if_match,
            big_as_text: false,
        }
    }
}

/// Parameters of a query.
pub trait Reading: Sized {
    fn read(query: &str) -> Result<Self, Problem>;
    fn write(&self) -> String;
    fn parameters() -> Vec<Value>;
}

impl<T: Serialize + DeserializeOwned + IntoParams> Reading for T {
    fn read(query: &str) -> Result<Self, Problem> {
        let pairs = serde_html_form::Deserializer::from_bytes(query.as_bytes());
        serde_path_to_error::deserialize(pairs).map_err(mistake_of_query)
    }

    fn write(&self) -> String {
        serde_html_form::to_string(self).expect("api: query parameters are text, numbers and lists of them")
    }

    fn parameters() -> Vec<Value> {
        let all = T::into_params(|| Some(utoipa::openapi::path::ParameterIn::Query));
        all.into_iter().map(|one| serde_json::to_value(one).expect("api: a parameter is JSON")).collect()
    }
}

/// A JSON body. None at all means `{}`.
pub trait Body: Sized {
    fn from_json(bytes: &Bytes) -> Result<Self, Problem> {
        Self::read_json(bytes, false)
    }

    /// Numbers of 64 bits may be text, if so said.
    fn read_json(bytes: &Bytes, big_as_text: bool) -> Result<Self, Problem>;
    fn to_json(&self) -> Bytes;
}

impl<T: Serialize + DeserializeOwned + 'static> Body for T {
    fn read_json(bytes: &Bytes, big_as_text: bool) -> Result<Self, Problem> {
        json_with("", if bytes.is_empty() { b"{}" } else { bytes }, big_as_text)
    }

    fn to_json(&self) -> Bytes {
        match TypeId::of::<T>() == TypeId::of::<NoBody>() {
            true => Bytes::new(),
            false => serde_json::to_vec(self).expect("api: wire types are JSON").into(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct NoQuery {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoBody {}

/// A reply as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    pub bytes: Bytes,
    /// None: there is nothing, which is not the same as nothing in it
    pub content_type: Option<String>,
}

/// What an operation answers.
pub trait Carry: Sized {
    fn carry(&self) -> Carried;
    fn uncarry(carried: Carried) -> Result<Self, serde_json::Error>;
}

impl<T: Serialize + DeserializeOwned> Carry for T {
    fn carry(&self) -> Carried {
        let bytes = serde_json::to_vec(self).expect("api: wire types are JSON").into();
        Carried { bytes, content_type: Some(crate::payload::JSON.to_string()) }
    }

    fn uncarry(carried: Carried) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(&carried.bytes)
    }
}

/// The bytes of a payload themselves, or nothing if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(pub Option<Payload>);

impl Carry for Raw {
    fn carry(&self) -> Carried {
        match &self.0 {
            None => Carried { bytes: Bytes::new(), content_type: None },
            Some(payload) => {
                let kind = payload.content_type.clone().unwrap_or_else(|| "application/octet-stream".to_string());
                Carried { bytes: payload.bytes.clone(), content_type: Some(kind) }
            }
        }
    }

    fn uncarry(carried: Carried) -> Result<Self, serde_json::Error> {
        let kind = carried.content_type;
        Ok(Raw(kind.map(|kind| Payload::new(carried.bytes, Some(kind)))))
    }
}

/// Notes the schema of `T` and of all it holds, and answers a reference to it.
pub fn schema_of<T: ToSchema>(schemas: &mut Schemas) -> Value {
    let mut found = Vec::new();
    T::schemas(&mut found);
    schemas.extend(found);
    let name = name_of::<T>();
    schemas.insert(name.clone(), T::schema());
    serde_json::json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The name of a type in the document: `Page<Execution>` is `Page_Execution`, so that pages of different things differ.
fn name_of<T>() -> String {
    let parts = std::any::type_name::<T>().split(['<', '>', ',']).filter(|part| !part.trim().is_empty());
    parts.map(|part| part.rsplit("::").next().unwrap_or(part)).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_path_cannot_leave_its_place() {
        let spec = crate::op::GetExecution::SPEC;
        assert_eq!(spec.path_of(&["../keys?x=1".to_string()]), "/v1/executions/..%2Fkeys%3Fx%3D1");
        assert_eq!(spec.path_names().collect::<Vec<_>>(), ["execution"]);
    }
}
