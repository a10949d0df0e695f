//! What a record says about bytes that lie in a part of their own.

use crate::text::Text;
use serde::{Deserialize, Serialize};

/// Whether there are bytes, and what they are. Absent and empty are different things. The first two variants are stored
/// like `false` and `true`, which is all that older records say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    #[default]
    Absent,
    Untyped,
    Typed(Text),
}

impl Content {
    /// Of bytes that are there and may have a type, or of none.
    pub fn of(content_type: Option<&Option<Text>>) -> Self {
        match content_type {
            None => Content::Absent,
            Some(None) => Content::Untyped,
            Some(Some(content_type)) => Content::Typed(content_type.clone()),
        }
    }

    pub fn is_there(&self) -> bool {
        *self != Content::Absent
    }

    pub fn content_type(&self) -> Option<&Text> {
        match self {
            Content::Typed(content_type) => Some(content_type),
            Content::Absent | Content::Untyped => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};

    #[test]
    fn ex_6_what_was_a_yes_or_no_is_still_read() {
        for (old, content) in [(false, Content::Absent), (true, Content::Untyped)] {
            assert_eq!(encode(&old), encode(&content));
            assert_eq!(decode("content", &encode(&old)), Ok(content));
        }
        let typed = Content::Typed("image/png".into());
        assert_eq!(decode("content", &encode(&typed)), Ok(typed));
    }
}
