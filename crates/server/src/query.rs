//! Parameters of a request: from its query and, in the raw form of a call, from headers.

use crate::identify::header;
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::collections::BTreeMap;
use weft_api::{Problem, Spec, has_raw_form};
use weft_core::text::Text;

const NAMESPACE: HeaderName = HeaderName::from_static("weft-namespace");
/// The parameter that says the same as the header.
const NAMESPACE_PARAMETER: &str = "namespace";
/// Headers of the API that are no fields of a call, whether or not this server looks at them.
const NOT_FIELDS: [&str; 3] = ["weft-namespace", "weft-big", "weft-now"];
const FIELD_PREFIX: &str = "weft-";

/// The namespace that a request names by its header or its parameter, and the rest of its query.
pub fn namespace_of(parts: &Parts) -> Result<(Option<Text>, String), Problem> {
    let mut named = header(&parts.headers, &NAMESPACE)?;
    let mut rest = Vec::new();
    for pair in pairs(parts.uri.query().unwrap_or_default()) {
        let (NAMESPACE_PARAMETER, value) = split(pair) else {
            rest.push(pair);
            continue;
        };
        let value = decoded(NAMESPACE_PARAMETER, value)?;
        if named.as_ref().is_some_and(|named| *named != value) {
            return Err(Problem::invalid(NAMESPACE_PARAMETER, "is given twice, and not the same"));
        }
        named = Some(value);
    }
    Ok((named.map(Text::from), rest.join("&")))
}

/// Refuses parameters that would be read as something that was not sent: no text at all, or nothing.
pub fn check(query: &str) -> Result<(), Problem> {
    for pair in pairs(query) {
        let (name, value) = split(pair);
        if pair.contains('%') {
            decoded(name, name)?;
            decoded(name, value)?;
        }
        // The one field whose emptiness means something.
        if value.is_empty() && name != "message" {
            return Err(Problem::invalid(name, "is empty; give it a value or leave it out"));
        }
    }
    Ok(())
}

/// The query of a call with the fields that its headers give: `Weft-Lane: mail` is `lane=mail`. Only a call that has a raw
/// form has such headers.
pub fn with_headers(spec: &Spec, query: String, headers: &HeaderMap) -> Result<String, Problem> {
    if !has_raw_form(spec.id) {
        return Ok(query);
    }
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| !NOT_FIELDS.contains(&name.as_str())) {
        let Some(field) = name.as_str().strip_prefix(FIELD_PREFIX) else { continue };
        fields.entry(field.replace('-', "_")).or_default().push(text_of(name, value)?);
    }
    let mut whole = query.clone();
    for (field, values) in fields {
        let given: Vec<String> = named(&query, &field).map(|value| decoded(&field, value)).collect::<Result<_, _>>()?;
        if given == values {
            continue;
        }
        if !given.is_empty() {
            return Err(Problem::invalid(field, "and the header of that name differ; give one"));
        }
        for value in values {
            let separator = if whole.is_empty() { "" } else { "&" };
            whole = format!("{whole}{separator}{field}={}", utf8_percent_encode(&value, NON_ALPHANUMERIC));
        }
    }
    Ok(whole)
}

/// Takes out of the query of a raw call what makes a repeat of it recognisable, which is no part of what it asks.
pub fn without_repeat_id(spec: &Spec, query: String) -> Result<(String, Option<String>), Problem> {
    let field = if spec.id == "submit_execution" { "idempotency_key" } else { "request_id" };
    let rest: Vec<&str> = pairs(&query).filter(|pair| split(pair).0 != field).collect();
    // Without other parameters the call is not in its raw form, and its fields stand in its body.
    if !has_raw_form(spec.id) || rest.is_empty() {
        return Ok((query, None));
    }
    let given: Vec<&str> = named(&query, field).collect();
    match given[..] {
        [] => Ok((query, None)),
        [value] => Ok((rest.join("&"), Some(decoded(field, value)?))),
        _ => Err(Problem::invalid(field, "is given twice")),
    }
}

fn pairs(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter(|pair| !pair.is_empty())
}

fn split(pair: &str) -> (&str, &str) {
    pair.split_once('=').unwrap_or((pair, ""))
}

fn named<'a>(query: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    pairs(query).map(split).filter(move |(given, _)| *given == name).map(|(_, value)| value)
}

/// The text that a part of a query stands for.
fn decoded(name: &str, part: &str) -> Result<String, Problem> {
    let spaced = part.replace('+', " ");
    let text = percent_decode_str(&spaced).decode_utf8();
    text.map(String::from).map_err(|_| Problem::invalid(name, "is not UTF-8"))
}

fn text_of(name: &HeaderName, value: &HeaderValue) -> Result<String, Problem> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(String::from).map_err(|_| Problem::invalid(name.as_str(), "is not UTF-8"))
}
