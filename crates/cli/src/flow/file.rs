//! Files that hold a flow, or a part of one: JSON as the HTTP API takes it, or the same as YAML.

use crate::fault::{Code, Fault};
use crate::remote::read_stdin;
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a file is about to be read as, for what is said of one that is not.
pub struct Wanted {
    pub noun: &'static str,
    /// The command whose help shows what a file looks like
    pub help: &'static str,
}

/// Reads a file, or stdin for `-`. A mistake is found here, and named by its place, before anything is sent.
pub async fn read<T: DeserializeOwned>(path: &str, wanted: &Wanted) -> Result<T> {
    let (bytes, name) = match path {
        "-" => (read_stdin().await?, "stdin"),
        path => {
            let unreadable = || Fault::new(Code::Usage, format!("cannot read `{path}`"));
            (std::fs::read(path).with_context(unreadable)?.into(), path)
        }
    };
    parse(&bytes, name, wanted)
}

pub fn parse<T: DeserializeOwned>(bytes: &[u8], name: &str, wanted: &Wanted) -> Result<T> {
    let parsed = match is_json(bytes, name) {
        true => of_json(bytes),
        false => of_yaml(bytes),
    };
    let help = || format!("`{} --help` shows what a file looks like", wanted.help);
    parsed.map_err(|(why, hint)| {
        let text = format!("`{name}` is not {}: {why}", wanted.noun);
        Fault::new(Code::Usage, text).hint(hint.unwrap_or_else(help)).into()
    })
}

/// What is wrong with a file, and what would be right if that is known.
type Mistake = (String, Option<String>);

/// By its name if that says so, else by how it begins: a flow is an object.
fn is_json(bytes: &[u8], name: &str) -> bool {
    match name.rsplit('.').next() {
        Some("json") => true,
        Some("yaml" | "yml") => false,
        _ => bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_none_or(|byte| matches!(byte, b'{' | b'[')),
    }
}

/// As large as a body may be, so that the server is the one to say what is too large.
const NODES_MAX: usize = 4_000_000;

/// YAML is read as the JSON it stands for, so that both forms of a file mean the same and are checked by the same types.
fn of_yaml<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Mistake> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: NODES_MAX, max_events: 2 * NODES_MAX },
        // `on` and `no` are texts, as YAML has it for long.
        strict_booleans: true,
        with_snippet: false,
    };
    let value = serde_saphyr::from_slice_with_options(bytes, options);
    let value: Value = value.map_err(|error| (of_library(&error), None))?;
    of_json(value.to_string().as_bytes())
}

/// What the library says of a file that is no YAML, without what it says to those who program with it.
fn of_library(error: &serde_saphyr::Error) -> String {
    let place = |text: String| match error.location() {
        Some(at) => format!("{text} at line {}, column {}", at.line(), at.column()),
        None => text,
    };
    match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => place(format!("`{key}` is given twice")),
        serde_saphyr::Error::DuplicateMappingKey { key: None, .. } => place("a key is given twice".to_owned()),
        serde_saphyr::Error::MultipleDocuments { .. } => "it has more than one document; give each a file".to_owned(),
        error => error.render_with_formatter(&serde_saphyr::UserMessageFormatter),
    }
}

fn of_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Mistake> {
    // A list of values would be taken for the fields of an object, one after the other.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(("it is a list and not an object".to_owned(), None));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(weft_api::Reader::new(&mut json, false)).map_err(|error| {
        match error.inner().classify() {
            // In the words of the server, which name the path of the value.
            serde_json::error::Category::Data => {
                let problem = weft_api::mistake_of_json(error);
                (problem.detail.trim_start_matches("`body` ").to_owned(), problem.hint)
            }
            _ => (error.into_inner().to_string(), None),
        }
    })?;
    json.end().map_err(|error| (error.to_string(), None))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_api::flow::{On, SubmitFlow};

    const WANTED: Wanted = Wanted { noun: "a flow", help: "weft flow submit" };

    fn flow(text: &str, name: &str) -> Result<SubmitFlow> {
        parse(text.as_bytes(), name, &WANTED)
    }

    #[test]
    fn cli_1_a_file_that_is_no_flow_is_misuse_and_says_where() {
        assert_eq!(flow("{\"kind\": \"etl\"}", "etl.json").unwrap().kind, "etl");
        for (text, name, part) in [
            ("{", "f", "line 1"),
            ("{\"kind\": \"etl\", \"egdes\": []}", "f", "`egdes`"),
            ("[]", "f", "`f` is not a flow"),
            ("{\"kind\": \"etl\"} {}", "f", "line 1"),
            ("kind: etl\nmembers: [{key: a, kind: b, input: c}]", "f", "expected an object with one of `json`"),
            ("", "f.json", "EOF"),
            ("", "f.yaml", "not a flow: invalid type: null, expected an object with `kind`"),
            ("kind: etl\nmembers: [", "f.yaml", "line 2"),
            ("kind: etl\negdes: []", "f.yaml", "`egdes`"),
            ("kind: etl\nmembers:\n- key: a\n  kidn: load\n", "f", "`members[0].kidn`"),
            ("kind: etl\nkind: elt", "f.yml", "not a flow: `kind` is given twice at line 2, column 1"),
            ("kind: etl\n---\nkind: elt", "f.yml", "not a flow: it has more than one document"),
            ("kind: etl\nfailure_policy: fail_fst", "f.yml", "`failure_policy` is `fail_fst`, allowed are `isolate`"),
            ("- a\n- b\n", "f.yml", "`f.yml` is not a flow: it is a list"),
            ("[\"a\", \"b\"]", "f", "it is a list"),
        ] {
            let error = flow(text, name).unwrap_err();
            assert!(error.to_string().contains(part), "{text}: {error}");
            assert!(!error.to_string().contains('\n'), "{text}: {error}");
            assert_eq!(Fault::exit_code(&error), 2);
        }
    }

    #[test]
    fn a_flow_in_yaml_is_the_flow_in_json() {
        let yaml = "
kind: etl
tags: {day: mon}
members:
  - key: load          # what a comment says is for people
    kind: load
    input: {json: {rows: 7, exact: 1.25, empty: null, yes: 'no'}}
  - {key: mend, kind: mend}
edges:
  - from: load
    to: mend
    on: failure
    input: broken
failure_policy: collect_all
";
        let json = r#"{"kind": "etl", "tags": {"day": "mon"}, "members": [
            {"key": "load", "kind": "load", "input": {"json": {"rows": 7, "exact": 1.25, "empty": null, "yes": "no"}}},
            {"key": "mend", "kind": "mend"}],
            "edges": [{"from": "load", "to": "mend", "on": "failure", "input": "broken"}],
            "failure_policy": {"kind": "collect_all"}}"#;
        let (yaml, json) = (flow(yaml, "-").unwrap(), flow(json, "-").unwrap());
        assert_eq!(yaml.edges[0].on, Some(On::Failure), "`on` is a word");
        let value = |flow: &SubmitFlow| serde_json::to_value(flow).unwrap();
        assert_eq!(value(&yaml), value(&json));
        assert_eq!(flow("{kind: etl}", "f.yaml").unwrap().kind, "etl", "YAML may have braces too");
    }
}
