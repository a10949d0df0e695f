use std::path::Path;

/// `WEFT_BLESS=1` rewrites the file.
#[test]
fn the_page_of_the_documentation_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = weft_config::page();
    if std::env::var_os("WEFT_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page == reviewed, "docs/configuration.md differs from the table: WEFT_BLESS=1 rewrites it");
}
