use crate::kit::{variables, variables_told};
use std::collections::BTreeSet;
use std::path::Path;
use weft_config::{Settings, Sources, keys};

/// Every literal that is the name of a variable of Weft, in the Rust files of a folder.
fn named(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the folder stays").path();
        if path.is_dir() {
            named(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("Rust is UTF-8");
            let literals = text.split('"').filter(|literal| literal.starts_with("WEFT_"));
            let is_name = |literal: &&str| {
                *literal != "WEFT_" && literal.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            };
            names.extend(literals.filter(is_name).map(str::to_owned));
        }
    }
}

#[test]
fn ops_1_every_variable_that_the_code_names_is_known() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(crates).unwrap().map(Result::unwrap) {
        // The tests here name variables that are not known.
        if entry.file_name() != "config" && entry.path().is_dir() {
            named(&entry.path(), &mut names);
        }
    }
    assert!(names.contains("WEFT_BLESS") && names.contains("WEFT_STORE"), "{names:?}");
    for name in names {
        let told = variables_told(&[(&name, "x")]);
        assert!(!told.iter().any(|told| told.contains("is no variable")), "{told:?}");
    }
}

#[test]
fn ops_1_a_variable_that_is_none_is_told_without_a_configuration() {
    let all = variables(&["WEFT_URLL", "WEFT_URL", "WEFT_LISTEN", "PATH", "WEFT_TEST_X"].map(|name| (name, "x")));
    let told: Vec<String> = weft_config::unknown_variables(all).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["`WEFT_URLL` is no variable of Weft: did you mean `WEFT_URL`?"]);
}

#[test]
fn ops_1_what_a_cluster_adds_is_neither_a_mistake_nor_a_setting() {
    let made = [
        ("WEFT_SERVICE_HOST", "10.96.0.17"),
        ("WEFT_PORT", "tcp://10.96.0.17:7700"),
        ("WEFT_PORT_7700_TCP_ADDR", "10.96.0.17"),
        ("WEFT_ENV_WEFT_STORE", "memory:"),
        // A setting has this name, and no name of a node reads as the path of a container that is called so.
        ("WEFT_NODE_NAME", "/shop/weft-node"),
    ];
    assert_eq!(variables_told(&made), [""; 0]);
    assert!(weft_config::unknown_variables(variables(&made)).is_empty());
    assert_eq!(weft_config::injected_variables(variables(&made)), made.map(|(name, _)| name));
    let settings = Settings::load(Sources { variables: variables(&made), ..Sources::default() }).unwrap();
    assert_eq!(settings.get(keys::NODE_NAME), None);

    let set = [("WEFT_NODE_NAME", "web-2")];
    let settings = Settings::load(Sources { variables: variables(&set), ..Sources::default() }).unwrap();
    assert_eq!(settings.get(keys::NODE_NAME).as_deref(), Some("web-2"));
    assert!(weft_config::injected_variables(variables(&set)).is_empty());
    assert_eq!(variables_told(&[("WEFT_PORT", "8080")]).len(), 1, "a person meant something by it");
}
