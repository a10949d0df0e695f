//! Variables with the prefix `WEFT_` that are no configuration. They are known, so that a misspelt one of the
//! configuration can be told from them.

/// What every variable of Weft begins with.
pub(crate) const PREFIX: &str = "WEFT_";

/// A variable that is no configuration, and what it is for. A `*` stands for any text.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    pub name: &'static str,
    pub what: &'static str,
}

pub const OTHERS: &[Other] = &[
    other("WEFT_URL", "the server that commands and clients talk to"),
    other("WEFT_KEY", "the key that commands and clients show to it"),
    other("WEFT_KEY_FILE", "a file with that key"),
    other("WEFT_CA_FILE", "a file with the authorities that commands trust instead of the system's"),
    other("WEFT_CLIENT_CERT", "a file with the certificate that commands show to a server that asks for one"),
    other("WEFT_CLIENT_KEY", "a file with the key of that certificate"),
    other("WEFT_NAMESPACE", "the namespace that commands and clients work in"),
    other("WEFT_EXECUTION", "the execution that a program of `weft worker --exec` works on"),
    other("WEFT_ATTEMPT", "the number of its attempt"),
    other("WEFT_KIND", "its kind"),
    other("WEFT_LANE", "its lane"),
    other("WEFT_TAGS", "its tags, as JSON"),
    other("WEFT_CHECKPOINT_FILE", "a file with its last checkpoint"),
    other("WEFT_INPUT_FILE", "a file with its input, if it is not on stdin"),
    other("WEFT_FLOW", "the flow that it is a member of"),
    other("WEFT_MEMBER", "its key in that flow"),
    other("WEFT_INPUTS", "a folder with what its upstreams in the flow handed over"),
    other("WEFT_INPUT_*_FILE", "the file in it of the input with this name"),
    other("WEFT_CONTROL", "the pipe on which the program tells about its work"),
    other("WEFT_BLESS", "rewrites the files that tests compare with"),
    other("WEFT_FAULT_REPORT", "where fault tests write what they saw"),
    other("WEFT_FAULT_ROUNDS", "how many rounds fault tests take"),
    other("WEFT_FUZZ_*", "how long the fuzzer of the tests goes on, and where it writes what it saw"),
    other("WEFT_SERVERS_VICTIM", "marks a process that a test of the test servers kills"),
    other("WEFT_TEST_*", "servers and disks for tests"),
];

const fn other(name: &'static str, what: &'static str) -> Other {
    Other { name, what }
}

/// Whether this is one of the others.
pub(crate) fn is_other(name: &str) -> bool {
    OTHERS.iter().any(|other| match other.name.split_once('*') {
        Some((start, end)) => {
            name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)).is_some_and(|any| !any.is_empty())
        }
        None => other.name == name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_some_text() {
        assert!(is_other("WEFT_TEST_VALKEY_CLUSTER") && is_other("WEFT_INPUT_FILE") && is_other("WEFT_URL"));
        assert!(
            is_other("WEFT_INPUT_LEFT_FILE")
                && !is_other("WEFT_INPUT__FILE")
                && !is_other("WEFT_TEST_")
                && !is_other("WEFT_URLS")
        );
    }
}
