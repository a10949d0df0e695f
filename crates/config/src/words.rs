//! Settings that are one of a few words.

use crate::value::{FromValue, Value};

/// An enum of words, with the text of each.
macro_rules! words {
    ($(#[$docs:meta])* $name:ident { $($(#[$word_docs:meta])* $word:ident = $text:literal,)+ }) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$word_docs])* $word,)+
        }

        impl $name {
            pub const WORDS: &[&str] = &[$($text),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$word => $text,)+
                }
            }
        }

        impl FromValue for $name {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    $(Value::Word($text) => Some($name::$word),)+
                    _ => None,
                }
            }
        }
    };
}

words! {
    /// What is done at the start about a store that is empty or older.
    Migrate {
        /// It is created or brought up to date.
        Auto = "auto",
        /// It is refused, with a sentence that says what to run.
        Check = "check",
    }
}

words! {
    /// How far a commit must have got in Valkey before it is acknowledged.
    Durability {
        Memory = "memory",
        Local = "local",
        Replicated = "replicated",
        Strict = "strict",
    }
}

words! {
    LogFormat {
        /// Lines for people.
        Text = "text",
        /// An object per line for programs.
        Json = "json",
    }
}
