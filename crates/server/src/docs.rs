//! The OpenAPI document, as text for programs and as a page for people. The page is made here, without scripts, so that
//! it works behind the strictest policy.

use crate::reply;
use axum::response::Response;
use http::HeaderValue;
use http::header::CONTENT_SECURITY_POLICY;
use serde_json::Value;
use std::fmt::Write;
use std::sync::OnceLock;
use weft_api::{OPERATIONS, Scope, Spec};

pub const HINT: &str = "`GET /docs` lists what there is";
pub const STYLE: &str = include_str!("docs.css");

/// The document, as it is committed in `docs/openapi.json`.
pub fn document_text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let document = weft_api::document(env!("CARGO_PKG_VERSION"));
        let mut text = serde_json::to_string_pretty(&document).expect("docs: the document is JSON");
        text.push('\n');
        text
    })
}

pub fn page() -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| html(&weft_api::document(env!("CARGO_PKG_VERSION"))));
    let mut response = reply::bytes(200, text.as_str().into(), Some("text/html; charset=utf-8"));
    let policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response.headers_mut().insert("x-frame-options", HeaderValue::from_static("DENY"));
    response
}

fn html(document: &Value) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <title>Weft API</title><link rel=stylesheet href=/docs/page.css><h1>Weft API</h1><p>{} \
         <a href=/v1/openapi.json>The document for programs</a>.</p><nav>",
        escaped(document["info"]["description"].as_str().unwrap_or_default())
    );
    let tags: Vec<&Value> = document["tags"].as_array().into_iter().flatten().collect();
    for tag in &tags {
        let name = escaped(tag["name"].as_str().unwrap_or_default());
        let _ = write!(out, "<a href=#{name}>{name}</a> ");
    }
    out.push_str("<a href=#types>types</a></nav>");
    for tag in tags {
        let name = tag["name"].as_str().unwrap_or_default();
        let _ = write!(
            out,
            "<h2 id={0}>{0}</h2><p>{1}</p>",
            escaped(name),
            escaped(tag["description"].as_str().unwrap_or_default())
        );
        for spec in OPERATIONS.iter().filter(|spec| spec.tag == name) {
            operation(&mut out, spec, &document["paths"][spec.path][spec.method.name().to_lowercase()]);
        }
    }
    out.push_str("<h2 id=types>types</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let _ = write!(out, "<details id={0}><summary>{0}</summary>", escaped(name));
        fields(&mut out, schema);
        out.push_str("</details>");
    }
    out
}

fn operation(out: &mut String, spec: &Spec, value: &Value) {
    let scope = match spec.scope {
        Scope::Any => "any key".to_string(),
        scope => scope.names().join(" or "),
    };
    let _ = write!(
        out,
        "<details id={}><summary><b>{}</b> <code>{}</code> {}</summary><p>Needs {scope}.</p>",
        spec.id,
        spec.method.name(),
        escaped(spec.path),
        escaped(spec.summary)
    );
    let given: Vec<&Value> =
        value["parameters"].as_array().into_iter().flatten().filter(|one| one["in"] != "header").collect();
    if !given.is_empty() {
        out.push_str("<table>");
        for one in given {
            let _ = write!(
                out,
                "<tr><td><code>{}</code><td>{}<td>{}",
                escaped(one["name"].as_str().unwrap_or_default()),
                one["in"].as_str().unwrap_or_default(),
                escaped(one["description"].as_str().unwrap_or_default())
            );
        }
        out.push_str("</table>");
    }
    let body = &value["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        let about = ticks(value["requestBody"]["description"].as_str().unwrap_or_default());
        let _ = write!(out, "<p>Takes {}. {about}</p>", type_text(body));
    }
    for (status, reply) in value["responses"].as_object().into_iter().flatten() {
        let schema = &reply["content"]["application/json"]["schema"];
        let gives = if schema.is_null() { String::new() } else { format!(" {}", type_text(schema)) };
        let _ =
            write!(out, "<p><b>{status}</b>{gives} {}</p>", ticks(reply["description"].as_str().unwrap_or_default()));
    }
    out.push_str("</details>");
}

fn fields(out: &mut String, schema: &Value) {
    if let Some(text) = schema["description"].as_str() {
        let _ = write!(out, "<p>{}</p>", ticks(text));
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> =
            words.iter().filter_map(Value::as_str).map(|word| format!("<code>{}</code>", escaped(word))).collect();
        let _ = write!(out, "<p>{}</p>", words.join(" "));
    }
    let variants = schema["oneOf"].as_array().into_iter().chain(schema["allOf"].as_array()).flatten();
    for variant in variants {
        let _ = write!(out, "<div class=variant><p>{}</p>", type_text(variant));
        fields(out, variant);
        out.push_str("</div>");
    }
    let Some(properties) = schema["properties"].as_object() else { return };
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    out.push_str("<table>");
    for (name, property) in properties {
        let _ = write!(
            out,
            "<tr><td><code>{}</code>{}<td>{}<td>{}",
            escaped(name),
            if required.contains(&name.as_str()) { "" } else { "?" },
            type_text(property),
            ticks(property["description"].as_str().unwrap_or_default())
        );
    }
    out.push_str("</table>");
}

/// A type in a few words, linked if it has a name.
fn type_text(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("<a href=#{0}>{0}</a>", escaped(name));
    }
    if let Some(variants) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let named: Vec<String> = variants.iter().filter(|variant| variant["type"] != "null").map(type_text).collect();
        return named.join(" or ");
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", type_text(&schema["items"])),
        Some(kind) => escaped(kind),
        None => match schema["type"].as_array() {
            Some(kinds) => {
                escaped(kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("any"))
            }
            None => "any".to_string(),
        },
    }
}

/// Text with what stands between backticks set as code.
fn ticks(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 1 { format!("<code>{}</code>", escaped(part)) } else { escaped(part) })
        .collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_operation() {
        let page = html(&weft_api::document("0"));
        for spec in OPERATIONS {
            assert!(page.contains(&format!("<details id={}>", spec.id)), "{}", spec.id);
        }
    }

    #[test]
    fn api_57_the_committed_document_is_the_one_that_the_code_makes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        if std::env::var_os("WEFT_BLESS").is_some() {
            std::fs::write(path, document_text()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == document_text(), "docs/openapi.json is not what the code says; run with WEFT_BLESS=1");
    }
}
