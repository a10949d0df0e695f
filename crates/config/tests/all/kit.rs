//! A folder with a `weft.toml`, and what is told about it.

use std::ffi::OsString;
use std::path::PathBuf;
use weft_config::{Mistake, Settings, Sources};

pub struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    pub fn with(text: &str) -> Self {
        let folder = Self { dir: tempfile::tempdir().expect("a folder can be made") };
        folder.write(text);
        folder
    }

    pub fn write(&self, text: &str) {
        std::fs::write(self.file(), text).expect("the folder can be written to");
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("weft.toml")
    }

    pub fn sources(&self) -> Sources {
        Sources { file: Some(self.file()), file_required: true, ..Sources::default() }
    }

    /// What is wrong with the file, without the path of the folder.
    pub fn told(&self) -> Vec<String> {
        let folder = format!("{}/", self.dir.path().display());
        told(self.sources()).into_iter().map(|text| text.replace(&folder, "")).collect()
    }
}

pub fn variables(all: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    all.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

pub fn flags(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub fn told(sources: Sources) -> Vec<String> {
    Settings::load(sources).err().unwrap_or_default().iter().map(Mistake::to_string).collect()
}

/// What is wrong with these flags.
pub fn flags_told(all: &[(&str, &str)]) -> Vec<String> {
    told(Sources { flags: flags(all), ..Sources::default() })
}

/// What is wrong with this environment.
pub fn variables_told(all: &[(&str, &str)]) -> Vec<String> {
    let unknown = weft_config::unknown_variables(variables(all));
    let wrong = told(Sources { variables: variables(all), ..Sources::default() });
    wrong.into_iter().chain(unknown.iter().map(Mistake::to_string)).collect()
}
