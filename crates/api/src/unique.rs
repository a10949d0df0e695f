//! Objects of a request whose keys are the caller's own. A key that is there twice is refused, as it is for fields:
//! whichever value were taken, it could be the wrong one.

use serde::de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// Values of one type by keys of the caller.
pub fn unique<'de, D, V>(deserializer: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: DeserializeOwned,
{
    struct Entries<V>(PhantomData<V>);
    impl<'de, V: DeserializeOwned> Visitor<'de> for Entries<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = BTreeMap::new();
            while let Some(key) = map.next_key::<String>()? {
                if all.contains_key(&key) {
                    return Err(A::Error::custom(twice(&key)));
                }
                all.insert(key, map.next_value()?);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_map(Entries(PhantomData))
}

/// Any values by keys of the caller, which may hold objects in turn.
pub fn unique_object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    let all: BTreeMap<String, Any> = unique(deserializer)?;
    Ok(all.into_iter().map(|(key, value)| (key, value.0)).collect())
}

fn twice(key: &str) -> String {
    format!("has the key `{key}` twice")
}

/// Any value without an object that has a key twice.
struct Any(Value);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Any;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Any, E> {
                Ok(Any(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Any, E> {
                Ok(Any(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Any, E> {
                Ok(Any(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Any, E> {
                Ok(Any(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Any, E> {
                Ok(Any(value.into()))
            }

            fn visit_unit<E>(self) -> Result<Any, E> {
                Ok(Any(Value::Null))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Any, A::Error> {
                let mut all = Vec::new();
                while let Some(Any(value)) = list.next_element()? {
                    all.push(value);
                }
                Ok(Any(Value::Array(all)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Any, A::Error> {
                let mut all = Map::new();
                while let Some(key) = map.next_key::<String>()? {
                    if all.contains_key(&key) {
                        return Err(A::Error::custom(twice(&key)));
                    }
                    all.insert(key, map.next_value::<Any>()?.0);
                }
                Ok(Any(Value::Object(all)))
            }
        }
        deserializer.deserialize_any(Each)
    }
}

#[cfg(test)]
mod tests {
    use crate::bulk::StartBulk;
    use crate::execution::{Submit, SubmitBatch, TagChange};
    use crate::operation::Body;
    use crate::work::TagItem;
    use crate::worker::Register;
    use bytes::Bytes;

    fn refusal<T: Body>(text: &'static str) -> String {
        T::from_json(&Bytes::from_static(text.as_bytes())).err().unwrap_or_else(|| panic!("{text} was taken")).detail
    }

    #[test]
    fn api_1_a_key_that_is_there_twice_is_refused_by_name() {
        for (detail, expected) in [
            (refusal::<Submit>(r#"{"kind":"a","tags":{"a":"1","b":"2","a":"1"}}"#), "`tags` has the key `a` twice"),
            (
                refusal::<SubmitBatch>(r#"{"items":[{"kind":"a","tags":{"a":"1","a":"1"}}]}"#),
                "`items[0].tags` has the key `a` twice",
            ),
            (refusal::<TagChange>(r#"{"set":{"a":"1","a":"2"}}"#), "`set` has the key `a` twice"),
            (refusal::<TagItem>(r#"{"execution":"x","set":{"a":"1","a":"2"}}"#), "`set` has the key `a` twice"),
            (
                refusal::<Register>(r#"{"worker":"a","instance":"b","boot_id":"c","labels":{"a":"1","\u0061":"2"}}"#),
                "`labels` has the key `a` twice",
            ),
            (
                refusal::<StartBulk>(r#"{"filter":{},"verb":"tag","args":{"set":{"a":"1","a":"2"}}}"#),
                "`args.set` has the key `a` twice",
            ),
            (
                refusal::<StartBulk>(r#"{"filter":{},"verb":"hold","args":{"reason":"1","reason":"2"}}"#),
                "`args` has the key `reason` twice",
            ),
            (refusal::<Submit>(r#"{"kind":"a","kind":"b"}"#), "`kind` is given twice"),
        ] {
            assert_eq!(detail, expected);
        }
    }

    #[test]
    fn values_of_a_free_object_come_as_they_are() {
        let text =
            r#"{"filter":{},"verb":"hold","args":{"a":[1,-2,2.5,null,true,"x",{"b":{"c":18446744073709551615}}]}}"#;
        let body = StartBulk::from_json(&Bytes::from_static(text.as_bytes())).unwrap();
        assert_eq!(serde_json::to_string(&body).unwrap(), text);
    }
}
