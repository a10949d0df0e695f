//! API keys and the audit log.

use super::time::{ago, ahead, utc};
use super::{NONE, plain};
use crate::terminal::{Paint, Table};
use weft_api::key::{AuditEntry, Key, RateClass};

pub fn table(keys: &[Key], now: u64, paint: Paint) -> String {
    let mut table = Table::left(&["ID", "NAME", "SCOPES", "NAMESPACES", "USED", "EXPIRES", "NOTE"]);
    for key in keys {
        table.row(vec![
            key.id.clone(),
            plain(&key.name),
            scopes(key),
            plain(&key.namespaces.join(",")),
            key.last_used_at.map_or("never".to_owned(), |at| ago(at, now)),
            key.expires_at.map_or(NONE.to_owned(), |at| if at <= now { "expired".to_owned() } else { ahead(at, now) }),
            note(key, now),
        ]);
    }
    table.render(paint)
}

fn scopes(key: &Key) -> String {
    key.scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(",")
}

fn note(key: &Key, now: u64) -> String {
    let mut parts = Vec::new();
    parts.extend(key.read_only.then(|| "read only".to_owned()));
    parts.extend(match key.rate_class {
        RateClass::Default => None,
        RateClass::Worker => Some("rate of a worker".to_owned()),
        RateClass::None => Some("no rate limit".to_owned()),
    });
    parts.extend(
        key.previous_until.filter(|until| *until > now).map(|until| format!("old secret ends {}", ahead(until, now))),
    );
    parts.join(", ")
}

pub fn card(key: &Key, now: u64, paint: Paint) -> String {
    let mut lines = vec![paint.bold(&format!("{}   {}", key.id, plain(&key.name)))];
    let mut line = |subject: &str, text: String| {
        if !text.is_empty() {
            lines.push(format!("{}{text}", paint.dim(&format!("{subject:<10}"))));
        }
    };
    line("may", scopes(key));
    line("in", plain(&key.namespaces.join(",")));
    line("note", note(key, now));
    let expires = match key.expires_at {
        None => String::new(),
        Some(at) if at <= now => format!(", expired {}", ago(at, now)),
        Some(at) => format!(", expires {}", ahead(at, now)),
    };
    let used = key.last_used_at.map_or("never used".to_owned(), |at| format!("used {}", ago(at, now)));
    line("times", format!("made {} by {}, {used}{expires}", ago(key.created_at, now), plain(&key.creator)));
    lines.join("\n")
}

/// Acts, the newest first.
pub fn audit(entries: &[AuditEntry], paint: Paint) -> String {
    let mut table = Table::left(&["TIME (UTC)", "WHO", "VERB", "TARGET", "RESULT", "FROM", "CHANGE"]);
    for entry in entries {
        table.row(vec![
            utc(entry.at),
            plain(&entry.principal),
            plain(&entry.verb),
            plain(&entry.target),
            plain(&entry.result),
            entry.address.as_deref().map_or(NONE.to_owned(), plain),
            entry.change.as_deref().map(plain).unwrap_or_default(),
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_shown_without_secrets() {
        let key = json!({"id": "7f3k2m9q", "name": "ci", "scopes": ["submit", "work"], "namespaces": ["shop"], "read_only": true,
            "rate_class": "worker", "creator": "key:boot", "created_at": 0, "expires_at": 86_410_000, "previous_until": 70_000});
        assert_eq!(
            table(&[serde_json::from_value(key.clone()).unwrap()], 10_000, Paint::PLAIN),
            "ID        NAME  SCOPES       NAMESPACES  USED   EXPIRES  NOTE\n\
             7f3k2m9q  ci    submit,work  shop        never  in 1d    read only, rate of a worker, old secret ends in 1m"
        );
        let key: Key = serde_json::from_value(key).unwrap();
        assert!(table(std::slice::from_ref(&key), 86_410_000, Paint::PLAIN).contains("  expired  "));
        assert!(card(&key, 86_411_000, Paint::PLAIN).ends_with(", expired 1s ago"));
    }
}
