//! Whether the filters of live nodes leave a namespace, or everything without a certain tag, to no node.

use std::collections::BTreeSet;
use weft_api::node::NodeFilter;
use weft_store::Finding;

/// Filters of one node; none at all if it handles everything.
pub type Filters = Vec<NodeFilter>;

const ADVICE: &str = "their timers and left-over work wait: start a node whose `scanners.namespace` and `scanners.tag` cover them, \
                      or one without filters";

/// Whether it takes the namespaces of the store to judge these filters.
pub fn needs_namespaces(live: &[Filters]) -> bool {
    live.iter().flatten().any(|filter| filter.namespace.is_some())
}

/// The verdict about the filters of all live nodes; nothing if none has one.
pub fn look(live: &[Filters], namespaces: &[String]) -> Option<Finding> {
    if live.iter().all(Vec::is_empty) {
        return None;
    }
    // The scanners that have a filter of their own somewhere, and all others.
    let scanners: BTreeSet<Option<&str>> =
        live.iter().flatten().map(|filter| filter.scanner.as_deref()).chain([None]).collect();
    let mut left = Vec::new();
    for namespace in namespaces {
        let covers = |filter: Option<&NodeFilter>| {
            filter.and_then(|filter| filter.namespace.as_ref()).is_none_or(|covered| covered == namespace)
        };
        let by: Vec<_> =
            scanners.iter().copied().filter(|scanner| !live.iter().any(|node| covers(of(node, *scanner)))).collect();
        left.extend((!by.is_empty()).then(|| format!("the namespace `{namespace}`{}", named(&by))));
    }
    let tagged = |filter: Option<&NodeFilter>| filter.is_some_and(|filter| filter.tag.is_some());
    let by: Vec<_> =
        scanners.iter().copied().filter(|scanner| live.iter().all(|node| tagged(of(node, *scanner)))).collect();
    if !by.is_empty() {
        let tags: BTreeSet<&str> = live.iter().flatten().filter_map(|filter| filter.tag.as_deref()).collect();
        let tags = Vec::from_iter(tags).join("`, `");
        left.push(format!("executions and flows with none of the tags `{tags}`{}", named(&by)));
    }
    Some(match left.is_empty() {
        true => Finding::fine("filters", "every namespace is covered by a live node"),
        false => Finding::warning("filters", format!("no live node handles {}", left.join("; ")), ADVICE),
    })
}

/// The filter of a scanner on a node; `None` as the scanner: every scanner without a filter of its own.
fn of<'a>(filters: &'a Filters, scanner: Option<&str>) -> Option<&'a NodeFilter> {
    let find = |scanner: Option<&str>| filters.iter().find(|filter| filter.scanner.as_deref() == scanner);
    find(scanner).or_else(|| find(None))
}

/// ` (lease_expiry)`, or nothing if the scanners without a filter of their own are among them.
fn named(scanners: &[Option<&str>]) -> String {
    match scanners.iter().copied().collect::<Option<Vec<&str>>>() {
        Some(names) => format!(" ({})", names.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_store::Severity;

    fn filter(scanner: Option<&str>, namespace: Option<&str>, tag: Option<&str>) -> NodeFilter {
        let [scanner, namespace, tag] = [scanner, namespace, tag].map(|text| text.map(str::to_owned));
        NodeFilter { scanner, namespace, tag }
    }

    fn found(live: &[Filters]) -> Option<(Severity, String)> {
        look(live, &["bank".into(), "shop".into()]).map(|finding| (finding.severity, finding.found))
    }

    #[test]
    fn sr_38_namespaces_that_no_live_node_covers_are_named() {
        let [shop, bank] = ["shop", "bank"].map(|name| vec![filter(None, Some(name), None)]);
        assert_eq!(found(&[Vec::new(), Vec::new()]), None);
        let (severity, text) = found(&[shop.clone(), shop.clone()]).unwrap();
        assert_eq!((severity, &*text), (Severity::Warning, "no live node handles the namespace `bank`"));
        for fine in [vec![shop.clone(), bank], vec![shop.clone(), Vec::new()]] {
            assert_eq!(found(&fine).unwrap().0, Severity::Fine);
        }
        let one = vec![filter(Some("lease_expiry"), Some("shop"), None)];
        assert_eq!(found(&[one.clone(), shop]).unwrap().1, "no live node handles the namespace `bank` (lease_expiry)");
        assert!(needs_namespaces(&[one]) && !needs_namespaces(&[vec![filter(None, None, Some("team=a"))]]));
    }

    #[test]
    fn sr_38_a_tag_filter_on_every_live_node_leaves_what_has_none_of_the_tags() {
        let [a, b] = ["team=a", "team=b"].map(|tag| vec![filter(None, None, Some(tag))]);
        let (severity, text) = found(&[a.clone(), b]).unwrap();
        assert_eq!(severity, Severity::Warning);
        assert_eq!(text, "no live node handles executions and flows with none of the tags `team=a`, `team=b`");
        assert_eq!(found(&[a.clone(), Vec::new()]).unwrap().0, Severity::Fine);
        let one = vec![filter(Some("unblock"), None, Some("team=a"))];
        assert!(found(&[a, one]).unwrap().1.ends_with("`team=a` (unblock)"));
    }
}
