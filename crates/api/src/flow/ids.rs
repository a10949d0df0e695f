//! Ids of members by their keys: an object whose fields stand in the order in which the members were given.

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberIds(Vec<(String, String)>);

impl MemberIds {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, String)> for MemberIds {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(ids: T) -> Self {
        Self(ids.into_iter().collect())
    }
}

impl IntoIterator for MemberIds {
    type Item = (String, String);
    type IntoIter = std::vec::IntoIter<(String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Serialize for MemberIds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, id) in &self.0 {
            map.serialize_entry(key, id)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for MemberIds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ids;

        impl<'de> Visitor<'de> for Ids {
            type Value = MemberIds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with ids by keys")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MemberIds, A::Error> {
                let mut ids = Vec::with_capacity(map.size_hint().unwrap_or(0).min(10_000));
                while let Some(id) = map.next_entry()? {
                    ids.push(id);
                }
                Ok(MemberIds(ids))
            }
        }

        deserializer.deserialize_map(Ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fl_41_ids_stand_in_the_order_in_which_members_were_given() {
        let text = r#"{"z":"x_1","a":"x_2","m":"x_3"}"#;
        let ids: MemberIds = serde_json::from_str(text).unwrap();
        assert_eq!((ids.len(), ids.is_empty()), (3, false));
        assert_eq!(serde_json::to_string(&ids).unwrap(), text);
        let keys: Vec<String> = ids.into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["z", "a", "m"]);
    }
}
