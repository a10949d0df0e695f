use crate::kit::{Folder, flags_told, told, variables_told};
use weft_config::Sources;

#[test]
fn ops_1_an_unknown_key_is_answered_with_the_nearest() {
    let file =
        "lisen = 1\n[server]\ndrian = \"1s\"\n[metrix]\n[queue]\n[kafka]\ntopic = 1\n[engine]\n[node]\n\"a.b\" = 1\n";
    assert_eq!(
        Folder::with(file).told(),
        [
            "`kafka.topic` is no key of the configuration (weft.toml:7)",
            "`lisen` is no key of the configuration (weft.toml:1)",
            "`metrix` is no key of the configuration (weft.toml:4)",
            "`node.\"a.b\"` is no key of the configuration (weft.toml:10)",
            "`queue` is no key of the configuration (weft.toml:5): did you mean `engine.queue`?",
            "`server.drian` is no key of the configuration (weft.toml:3): did you mean `server.drain`?",
        ]
    );
}

#[test]
fn ops_1_an_unknown_variable_is_answered_with_the_nearest() {
    let told = variables_told(&[
        ("WEFT_LISTN", "127.0.0.1:1"),
        ("WEFT_SERVER_LISTEN", "127.0.0.1:1"),
        ("WEFT_KEYFILE", "x"),
        ("WEFT_SOMETHING_ELSE_ALTOGETHER", "x"),
        ("WEST_LISTEN", "x"),
    ]);
    assert_eq!(
        told,
        [
            "`WEFT_LISTN` is no variable of Weft: did you mean `WEFT_LISTEN`?",
            "`WEFT_SERVER_LISTEN` is no variable of Weft: did you mean `WEFT_LISTEN`?",
            "`WEFT_KEYFILE` is no variable of Weft: did you mean `WEFT_KEY_FILE`?",
            "`WEFT_SOMETHING_ELSE_ALTOGETHER` is no variable of Weft",
        ]
    );
}

#[test]
fn ops_1_an_unknown_flag_is_answered_with_the_nearest() {
    assert_eq!(
        flags_told(&[("listn", "127.0.0.1:1"), ("--server-listen", "127.0.0.1:1"), ("--kafka", "x")]),
        [
            "`--listn` is no flag of the configuration: did you mean `--listen`?",
            "`--server-listen` is no flag of the configuration: did you mean `--listen`?",
            "`--kafka` is no flag of the configuration",
        ]
    );
}

#[test]
fn ops_1_ops_2_a_bad_unit_is_answered_with_good_ones() {
    let file = "[server]\ndrain = 20\n[engine]\ncache = \"64MB\"\n";
    assert_eq!(
        Folder::with(file).told(),
        [
            "`engine.cache` is `\"64MB\"`, wanted is a size like `\"512B\"`, `\"64KiB\"` or `\"1MiB\"` (weft.toml:4)",
            "`server.drain` is `20`, wanted is a duration like `\"250ms\"`, `\"30s\"`, `\"15m\"`, `\"24h\"` or `\"7d\"` \
             (weft.toml:2)",
        ]
    );
    assert_eq!(
        flags_told(&[("drain", "20 s")]),
        ["`server.drain` is `20 s`, wanted is a duration like `250ms`, `30s`, `15m`, `24h` or `7d` (--drain)"]
    );
}

#[test]
fn ops_1_a_value_out_of_range_is_answered_with_the_range() {
    let file = "[server]\ndrain = \"20m\"\nmax_connections = 0\n[otel]\nsample = 1.5\n";
    assert_eq!(
        Folder::with(file).told(),
        [
            "`otel.sample` is 1.5, allowed are 0 to 1 (weft.toml:5)",
            "`server.drain` is 20m, allowed are 0s to 10m (weft.toml:2)",
            "`server.max_connections` is 0, allowed are 1 to 1000000 (weft.toml:3)",
        ]
    );
    assert_eq!(
        variables_told(&[("WEFT_STORE_PARTITIONS", "1025"), ("WEFT_LIMITS_INPUT", "17MiB")]),
        [
            "`store.partitions` is 1025, allowed are 1 to 1024 (WEFT_STORE_PARTITIONS)",
            "`limits.input` is 17MiB, allowed are 1KiB to 16MiB (WEFT_LIMITS_INPUT)",
        ]
    );
}

#[test]
fn ops_1_a_value_of_another_kind_is_answered_with_what_is_wanted() {
    for (file, wanted) in [
        ("[engine]\nqueue = \"16\"", "`engine.queue` is `\"16\"`, wanted is a count like `100` (weft.toml:2)"),
        ("[engine]\nqueue = 0x40", "`engine.queue` is `0x40`, wanted is a count like `100` (weft.toml:2)"),
        ("[engine]\nqueue = -1", "`engine.queue` is `-1`, wanted is a count like `100` (weft.toml:2)"),
        ("[store]\nplaintext = \"yes\"", "`store.plaintext` is `\"yes\"`, wanted is `true` or `false` (weft.toml:2)"),
        (
            "[log]\nformat = \"jsn\"",
            "`log.format` is `\"jsn\"`, wanted is `\"text\"` or `\"json\"` (weft.toml:2): did you mean `json`?",
        ),
        (
            "[server]\ntrusted_proxies = \"10.0.0.0/8\"",
            "`server.trusted_proxies` is `\"10.0.0.0/8\"`, wanted is a list of networks like \
             `[\"10.0.0.0/8\", \"192.0.2.7\"]` (weft.toml:2)",
        ),
        (
            "[server]\nlisten = \"localhost:1\"",
            "`server.listen` is `\"localhost:1\"`, wanted is an IP address with a port like `\"127.0.0.1:7700\"` or \
             `\"[::1]:7700\"` (weft.toml:2)",
        ),
        ("[server.drain]\na = 1", "wanted is a duration"),
        (
            "[log]\nlevel = \"loud\"",
            "`log.level` is `\"loud\"`, wanted is levels to log like `\"info\"` or `\"info,weft_engine=debug\"` (weft.toml:2)",
        ),
        ("[node]\nname = \"\"", "`node.name` is `\"\"`, wanted is one line of 1 to 64 bytes (weft.toml:2)"),
    ] {
        let told = Folder::with(file).told();
        assert!(told.len() == 1 && told[0].contains(wanted), "{told:?}");
    }
}

#[test]
fn a_file_that_is_no_toml_is_answered_with_the_line() {
    let told = Folder::with("[server]\ndrain = 20m\n").told();
    assert!(
        told.len() == 1 && told[0].starts_with("cannot read `weft.toml:2`: ") && !told[0].contains('\n'),
        "{told:?}"
    );
    let told = Folder::with("[server]\ndrain = \"1s\"\ndrain = \"2s\"\n").told();
    assert!(told[0].starts_with("cannot read `weft.toml:3`: "), "{told:?}");
}

#[test]
fn ops_3_a_secret_is_no_flag_and_is_not_repeated() {
    assert_eq!(
        flags_told(&[("bootstrap-key", "hidden"), ("auth-bootstrap-key", "hidden"), ("master-key", "hidden")]),
        [
            "`auth.bootstrap_key` cannot be a flag, because others see flags: set `WEFT_BOOTSTRAP_KEY`, or write it into \
             the file",
            "`auth.bootstrap_key` cannot be a flag, because others see flags: set `WEFT_BOOTSTRAP_KEY`, or write it into \
             the file",
            "`master_key` cannot be a flag, because others see flags: set `WEFT_MASTER_KEY`",
        ]
    );
    assert_eq!(
        Folder::with("master_key = \"hidden\"").told(),
        ["`master_key` cannot stand in a file (weft.toml:1): set `WEFT_MASTER_KEY`"]
    );
    assert_eq!(
        variables_told(&[("WEFT_BOOTSTRAP_KEY", "hid den"), ("WEFT_OTEL_ENDPOINT", "ann:hidden@host")]),
        [
            "`auth.bootstrap_key` is `***`, wanted is one word of text (WEFT_BOOTSTRAP_KEY)",
            "`otel.endpoint` is `***`, wanted is an address like `http://HOST:PORT` or `https://HOST:PORT` \
             (WEFT_OTEL_ENDPOINT)",
        ]
    );
}

#[test]
fn all_mistakes_are_told_at_once_also_of_values_that_are_replaced() {
    let folder = Folder::with("[server]\ndrain = \"x\"\n");
    let mut sources = folder.sources();
    sources.variables = crate::kit::variables(&[("WEFT_SERVER_DRAIN", "20m"), ("WEFT_NO_SUCH_THING_AT_ALL", "1")]);
    sources.flags = crate::kit::flags(&[("drain", "1s"), ("cache", "1")]);
    assert_eq!(told(sources).len(), 3, "an unknown variable is none of them");
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf_8_is_told() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let bytes = || OsString::from_vec(vec![0xff]);
    let variables = vec![("WEFT_DATA_DIR".into(), bytes()), ("HOME".into(), bytes()), (bytes(), "x".into())];
    let told = told(Sources { variables, ..Sources::default() });
    assert_eq!(told, ["`WEFT_DATA_DIR` is not UTF-8, which no value can be"]);
}

#[test]
fn settings_that_do_not_go_together_are_told() {
    for (flags, wanted) in [
        (vec![("tls-cert", "a")], "`server.tls_cert` (--tls-cert) needs `server.tls_key`: give both or neither"),
        (vec![("tls-key", "a")], "`server.tls_key` (--tls-key) needs `server.tls_cert`: give both or neither"),
        (
            vec![("tls-client-ca", "a")],
            "`server.tls_client_ca` (--tls-client-ca) needs TLS: give `server.tls_cert` and `server.tls_key` too",
        ),
        (
            vec![("trusted-proxies", "::1")],
            "`server.trusted_proxies` (--trusted-proxies) needs `server.behind_proxy = true`",
        ),
    ] {
        assert_eq!(flags_told(&flags), [wanted]);
    }
    let both = [("WEFT_MASTER_KEY", "a"), ("WEFT_MASTER_KEY_FILE", "b")];
    assert_eq!(
        variables_told(&both),
        ["`WEFT_MASTER_KEY` and `master_key_file` (WEFT_MASTER_KEY_FILE) are both given: give one of them"]
    );
}

#[test]
fn api_50_sec_2_an_address_that_others_reach_needs_tls_or_a_proxy() {
    let told = flags_told(&[("listen", "0.0.0.0:7700"), ("metrics-listen", "[::]:1")]);
    assert_eq!(
        told,
        [
            "`server.listen` is 0.0.0.0:7700 (--listen), which others reach, without encryption: give `server.tls_cert` and \
             `server.tls_key`, or say `server.behind_proxy = true` if a proxy in front encrypts",
            "`metrics.listen` is [::]:1 (--metrics-listen), which others reach without a key: take an address of this \
             machine, or say `server.behind_proxy = true`",
        ]
    );
    for fine in [
        vec![("listen", "0.0.0.0:1"), ("tls-cert", "a"), ("tls-key", "b")],
        vec![("listen", "0.0.0.0:1"), ("metrics-listen", "[::]:1"), ("behind-proxy", "true")],
        vec![("listen", "127.9.9.9:1"), ("metrics-listen", "[::1]:1")],
        vec![("listen", "[::ffff:127.0.0.1]:1")],
    ] {
        assert_eq!(flags_told(&fine), [""; 0]);
    }
}

#[test]
fn sr_34_a_filter_that_is_none_stops_the_start_with_its_key_and_what_would_be_right() {
    let file = "[scanners]\nnamespace = \"-shop\"\ntag = \"team\"\n[scanners.lease_expiry]\nnamespace = \"\"\n\
                tag = \"=a\"\ninterval = \"99ms\"\n";
    let name = "a name of 1 to 64 letters, digits and `._:/@-` that begins with a letter or digit";
    let tag = "a tag `KEY=VALUE` like `\"team=a\"`";
    assert_eq!(
        Folder::with(file).told(),
        [
            "`scanners.lease_expiry.interval` is 99ms, allowed are 100ms to 1h (weft.toml:7)".to_owned(),
            format!("`scanners.lease_expiry.namespace` is `\"\"`, wanted is {name} (weft.toml:5)"),
            format!("`scanners.lease_expiry.tag` is `\"=a\"`, wanted is {tag} (weft.toml:6)"),
            format!("`scanners.namespace` is `\"-shop\"`, wanted is {name} (weft.toml:2)"),
            format!("`scanners.tag` is `\"team\"`, wanted is {tag} (weft.toml:3)"),
        ]
    );
    assert_eq!(
        variables_told(&[("WEFT_SCANNERS_WORKER_REAPER_TAG", "team")]),
        ["`scanners.worker_reaper.tag` is `team`, wanted is a tag `KEY=VALUE` like `team=a` \
          (WEFT_SCANNERS_WORKER_REAPER_TAG)"]
    );
}
