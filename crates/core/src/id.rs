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
    /// One bulk job; its partition is where the job itself is.
    BulkId, "j"
);
typed_id!(
    /// One lease; never repeated, not even after the store lost data.
    LeaseId, "l"
);

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
