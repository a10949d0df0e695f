//! Ids that are cut to their end.

use super::{Server, short};
use std::collections::BTreeMap;

#[test]
fn an_end_of_an_id_stands_for_it() {
    let server = Server::start();
    let id = server.submit(&["a"]);
    let end = &id[id.len() - 6..];
    for name in [
        end.to_owned(),
        short(&id),
        format!("...{end}"),
        format!("x_0_{}", short(&id)),
        id.clone(),
        id.to_uppercase(),
        end.to_uppercase(),
    ] {
        assert_eq!(server.json(&["get", &name])["id"], id.as_str(), "{name}");
    }
    let told = server.fails(1, &["get", "ffffff00"]);
    assert!(told.starts_with("error[execution_not_found]: ") && told.contains("hint: `weft list`"), "{told}");
}

#[test]
fn an_end_of_several_ids_is_refused_and_names_them() {
    let server = Server::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"kind\": \"a\"}\n".repeat(2_000)).unwrap();
    let ids = server.out(&["submit", "--batch", file.path().to_str().unwrap(), "--quiet"]);
    let mut ends: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for id in ids.lines() {
        ends.entry(&id[id.len() - 4..]).or_default().push(id);
    }
    // Of 2 000 random ends of 16 bits about 30 come twice.
    let (end, twins) = ends.iter().find(|(_, ids)| ids.len() == 2).expect("two ids with one end");
    let told = server.fails(1, &["cancel", end]);
    assert!(
        told.starts_with(&format!("error[ambiguous_id]: 2 executions have an id that ends with `{end}`")),
        "{told}"
    );
    assert!(twins.iter().all(|id| told.contains(id)), "{told}");
}
