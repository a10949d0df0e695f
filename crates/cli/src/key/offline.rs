//! `weft key create --admin`: a key with all rights, made in the store itself, for an operator who has the store and
//! its master key but no valid API key.

use crate::End;
use crate::fault::{Code, Fault};
use crate::node::build;
use crate::remote::{Form, Options};
use crate::serve::master;
use crate::store::{self, Address, StoreArg};
use crate::terminal;
use anyhow::{Context, Result};
use weft_core::command::{CreateKey, Principal, Scopes};
use weft_core::record::api_key::{Attributes, Mac, Reach};
use weft_dispatch::secret::KeyText;
use weft_engine::Engine;

/// Who made it, in the audit log.
const MAKER: &str = "offline";

pub fn run(name: &str, store: &StoreArg, options: &Options) -> Result<End> {
    if options.names_server() {
        return Err(Fault::usage(
            "`--admin` works on the store itself, and `--url` names a server: leave one of them out",
        ));
    }
    if options.names_namespace() {
        return Err(Fault::usage("`--admin` makes a key for every namespace: leave `--namespace` out"));
    }
    let form = options.output()?;
    if std::env::var_os("WEFT_URL").is_some_and(|url| !url.is_empty()) {
        terminal::say("not used: WEFT_URL; `--admin` makes the key in the store itself");
    }
    let settings = store.arguments().load()?;
    let address = Address::configured(&settings)?;
    address.refuse_due(&settings)?;
    let place = master::place(&settings, &address)?;
    let Some(master) = place.key else {
        let at = place.name.map_or_else(String::new, |name| format!(": {name} is not there"));
        let fault = Fault::new(Code::Usage, format!("cannot make a key without the master key of the store{at}"));
        return Err(fault.hint("give the one that its servers have, as `master_key_file` or WEFT_MASTER_KEY").into());
    };
    let key = KeyText::random().context("the system gave no random bytes")?;
    let create = CreateKey {
        id: key.id.parse().ok().context("a random key has an id")?,
        mac: Mac(master.macs().of(&key)),
        name: name.into(),
        scopes: Scopes::ALL,
        namespaces: Reach::All,
        attributes: Attributes::default(),
        expires_at: None,
        only_if_none: false,
    };
    store::runtime()?.block_on(async {
        let engine = Engine::open(address.open_existing().await?, build::engine(&settings)?).await?;
        let made = engine.client_as(Principal::new("", MAKER, Scopes::ADMIN)).create_key(create, None).await;
        engine.shutdown().await;
        made.map_err(|refused| {
            Fault::new(Code::Refused, format!("cannot create the key: {refused}")).named(refused.code())
        })?;
        anyhow::Ok(())
    })?;
    match form {
        Form::Json | Form::Jsonl => {
            let made = serde_json::json!({"key": {"id": key.id, "name": name}, "secret": key.reveal()});
            terminal::put(&made.to_string())?;
        }
        Form::Ids | Form::People => {
            terminal::say(&format!(
                "key {} `{name}` may do everything in {address}; its secret is shown this once:",
                key.id
            ));
            terminal::put(&key.reveal())?;
        }
    }
    Ok(End::Done)
}
