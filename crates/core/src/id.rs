//! Ids: opaque to users, typed by prefix, carrying their partition (`x_7_0198f2c4-…`).
//!
//! Nothing here mints an id; fresh ones enter with the command.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// The unit of atomicity and of scale.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct PartitionId(pub u16);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// Why a text is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id of the form `{expected}_<partition>_<uuid>`")]
pub struct ParseIdError {
    pub expected: &'static str,
}

macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name {
            partition: PartitionId,
            uuid: Uuid,
        }

        impl $name {
            pub const fn new(partition: PartitionId, uuid: Uuid) -> Self {
                Self { partition, uuid }
            }

            pub const fn partition(self) -> PartitionId {
                self.partition
            }

            pub const fn uuid(self) -> Uuid {
                self.uuid
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}_{}"), self.partition, self.uuid.as_hyphenated())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            /// Accepts exactly what `Display` writes: one spelling per id.
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let wrong = ParseIdError { expected: $prefix };
                let rest = text.strip_prefix(concat!($prefix, "_")).ok_or(wrong)?;
                let (partition, uuid) = rest.split_once('_').ok_or(wrong)?;
                let partition = PartitionId(partition.parse().map_err(|_| wrong)?);
                let uuid = Uuid::try_parse(uuid).map_err(|_| wrong)?;
                let id = Self { partition, uuid };
                if id.to_string() == text { Ok(id) } else { Err(wrong) }
            }
        }
    };
}

typed_id!(
    /// One unit of work, for its whole life.
    ExecutionId, "x"
);
typed_id!(
    /// One graph of executions. Everything that belongs to it is in its partition.
    FlowId, "f"
);
typed_id!(
    /// One bulk job; its partition is where the job itself is.
    BulkId, "j"
);
typed_id!(
    /// One parked item: an item that a scanner could not handle.
    ParkedId, "d"
);
typed_id!(
    /// One lease; never repeated, not even after the store lost data.
    LeaseId, "l"
);

/// The public half of an API key: eight digits of base 62.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId([u8; KeyId::LEN]);

impl KeyId {
    pub const LEN: usize = 8;

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let id: [u8; Self::LEN] = bytes.try_into().ok()?;
        id.iter().all(u8::is_ascii_alphanumeric).then_some(Self(id))
    }

    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).expect("key id: its bytes are ASCII"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no id of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a key, which has eight letters or digits")]
pub struct ParseKeyIdError;

impl FromStr for KeyId {
    type Err = ParseKeyIdError;

    fn from_str(text: &str) -> Result<Self, ParseKeyIdError> {
        Self::from_bytes(text.as_bytes()).ok_or(ParseKeyIdError)
    }
}

/// The unique token of one commit. It is the revision of every record the commit wrote.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct CommitId(pub Uuid);

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_simple())
    }
}

impl FromStr for CommitId {
    type Err = uuid::Error;

    /// Accepts what `Display` writes.
    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        Uuid::try_parse(text).map(Self)
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ex_9_an_id_reads_back_as_it_was_written() {
        let id = ExecutionId::new(PartitionId(7), Uuid::from_u128(0x0198_f2c4_7a1e_7b6c_9d20_e5b1_a4f3_c8d7));
        assert_eq!(id.to_string(), "x_7_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn sec_4_an_id_of_a_key_has_eight_digits_of_base_62() {
        let id: KeyId = "0aZz9bC1".parse().unwrap();
        assert_eq!(id.to_string(), "0aZz9bC1");
        for text in ["", "0aZz9bC", "0aZz9bC12", "0aZz9b_1", "0aZz9b\u{e9}"] {
            assert_eq!(text.parse::<KeyId>(), Err(ParseKeyIdError), "{text:?}");
        }
    }

    #[test]
    fn ex_9_other_spellings_are_refused() {
        let refused = [
            "",
            "x",
            "x_7",
            "x_7_",
            "l_7_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7",
            "x_07_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7",
            "x_+7_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7",
            "x_70000_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7",
            "x_7_0198F2C4-7a1e-7b6c-9d20-e5b1a4f3c8d7",
            "x_7_0198f2c47a1e7b6c9d20e5b1a4f3c8d7",
            " x_7_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7",
        ];
        for text in refused {
            assert_eq!(text.parse::<ExecutionId>(), Err(ParseIdError { expected: "x" }), "{text:?}");
        }
    }
}
