//! The key that was meant where a graph names one that is no member.

use serde_json::Value;
use weft_api::{Code, Problem};
use weft_core::FlowId;
use weft_core::limits::LIST_LIMIT_MAX;
use weft_engine::Client;
use weft_engine::flow::MemberFilter;

/// The refusal of a change to a flow that is there, with what was meant. The keys are those of the call and of the first
/// members of the flow.
pub async fn of_flow<T>(
    client: &Client,
    flow: FlowId,
    mut keys: Vec<String>,
    answer: Result<T, Problem>,
) -> Result<T, Problem> {
    let refused = match answer {
        Err(refused) if refused.code == Code::UnknownNode => refused,
        other => return other,
    };
    // What cannot be read is no reason for another refusal.
    let there = client.members(flow, MemberFilter::added_after(None, LIST_LIMIT_MAX)).await.unwrap_or_default();
    keys.extend(there.members.iter().filter_map(|(execution, _)| Some(execution.member()?.key.to_string())));
    Err(among(refused, &keys))
}

/// The refusal with the nearest of the keys that there are: as its hint, or of several problems in the detail of each.
pub fn among(mut refused: Problem, keys: &[String]) -> Problem {
    let known = || keys.iter().map(String::as_str);
    match refused.fields.get_mut("problems").and_then(Value::as_array_mut) {
        Some(problems) if problems.len() > 1 => {
            for problem in problems.iter_mut().filter(|problem| problem["code"] == Code::UnknownNode.name()) {
                let meant = problem["keys"][0].as_str().and_then(|key| weft_api::nearest(key, known()));
                if let (Some(meant), Some(detail)) = (meant, problem["detail"].as_str()) {
                    problem["detail"] = format!("{detail}; did you mean `{meant}`?").into();
                }
            }
            refused
        }
        Some(problems) if refused.code == Code::UnknownNode => {
            let key = problems.first().and_then(|problem| problem["keys"][0].as_str()).unwrap_or_default().to_string();
            refused.suggest(&key, known())
        }
        _ => refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rejection::problem;
    use weft_core::error::Rejection;
    use weft_core::flow::problem::{Problem as Fault, Wrong};

    fn unknown(keys: &[&str]) -> Problem {
        let fault = |key: &&str| Fault::new("edges[0].from", Wrong::UnknownNode { key: (*key).into() });
        let known = ["load".to_string(), "report".to_string()];
        among(problem(Rejection::BadGraph { problems: keys.iter().map(fault).collect() }), &known)
    }

    #[test]
    fn a_key_of_no_member_is_told_with_the_nearest() {
        assert_eq!(unknown(&["laod"]).hint.as_deref(), Some("did you mean `load`?"));
        assert_eq!(unknown(&["zzz"]).hint, None);
        let two = unknown(&["laod", "zzz"]);
        let detail = |at: usize| two.fields["problems"][at]["detail"].as_str().unwrap_or_default();
        assert!(detail(0).ends_with("; did you mean `load`?"), "{}", detail(0));
        assert!(!detail(1).contains("did you mean"), "{}", detail(1));
    }
}
