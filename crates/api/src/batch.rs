//! A batch with items that cannot be read: these are told apart, so that the others are carried out all the same. Never
//! used for a batch that reads as it should.

use crate::BATCH_ITEMS_MAX;
use crate::decode::json_with;
use crate::execution::{Submit, SubmitBatch};
use crate::operation::Body;
use crate::page::Batch;
use crate::problem::Problem;
use crate::work::SpawnChildren;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::fmt;

/// The field that holds the items of every batch.
const ITEMS: &str = "items";

/// The body of a batch.
pub trait Many: Body + DeserializeOwned {
    type Item: DeserializeOwned;

    fn items(&mut self) -> &mut Vec<Self::Item>;
}

impl<T: Serialize + DeserializeOwned + 'static> Many for Batch<T> {
    type Item = T;

    fn items(&mut self) -> &mut Vec<T> {
        &mut self.items
    }
}

impl Many for SubmitBatch {
    type Item = Submit;

    fn items(&mut self) -> &mut Vec<Submit> {
        &mut self.items
    }
}

impl Many for SpawnChildren {
    type Item = Submit;

    fn items(&mut self) -> &mut Vec<Submit> {
        &mut self.items
    }
}

/// An item of a batch that could not be read.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// Its place in the batch as it was sent
    pub index: usize,
    pub problem: Problem,
}

/// The body with the items that can be read, and those that cannot. `whole` is what is wrong with the body, and the answer
/// if what surrounds the items is wrong as well.
pub fn by_items<B: Many>(bytes: &[u8], big_as_text: bool, whole: Problem) -> Result<(B, Vec<Unreadable>), Problem> {
    let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(bytes) else { return Err(whole) };
    let Some(items) = envelope.items() else { return Err(whole) };
    if items.len() > BATCH_ITEMS_MAX {
        let why = format!("has {} entries, allowed are {BATCH_ITEMS_MAX}", items.len());
        return Err(Problem::invalid(ITEMS, why));
    }
    let mut body: B = json_with("", envelope.emptied().as_bytes(), big_as_text)?;
    let mut unreadable = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        match json_with(&format!("{ITEMS}[{index}]"), item.get().as_bytes(), big_as_text) {
            Ok(item) => body.items().push(item),
            Err(problem) => unreadable.push(Unreadable { index, problem }),
        }
    }
    Ok((body, unreadable))
}

/// The fields of a body, in order, each with the bytes of its value.
struct Envelope<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Envelope<'a> {
    /// None unless there is one list of them.
    fn items(&self) -> Option<Vec<&'a RawValue>> {
        let mut lists = self.0.iter().filter(|(name, _)| name == ITEMS);
        let (Some((_, list)), None) = (lists.next(), lists.next()) else { return None };
        serde_json::from_str(list.get()).ok()
    }

    /// The same body without items.
    fn emptied(&self) -> String {
        let field = |(name, value): &(String, &RawValue)| {
            let name_text = serde_json::to_string(name).expect("batch: a name is JSON");
            format!("{name_text}:{}", if name == ITEMS { "[]" } else { value.get() })
        };
        format!("{{{}}}", self.0.iter().map(field).collect::<Vec<_>>().join(","))
    }
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Envelope(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Payload;
    use crate::problem::Code;
    use bytes::Bytes;

    fn read<B: Many>(text: &str) -> Result<(B, Vec<Unreadable>), Problem> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        match B::from_json(&bytes) {
            Ok(_) => panic!("{text} is a good batch"),
            Err(problem) => by_items(&bytes, false, problem),
        }
    }

    #[test]
    fn api_10_items_that_cannot_be_read_are_told_apart_from_the_others() {
        let (body, unreadable) = read::<SubmitBatch>(
            r#"{"items":[{"kind":"a","input":{"json": {"n" : 1.0000000000000000001 }}},{"kind":7},{"kind":"b"},
                {"lane":"x"},{"kind":"c","polcy":{}},3,{"kind":"d","policy":{"retry":{"jitter":"ful"}}}],"atomic":true}"#,
        )
        .unwrap();
        assert!(body.atomic);
        assert_eq!(body.items.iter().map(|item| item.kind.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let exact = Payload::new(r#"{"n" : 1.0000000000000000001 }"#, Some("application/json".into()));
        assert_eq!(body.items[0].input, Some(exact), "bytes stay as they were sent");
        let told: Vec<(usize, String)> =
            unreadable.iter().map(|bad| (bad.index, bad.problem.fields["field"].as_str().unwrap().into())).collect();
        let expected = [
            (1, "items[1].kind"),
            (3, "items[3].kind"),
            (4, "items[4].polcy"),
            (5, "items[5]"),
            (6, "items[6].policy.retry.jitter"),
        ];
        assert_eq!(told, expected.map(|(index, field)| (index, field.to_string())));
        assert_eq!(unreadable[2].problem.hint.as_deref(), Some("did you mean `policy`?"));
    }

    #[test]
    fn api_10_a_bad_envelope_is_refused_whole() {
        let many = format!(r#"{{"items":[{}]}}"#, ["1"; BATCH_ITEMS_MAX + 1].join(","));
        for (text, field) in [
            (r#"{"atomic":true}"#, Some("items")),
            (r#"{"items":{}}"#, Some("items")),
            (r#"{"items":[],"items":[{"kind":"a"}]}"#, Some("items")),
            (r#"{"items":[1],"atomc":true}"#, Some("atomc")),
            (r#"{"items":[1],"atomic":7}"#, Some("atomic")),
            (&many, Some("items")),
            ("7", Some("body")),
            (r#"{"items":[{"kind":"a"}"#, None),
        ] {
            let problem = read::<SubmitBatch>(text).err().unwrap_or_else(|| panic!("{text} was taken"));
            assert_eq!(problem.fields.get("field").and_then(|field| field.as_str()), field, "{text}: {problem}");
        }
        assert_eq!(read::<SubmitBatch>("{").unwrap_err().code, Code::InvalidJson);
        assert!(read::<SpawnChildren>(r#"{"items":[1]}"#).is_err(), "the work whose children they are is missing");
    }
}
