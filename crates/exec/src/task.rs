//! What a program is told about its task, and what it is not told about the worker.

use crate::folder::Folder;
use crate::inputs::Inputs;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

#[derive(Debug, Default)]
pub struct Task {
    pub execution: String,
    pub attempt: u32,
    pub kind: String,
    pub lane: String,
    pub tags: BTreeMap<String, String>,
    /// None is the same as empty on stdin; as a file, none means no `WEFT_INPUT_FILE`.
    pub input: Option<Bytes>,
    /// W3C trace context, for programs that make traces.
    pub trace: Option<String>,
    /// The last checkpoint, by this or an earlier attempt.
    pub checkpoint: Option<Bytes>,
    /// Of what it is a part, if it is a member of a flow.
    pub member: Option<Member>,
}

/// A member of a flow.
#[derive(Debug)]
pub struct Member {
    pub flow: String,
    pub key: String,
    pub inputs: Inputs,
}

/// All settings of a node and of a client begin so, its keys and the address of its store with a password among them.
const OWN_PREFIX: &[u8] = b"WEFT_";

/// The variables that no program inherits. All of ours, not a list of secrets: a list would be one name short one day.
pub fn withheld() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| is_own(name))
}

fn is_own(name: &OsStr) -> bool {
    name.as_bytes().starts_with(OWN_PREFIX)
}

/// The name of the control pipe. Its value is unlike that of any other task.
pub fn control_variable(prefix: &str) -> String {
    format!("{prefix}CONTROL")
}

/// The variables that a program gets on top of those of its worker.
pub fn variables(task: &Task, folder: &Folder, prefix: &str) -> Vec<(String, OsString)> {
    let tags = serde_json::to_string(&task.tags).expect("task: a map of text is JSON");
    let mut variables: Vec<(&str, OsString)> = vec![
        ("EXECUTION", task.execution.clone().into()),
        ("ATTEMPT", task.attempt.to_string().into()),
        ("KIND", task.kind.clone().into()),
        ("LANE", task.lane.clone().into()),
        ("TAGS", tags.into()),
    ];
    if let Some(member) = &task.member {
        variables.push(("FLOW", member.flow.clone().into()));
        variables.push(("MEMBER", member.key.clone().into()));
        variables.push(("INPUTS", folder.inputs().into()));
    }
    variables.extend(folder.input.as_ref().map(|path| ("INPUT_FILE", path.into())));
    variables.extend(folder.checkpoint.as_ref().map(|path| ("CHECKPOINT_FILE", path.into())));
    let prefixed = variables.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value));
    let inputs = task.member.iter().flat_map(|member| member.inputs.by_variable());
    let inputs = inputs.map(|(name, file)| (format!("{prefix}INPUT_{name}_FILE"), folder.inputs().join(file).into()));
    // The name that tools for traces look for, whatever ours begin with.
    let trace = task.trace.as_ref().map(|trace| ("TRACEPARENT".to_string(), trace.into()));
    prefixed.chain(inputs).chain([(control_variable(prefix), folder.control().into())]).chain(trace).collect()
}
