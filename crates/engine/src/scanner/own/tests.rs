use super::*;
use crate::scanner::{all, filters};
use weft_core::schema::Timer;

struct Named(&'static str, &'static [Timer]);

impl Scanner for Named {
    fn name(&self) -> &'static str {
        self.0
    }

    fn interval_ms(&self) -> u64 {
        5
    }

    fn timers(&self) -> &'static [Timer] {
        self.1
    }

    fn scan(&self, _: ScanContext, _: PartitionId) -> BoxFuture<Report> {
        Box::pin(async { Report::default() })
    }
}

fn own(names: &[&'static str]) -> Vec<Arc<dyn Scanner>> {
    names.iter().map(|name| Arc::new(Named(name, &[])) as Arc<dyn Scanner>).collect()
}

#[test]
fn sr_30_a_scanner_that_cannot_be_run_is_named_with_the_reason() {
    let long: &'static str = Box::leak("a".repeat(65).into_boxed_str());
    for (names, why) in [
        (vec!["ok", ""], "must match"),
        (vec!["Upper"], "must match"),
        (vec!["2nd"], "must match"),
        (vec!["a-b"], "must match"),
        (vec![long], "must match"),
        (vec!["once", "twice", "twice"], "another one has"),
        (vec!["feed_trimmer"], "is reserved for"),
    ] {
        let refused = check(&own(&names)).unwrap_err().to_string();
        let name = names.last().unwrap();
        assert!(refused.contains(&format!("`{name}`")) && refused.contains(why), "{refused}");
    }
    assert!(check(&own(&["a", "b2_c", &long[..64]])).is_ok());
    let timed: Vec<Arc<dyn Scanner>> = vec![Arc::new(Named("timed", &[Timer::Lease]))];
    let refused = check(&timed).unwrap_err().to_string();
    assert!(refused.contains("`timed`") && refused.contains("timers"), "{refused}");
    let many: Vec<&'static str> = (0..17).map(|at| &*Box::leak(format!("many_{at}").into_boxed_str())).collect();
    assert!(check(&own(&many[..16])).is_ok());
    let refused = check(&own(&many)).unwrap_err().to_string();
    assert!(refused.contains("scanners.own") && refused.contains("17") && refused.contains("16"), "{refused}");
}

#[test]
fn sr_34_a_setting_without_effect_is_named() {
    let named = |name: &'static str| ScannerConfig { intervals: [(name, 1_000)].into(), ..ScannerConfig::default() };
    let refused = named("lease_expriy").check().unwrap_err().to_string();
    let told = "`scanners.intervals` names `lease_expriy`, and there is no such scanner; did you mean `lease_expiry`?";
    assert_eq!(refused, told);
    let nowhere = Filter { namespace: Some("".into()), tag: None };
    let filters = |name: &'static str, filter: &Filter| ScannerConfig {
        filters: [(name, filter.clone())].into(),
        own: own(&["mine"]),
        ..ScannerConfig::default()
    };
    let refused = filters("mime", &Filter::NONE).check().unwrap_err().to_string();
    assert!(refused.contains("`scanners.filters` names `mime`") && refused.contains("`mine`"), "{refused}");
    for name in ["mine", "lease_expiry"] {
        assert!(filters(name, &Filter::NONE).check().is_ok());
        let refused = filters(name, &nowhere).check().unwrap_err().to_string();
        assert!(refused.contains(&format!("`{name}`")) && refused.contains("namespace"), "{refused}");
    }
    let general = ScannerConfig { filter: nowhere, ..ScannerConfig::default() };
    assert!(general.check().unwrap_err().to_string().contains("`all`"));
}

#[test]
fn sr_23_the_scanner_that_the_core_names_for_a_timer_is_the_one_that_fires_it() {
    for timer in [Timer::Resolve, Timer::FlowSeal, Timer::FlowEnding, Timer::GroupCancel, Timer::FlowPurge] {
        let name = weft_core::execution::scanner_of(timer);
        let named = all(&ScannerConfig::default()).into_iter().find(|scanner| scanner.name() == name);
        assert!(named.is_some_and(|scanner| scanner.timers().contains(&timer)), "{timer:?}: {name}");
    }
}

/// SC-60: exactly 20 names are reserved.
#[test]
fn sr_30_the_names_of_all_built_in_scanners_are_taken() {
    assert_eq!(RESERVED.split(' ').count(), 20);
    let built_in = all(&ScannerConfig::default());
    assert!(
        !built_in.is_empty() && built_in.iter().all(|scanner| RESERVED.split(' ').any(|name| name == scanner.name()))
    );
}

#[test]
fn sr_34_a_filter_of_one_scanner_replaces_that_of_all_field_by_field() {
    let filter = |namespace: Option<&str>, tag: Option<&str>| Filter {
        namespace: namespace.map(Into::into),
        tag: tag.map(|value| ("team".into(), value.into())),
    };
    let config = ScannerConfig {
        filter: filter(Some("shop"), Some("a")),
        filters: [("lease_expiry", filter(Some("bank"), None)), ("mine", filter(None, Some("b")))].into(),
        own: own(&["mine", "other"]),
        ..ScannerConfig::default()
    };
    let filters = filters(&config);
    assert_eq!(filters.general, filter(Some("shop"), Some("a")));
    assert_eq!(*filters.of("lease_expiry"), filter(Some("bank"), Some("a")));
    assert_eq!(*filters.of("delayed_promoter"), filters.general);
    assert_eq!(*filters.of("mine"), filter(Some("shop"), Some("b")));
    let named: Vec<&str> = filters.scanners.keys().map(|name| &**name).collect();
    assert_eq!(named, ["lease_expiry", "mine", "other"], "SR-54: nodes without `other` form a group of their own");
    let all = all(&config);
    assert!(all.iter().all(|scanner| scanner.filter() == filters.of(scanner.name())));
    let last: Vec<&str> = all[all.len() - 2..].iter().map(|scanner| scanner.name()).collect();
    assert_eq!(last, ["mine", "other"], "SR-30: listed after the built-in ones");
}

#[test]
fn sc_86_no_interval_is_below_a_tenth_of_a_second_however_it_was_set() {
    let config = ScannerConfig {
        intervals: [("lease_expiry", 1), ("mine", 250)].into(),
        own: own(&["mine", "other"]),
        ..ScannerConfig::default()
    };
    let interval = |name| all(&config).iter().find(|one| one.name() == name).unwrap().interval_ms();
    assert_eq!((interval("lease_expiry"), interval("mine"), interval("other")), (100, 250, 100));
}
