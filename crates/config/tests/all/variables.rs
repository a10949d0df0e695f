use crate::kit::variables_told;
use std::collections::BTreeSet;
use std::path::Path;

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
    let names = ["WEFT_URLL", "WEFT_URL", "WEFT_LISTEN", "PATH", "WEFT_TEST_X"].map(std::ffi::OsString::from);
    let told: Vec<String> = weft_config::unknown_variables(names).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["`WEFT_URLL` is no variable of Weft: did you mean `WEFT_URL`?"]);
}
