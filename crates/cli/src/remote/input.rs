//! Payloads of the command line: text in the argument, `@file`, or `-` for stdin.

use crate::fault::{Code, Fault};
use anyhow::{Context, Result};
use bytes::Bytes;
use std::io::Read;
use weft_api::Payload;
use weft_api::payload::{JSON, is_json};

/// Reads what the flag `flag` names. Without a content type it must be JSON, so that a typo is found here and not by a
/// worker.
pub async fn read_input(flag: &str, given: &str, content_type: Option<&str>) -> Result<Payload> {
    let (bytes, from) = match given.strip_prefix('@') {
        Some(path) => (read_file(flag, path)?, format!("`{path}`")),
        None if given == "-" => (read_stdin().await?, "stdin".to_owned()),
        None => (Bytes::copy_from_slice(given.as_bytes()), format!("`{flag}`")),
    };
    payload(bytes, &from, content_type)
}

fn payload(bytes: Bytes, from: &str, content_type: Option<&str>) -> Result<Payload> {
    let kind = content_type.unwrap_or(JSON);
    if !is_json(kind) {
        return Ok(Payload::new(bytes, Some(kind.to_owned())));
    }
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        let hint = match content_type {
            None => "quote it for the shell, as in '{\"order\": 17}'; or say what it is: `--type text/plain`",
            Some(_) => "quote it for the shell, as in '{\"order\": 17}'",
        };
        return Err(Fault::new(Code::Usage, format!("{from} is not JSON: {error}")).hint(hint).into());
    }
    // The line end that editors add is no part of the value.
    Ok(Payload::new(Bytes::copy_from_slice(bytes.trim_ascii()), Some(kind.to_owned())))
}

fn read_file(flag: &str, path: &str) -> Result<Bytes> {
    let unreadable = || Fault::new(Code::Usage, format!("cannot read `{path}` of `{flag}`"));
    Ok(std::fs::read(path).with_context(unreadable)?.into())
}

/// Everything from stdin. On a thread of its own, so that an interrupt is heard meanwhile.
pub async fn read_stdin() -> Result<Bytes> {
    let read = tokio::task::spawn_blocking(|| {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    });
    Ok(read.await.context("stdin was not read")?.context("could not read stdin")?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, content_type: Option<&str>) -> Result<Payload> {
        payload(Bytes::copy_from_slice(text.as_bytes()), "`--input`", content_type)
    }

    #[test]
    fn json_is_checked_and_keeps_its_bytes() {
        assert_eq!(read(" {\"a\": 1.00} \n", None).unwrap().bytes, &b"{\"a\": 1.00}"[..]);
        assert_eq!(read("{a}", Some("text/plain")).unwrap().content_type.as_deref(), Some("text/plain"));
    }

    #[test]
    fn cli_1_text_that_is_not_json_is_misuse_and_says_where() {
        let error = read("{order: 17}", None).unwrap_err();
        let (_, message, hint) = Fault::told(&error);
        assert_eq!(Fault::exit_code(&error), 2);
        assert!(message.starts_with("`--input` is not JSON: ") && message.contains("column 2"), "{message}");
        assert!(hint.unwrap().contains("--type"));
    }
}
