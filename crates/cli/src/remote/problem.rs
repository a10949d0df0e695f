//! What an error of a call means to the person, and for the exit code.

use crate::fault::{Code, Fault};
use std::io;
use weft_api::Problem;
use weft_sdk::Error;

/// The error of a call that was made to do something: `cannot cancel: …`.
pub fn fault(doing: &str, error: Error) -> anyhow::Error {
    match error {
        Error::Rejected(problem) => refused(doing, &problem).into(),
        Error::Config(why) => Fault::usage(format!("cannot {doing}: {why}")),
        error @ Error::Transport { .. } => unreachable(doing, &error).into(),
        error => Fault::new(Code::Refused, format!("cannot {doing}: {error}")).named("decode").into(),
    }
}

/// What the client library asks at the end of its message; here the hint says it.
const ASKED: &str = "; is the server running?";

/// What the client library says of a server that answers `http:` with TLS.
const NOT_HTTP: &str = "answers, but not in HTTP";

fn unreachable(doing: &str, error: &Error) -> Fault {
    let message = error.to_string();
    let said = message.trim_end_matches(ASKED).replace("`ca_file=FILE`", "`--ca-file FILE`");
    let fault = Fault::new(Code::Unreachable, format!("could not {doing}: {said}"));
    let fault = fault.named("unreachable");
    if weft_tls::is_distrust(error) {
        let hint =
            "`--ca-file` or WEFT_CA_FILE names a file with the authority of the server, or with its own certificate";
        let fault = fault.with_code(Code::NotAllowed).named("untrusted");
        return if message.contains("ca_file=FILE") { fault.hint(hint) } else { fault };
    }
    if message.contains(NOT_HTTP) || message.contains(weft_tls::NO_TLS) {
        let (is, wanted) = if message.contains(NOT_HTTP) { ("http", "https") } else { ("https", "http") };
        return fault
            .with_code(Code::Usage)
            .hint(format!("write `{wanted}://` instead of `{is}://` in `--url` or WEFT_URL"));
    }
    if is_refused(error) {
        return fault.hint("is it running? `weft dev` starts one here; `--url` or WEFT_URL names another");
    }
    if message.contains("CertificateRequired") {
        return fault.hint("the server asks for a certificate: `--client-cert` and `--client-key` name one");
    }
    match message.starts_with("could not connect") {
        true => fault.hint("`--url` or WEFT_URL says where it is"),
        false => fault,
    }
}

/// Whether nobody listens there.
fn is_refused(error: &Error) -> bool {
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
    })
}

fn refused(doing: &str, problem: &Problem) -> Fault {
    let code = match problem.status {
        401 | 403 => Code::NotAllowed,
        408 | 503 => Code::Unreachable,
        _ => Code::Refused,
    };
    let may_help = matches!(problem.class, weft_api::Class::Later);
    let word = if may_help { "could not" } else { "cannot" };
    let detail = match problem.code {
        // The server tells a worker what to do about it.
        weft_api::Code::WorkerNotFound => "there is no such worker in this namespace",
        _ => &problem.detail,
    };
    let several = several(problem);
    let detail = several.as_deref().unwrap_or(detail);
    let fault = Fault::new(code, format!("{word} {doing}: {detail}")).named(problem.code.name());
    match own_hint(problem).or_else(|| problem.hint.clone().filter(|_| several.is_none())) {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}

/// All that is wrong with a graph, a line each, if that is more than one thing. Programs are pointed to where it stands.
fn several(problem: &Problem) -> Option<String> {
    let problems = problem.fields.get("problems")?.as_array().filter(|problems| problems.len() > 1)?;
    let each = problems.iter().filter_map(|one| one["detail"].as_str());
    let lines: Vec<String> = each.map(|detail| format!("\n  {}", crate::render::plain(detail))).collect();
    Some(format!("{} things are wrong with the graph{}", problems.len(), lines.concat()))
}

/// What a person at a terminal can do: the server gives hints to programs.
fn own_hint(problem: &Problem) -> Option<String> {
    Some(match problem.status {
        404 if problem.code == weft_api::Code::WorkerNotFound => "`weft workers` shows those that are there".to_owned(),
        401 => "set WEFT_KEY, or name a file with `--key-file`".to_owned(),
        400 if problem.code == weft_api::Code::NamespaceRequired => {
            "name one with `--namespace` or WEFT_NAMESPACE".to_owned()
        }
        500 => format!(
            "report it with the request id {}",
            problem.request_id.as_deref().unwrap_or("that the server logged")
        ),
        _ => return None,
    })
}

/// The refusal of one item among many, on one line.
pub fn told(problem: &Problem) -> String {
    format!("{}: {}", problem.code.name(), problem.detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: weft_api::Code) -> u8 {
        let problem = Problem::new(code, "why");
        Fault::exit_code(&fault("cancel", Error::Rejected(Box::new(problem))))
    }

    #[test]
    fn cli_1_a_refusal_has_the_exit_code_of_its_status() {
        use weft_api::Code::{Busy, ExecutionTerminal, Forbidden, InvalidArgument, RateLimited, Unauthorized};
        assert_eq!([Forbidden, Unauthorized].map(exit), [4, 4]);
        assert_eq!([ExecutionTerminal, InvalidArgument, RateLimited].map(exit), [1, 1, 1]);
        assert_eq!(exit(Busy), 3);
    }

    #[test]
    fn fl_40_all_that_is_wrong_with_a_graph_is_told_a_line_each() {
        let wrong = |detail: &str| serde_json::json!({ "code": "unknown_node", "detail": detail });
        let told = |problems: Vec<serde_json::Value>| {
            let problem = Problem::new(weft_api::Code::UnknownNode, "a; b").hint("all 2 are under `fields.problems`");
            let problem = problem.field("problems", problems);
            let (_, message, hint) = Fault::told(&fault("submit it", Error::Rejected(Box::new(problem))));
            (message, hint.is_some())
        };
        let two = "cannot submit it: 2 things are wrong with the graph\n  `x` is none\n  `y` is none".to_owned();
        assert_eq!(told(vec![wrong("`x` is none"), wrong("`y` is none")]), (two, false));
        assert_eq!(told(vec![wrong("a")]), ("cannot submit it: a; b".to_owned(), true));
    }

    #[test]
    fn a_refusal_says_what_cannot_be_done_why_and_what_to_do() {
        let problem = Problem::new(weft_api::Code::Unauthorized, "the key is not known");
        let (word, message, hint) = Fault::told(&fault("cancel", Error::Rejected(Box::new(problem))));
        assert_eq!((word.as_str(), message.as_str()), ("error[unauthorized]:", "cannot cancel: the key is not known"));
        assert!(hint.unwrap().contains("WEFT_KEY"));
    }
}
