//! Who calls, what they may do, and in which namespace a call acts.

use std::sync::Arc;
use weft_api::{Code, Problem, Scope, Spec};
use weft_core::command::{Origin, Principal, Scopes};
use weft_core::record::ApiKey;
pub use weft_core::record::api_key::Reach;
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
    /// Where the call came from, for the audit log.
    pub origin: Option<Arc<Origin>>,
}

impl Caller {
    /// Somebody with the scopes of `principal`, wherever `reach` lets them act.
    pub fn new(principal: Principal, reach: Reach, namespace: Option<Text>, fallback: Option<Text>) -> Self {
        let Principal { name, scopes, origin, .. } = principal;
        Self { name, scopes, reach, namespace, fallback, read_only: false, origin }
    }

    /// The owner of a key, in a call that may name a namespace.
    pub fn of_key(key: &ApiKey, namespace: Option<Text>, address: Text, request: Text) -> Self {
        let body = &key.body;
        let origin = Origin { key: key.id.to_string().into(), address, request };
        Self {
            name: body.name.clone(),
            scopes: body.scopes,
            reach: body.namespaces.clone(),
            namespace,
            fallback: None,
            read_only: body.attributes.read_only,
            origin: Some(Arc::new(origin)),
        }
    }

    /// May do everything in `namespace`.
    pub fn all(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self::new(Principal::all("", name), Reach::Some(Arc::new([namespace.into()])), None, None)
    }

    /// True if one of the caller's scopes is one that the word stands for.
    pub fn has(&self, scope: Scope) -> bool {
        matches!(scope, Scope::Any) || self.scopes.any(scopes_of(scope))
    }

    /// Refuses a caller without the scope.
    pub fn needs(&self, scope: Scope) -> Result<(), Problem> {
        if self.has(scope) {
            return Ok(());
        }
        let needs = scope.names().join("` or `");
        Err(Problem::new(Code::Forbidden, format!("this call needs the scope `{needs}`"))
            .field("needs", scope.names())
            .hint("ask an administrator for a key with that scope"))
    }

    /// Refuses a call that none of the caller's scopes allows.
    pub fn may(&self, spec: &Spec) -> Result<(), Problem> {
        self.needs(spec.scope)?;
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
        if let Some(namespace) = named {
            self.check_reaches(namespace)?;
        }
        Ok(named)
    }

    /// Namespaces that a read of the whole deployment covers: the one that the call names by a parameter or its header,
    /// or all that the caller reaches.
    pub fn within(&self, named: Option<&str>) -> Result<Reach, Problem> {
        let namespace = match (named, self.namespace.as_deref()) {
            (Some(named), Some(header)) if named != header => {
                return Err(Problem::invalid("namespace", "and the header `Weft-Namespace` differ; give one"));
            }
            (named, header) => named.or(header),
        };
        let Some(namespace) = namespace else { return Ok(self.reach.clone()) };
        self.check_reaches(namespace)?;
        Ok(Reach::Some(Arc::new([namespace.into()])))
    }

    fn check_reaches(&self, namespace: &str) -> Result<(), Problem> {
        text::check_name("namespace", namespace).map_err(crate::rejection::problem)?;
        match self.reach.holds(namespace) {
            true => Ok(()),
            false => Err(Problem::new(Code::Forbidden, format!("the key is not good in the namespace `{namespace}`"))
                .field("namespace", namespace)),
        }
    }

    /// The caller as the engine knows it, acting in `namespace`.
    pub fn principal(&self, namespace: Text) -> Principal {
        Principal { origin: self.origin.clone(), ..Principal::new(namespace, self.name.clone(), self.scopes) }
    }
}

const fn scopes_of(scope: Scope) -> Scopes {
    match scope {
        Scope::Any => Scopes::NONE,
        Scope::Read | Scope::SubmitOrOperate => Scopes::SUBMIT.with(Scopes::OPERATE),
        Scope::Submit => Scopes::SUBMIT,
        Scope::Work => Scopes::WORK,
        Scope::WorkOrOperate => Scopes::WORK.with(Scopes::OPERATE),
        Scope::Operate => Scopes::OPERATE,
        Scope::Admin => Scopes::ADMIN,
    }
}
