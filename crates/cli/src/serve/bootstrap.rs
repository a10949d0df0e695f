//! The first key of an installation.

use super::master::Master;
use super::{cannot, write_private};
use crate::terminal::{self, Colour};
use anyhow::{Context, Result, bail};
use std::path::Path;
use weft_config::{Settings, keys};
use weft_dispatch::secret::KeyText;
use weft_engine::Engine;
use weft_server::Bootstrap;

pub const FILE: &str = "bootstrap.key";

/// What there is to tell about the first key.
pub enum FirstKey {
    /// Made now. This is the only time that it is shown.
    Made(String),
    /// Taken from the environment now.
    Given,
    /// There were keys before.
    Old,
}

/// Whether a key that is given is one.
pub fn check(settings: &Settings) -> Result<()> {
    match settings.get(keys::AUTH_BOOTSTRAP_KEY) {
        Some(given) if KeyText::parse(given.expose()).is_none() => bail!(
            "`auth.bootstrap_key` is no key ({}): it looks like `weft_<id>_<secret>`; leave it out, and one is made",
            settings.origin(keys::AUTH_BOOTSTRAP_KEY)
        ),
        _ => Ok(()),
    }
}

/// Makes the first key if there is no key yet. It is in its file before it is in the store: a process that is killed
/// between the two leaves a key that nobody else has seen, which the next start takes up.
pub async fn make(engine: &Engine, master: &Master, settings: &Settings, folder: &Path) -> Result<FirstKey> {
    let given = settings.get(keys::AUTH_BOOTSTRAP_KEY);
    let path = folder.join(FILE);
    let (text, written) = match &given {
        Some(given) => (given.expose().to_owned(), false),
        None => prepare(&path)?,
    };
    let made = Bootstrap::make(engine, &master.key.macs(), Some(&text)).await;
    let made = made.map_err(|problem| anyhow::anyhow!("could not make the first key: {}", problem.detail))?;
    match made {
        Bootstrap::Created(_) if given.is_some() => Ok(FirstKey::Given),
        Bootstrap::Created(text) => Ok(FirstKey::Made(text)),
        Bootstrap::KeysExist => {
            if written {
                std::fs::remove_file(&path).with_context(|| cannot("remove", &path))?;
            }
            if let Some(made) = &master.made {
                std::fs::remove_file(made).with_context(|| cannot("remove", made))?;
                bail!(
                    "there are keys in the store, but `{}` is gone, without which none of them is recognised: put it back",
                    made.display()
                );
            }
            if !written {
                warn_of_another(engine, master, &text).await;
            }
            Ok(FirstKey::Old)
        }
    }
}

/// The first key is at hand: if the store knows it and does not recognise it, perhaps it recognises none.
async fn warn_of_another(engine: &Engine, master: &Master, text: &str) {
    let Some(key) = KeyText::parse(text) else { return };
    let Ok(id) = key.id.parse() else { return };
    if let Ok(Some(stored)) = engine.find_key(id).await
        && !master.key.macs().fits(&key, &stored.body.mac.0)
    {
        tracing::warn!(
            key = key.id,
            "the first key that is kept here is not recognised: it was rotated since, or the master key is not the one \
             that the keys of this store were made with, and then no key is recognised"
        );
    }
}

/// The key of the file, or a fresh one that is written to it; then true.
fn prepare(path: &Path) -> Result<(String, bool)> {
    if let Ok(text) = std::fs::read_to_string(path)
        && KeyText::parse(text.trim()).is_some()
    {
        return Ok((text.trim().to_owned(), false));
    }
    let text = KeyText::random().context("the system gave no random bytes")?.reveal();
    match path.exists() {
        // Not one of ours: whoever put it there may still want it.
        true => bail!("`{}` holds no key; remove it, so that one can be written", path.display()),
        false => write_private(path, &format!("{text}\n"))?,
    }
    Ok((text, true))
}

impl FirstKey {
    pub fn tell(&self, folder: &Path, colour: Colour) {
        match self {
            FirstKey::Made(text) => {
                terminal::say(&format!("first key {}", colour.err.bold(text)));
                let path = folder.join(FILE);
                terminal::say(&format!(
                    "          shown once, and written to `{}`; it may do everything",
                    path.display()
                ));
                terminal::say("          try it: WEFT_KEY=… weft key list");
            }
            FirstKey::Given => terminal::say("first key that of `WEFT_BOOTSTRAP_KEY`"),
            FirstKey::Old => {}
        }
    }
}
