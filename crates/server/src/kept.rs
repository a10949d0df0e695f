//! Keys as the engine keeps them, and the first key of a deployment.

use crate::auth::{Finding, Keys, RateClass, StoredKey};
use weft_api::{Code, Problem};
use weft_core::Time;
use weft_core::command::{CreateKey, Principal, Scopes};
use weft_core::record::api_key::{self, ApiKey, Attributes, Mac};
use weft_dispatch::Reach;
use weft_dispatch::rejection::problem;
use weft_dispatch::secret::{KeyText, Macs};
use weft_engine::{Engine, KeyCreation};

impl Keys for Engine {
    fn find(&self, id: &str) -> Finding<'_> {
        let id = id.parse();
        Box::pin(async move {
            // A text that is no id is one that no key has.
            let Ok(id) = id else { return Ok(None) };
            Ok(self.find_key(id).await?.map(|key| stored(&key)))
        })
    }

    fn used(&self, id: &str) {
        let (engine, Ok(id)) = (self.clone(), id.parse()) else { return };
        tokio::spawn(async move {
            if let Err(rejection) = engine.touch_key(id).await {
                tracing::debug!(%rejection, "could not note the use of a key");
            }
        });
    }
}

fn stored(key: &ApiKey) -> StoredKey {
    let body = &key.body;
    let sooner = |until: Time| Some(body.expires_at.map_or(until, |at| at.min(until)));
    let current = (body.mac.0, body.expires_at);
    let previous = body.previous.map(|(Mac(mac), until)| (mac, sooner(until)));
    StoredKey {
        id: key.id.to_string(),
        name: body.name.clone(),
        scopes: body.scopes,
        reach: body.namespaces.clone(),
        read_only: body.attributes.read_only,
        rate: match body.attributes.rate_class {
            api_key::RateClass::Default => RateClass::Default,
            api_key::RateClass::Worker => RateClass::Worker,
            api_key::RateClass::None => RateClass::Unlimited,
        },
        macs: [current].into_iter().chain(previous).collect(),
    }
}

/// The first key of a deployment.
pub enum Bootstrap {
    /// Made now: this is the only time it can be shown.
    Created(String),
    /// There are keys already.
    KeysExist,
}

impl Bootstrap {
    /// Makes an administrator's key if there is no key at all; of several nodes that start together one does. `given` is the
    /// text of the key to be.
    pub async fn make(engine: &Engine, macs: &Macs, given: Option<&str>) -> Result<Self, Problem> {
        let key = match given {
            None => KeyText::random().map_err(|_| Problem::new(Code::Internal, "the system gave no random bytes"))?,
            Some(text) => KeyText::parse(text).ok_or_else(not_a_key)?,
        };
        let create = CreateKey {
            id: key.id.parse().map_err(|_| not_a_key())?,
            mac: Mac(macs.of(&key)),
            name: "bootstrap".into(),
            scopes: Scopes::ALL,
            namespaces: Reach::All,
            attributes: Attributes::default(),
            expires_at: None,
            only_if_none: true,
        };
        let client = engine.client_as(Principal::new("", "bootstrap", Scopes::ADMIN));
        match client.create_key(create, None).await.map_err(problem)? {
            KeyCreation::Created(_) | KeyCreation::Repeated(_) => Ok(Bootstrap::Created(key.reveal())),
            KeyCreation::KeysExist => Ok(Bootstrap::KeysExist),
        }
    }
}

fn not_a_key() -> Problem {
    Problem::invalid("bootstrap_key", "is not a key; it looks like `weft_<id>_<secret>`")
}
