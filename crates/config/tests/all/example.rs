use crate::kit::Folder;
use weft_config::{Fallback, Origin, Settings, example, keys};

/// The example with every key set.
fn set() -> String {
    let lines = example();
    let lines = lines.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => key,
        _ => line,
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_example_as_it_is_changes_nothing() {
    let settings = Settings::load(Folder::with(&example()).sources()).unwrap();
    assert_eq!(settings.rows(), Settings::built_in().rows());
}

#[test]
fn the_example_with_every_key_set_reads_back_as_the_defaults() {
    let folder = Folder::with(&set());
    let settings = Settings::load(folder.sources()).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let built_in = Settings::built_in().rows();
    for ((row, shown), default) in keys::rows().zip(settings.rows()).zip(built_in) {
        assert_eq!(matches!(shown.origin, Origin::File { .. }), row.in_file, "{}", row.key);
        if let Fallback::Value(_) = row.default {
            assert_eq!(shown.value, default.value, "{}", row.key);
        }
    }
}
