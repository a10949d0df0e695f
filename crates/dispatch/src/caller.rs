//! Who calls, what they may do, and in which namespace a call acts.

use std::sync::Arc;
use weft_api::{Code, Problem, Scope, Spec};
use weft_core::command::{Principal, Scopes};
use weft_core::text::{self, Text};

/// Somebody whose right to call has been checked.
#[derive(Clone, Debug)]
pub struct Caller {
    pub name: Text,
    pub scopes: Scopes,
    pub reach: Reach,
    /// The namespace that the call names, if it does.
    pub namespace: Option<Text>,
    /// Where calls act that name none and could act in several.
    pub fallback: Option<Text>,
    /// It may read and nothing else.
    pub read_only: bool,
}

/// The namespaces somebody may act in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    All,
    Some(Arc<[Text]>),
}

impl Reach {
    pub fn holds(&self, namespace: &str) -> bool {
        match self {
            Reach::All => true,
            Reach::Some(names) => names.iter().any(|name| &**name == namespace),
        }
    }

    fn only(&self) -> Option<&Text> {
        match self {
            Reach::Some(names) if names.len() == 1 => names.first(),
            _ => None,
        }
    }
}

impl Caller {
    /// May do everything in `namespace`.
    pub fn all(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self {
            name: name.into(),
            scopes: Scopes::ALL,
            reach: Reach::Some(Arc::new([namespace.into()])),
            namespace: None,
            fallback: None,
            read_only: false,
        }
    }

    /// True if one of the caller's scopes is one that the word stands for.
    pub fn has(&self, scope: Scope) -> bool {
        matches!(scope, Scope::Any) || self.scopes.any(scopes_of(scope))
    }

    /// Refuses a call that none of the caller's scopes allows.
    pub fn may(&self, spec: &Spec) -> Result<(), Problem> {
        if !self.has(spec.scope) {
            let needs = spec.scope.names().join("` or `");
            return Err(Problem::new(Code::Forbidden, format!("this call needs the scope `{needs}`"))
                .field("needs", spec.scope.names())
                .hint("ask an administrator for a key with that scope"));
        }
        if self.read_only && spec.changes() {
            return Err(Problem::new(Code::Forbidden, "this key may only read").field("read_only", true));
        }
        Ok(())
    }

    /// The one namespace the call acts in.
    pub fn namespace(&self) -> Result<&Text, Problem> {
        if let Some(chosen) = self.chosen()? {
            return Ok(chosen);
        }
        let required =
            Problem::new(Code::NamespaceRequired, "the key is good in several namespaces, and the call names none");
        Err(required.hint("send the header `Weft-Namespace`"))
    }

    /// The namespace that the call names or the key leaves no choice about. None: it could be any of several.
    pub fn chosen(&self) -> Result<Option<&Text>, Problem> {
        let named = self.namespace.as_ref().or_else(|| self.reach.only()).or(self.fallback.as_ref());
        let Some(namespace) = named else { return Ok(None) };
        text::check_name("namespace", namespace).map_err(crate::rejection::problem)?;
        if !self.reach.holds(namespace) {
            return Err(Problem::new(Code::Forbidden, format!("the key is not good in the namespace `{namespace}`"))
                .field("namespace", namespace.to_string()));
        }
        Ok(Some(namespace))
    }

    /// The caller as the engine knows it, acting in `namespace`.
    pub fn principal(&self, namespace: Text) -> Principal {
        Principal { namespace, name: self.name.clone(), scopes: self.scopes }
    }
}

const fn scopes_of(scope: Scope) -> Scopes {
    match scope {
        Scope::Any => Scopes::NONE,
        Scope::Read | Scope::SubmitOrOperate => Scopes::SUBMIT.with(Scopes::OPERATE),
        Scope::Submit => Scopes::SUBMIT,
        Scope::Work => Scopes::WORK,
        Scope::WorkOrOperate => Scopes::WORK.with(Scopes::OPERATE),
        Scope::Operate | Scope::Admin => Scopes::OPERATE,
    }
}
