use crate::kit::{Folder, flags, told, variables};
use std::time::Duration;
use weft_config::{Durability, Network, Origin, Settings, Sources, keys};

const FILE: &str = r#"
master_key_file = "keys/master"

[server]
listen = "127.0.0.1:1"
drain = "1m"
behind_proxy = true
trusted_proxies = ["10.0.0.0/8", "::1"]
max_connections = 7

[auth.rate]
default = 5

[otel]
sample = 1
"#;

#[test]
fn ops_1_a_flag_goes_before_a_variable_before_the_file_before_the_default() {
    let folder = Folder::with(FILE);
    let mut sources = folder.sources();
    let address = |settings: &Settings| settings.get(keys::SERVER_LISTEN).to_string();

    let built_in = Settings::load(Sources::default()).unwrap();
    assert_eq!(
        (address(&built_in).as_str(), built_in.origin(keys::SERVER_LISTEN)),
        ("127.0.0.1:7700", &Origin::BuiltIn)
    );

    let file = Settings::load(sources.clone()).unwrap();
    let line = Origin::File { path: folder.file(), line: 5 };
    assert_eq!((address(&file).as_str(), file.origin(keys::SERVER_LISTEN)), ("127.0.0.1:1", &line));

    sources.variables = variables(&[("WEFT_LISTEN", "127.0.0.1:2"), ("HOME", "/"), ("WEFT_URL", "http://x")]);
    let variable = Settings::load(sources.clone()).unwrap();
    let origin = Origin::Variable("WEFT_LISTEN".to_owned());
    assert_eq!((address(&variable).as_str(), variable.origin(keys::SERVER_LISTEN)), ("127.0.0.1:2", &origin));

    sources.flags = flags(&[("--listen", "127.0.0.1:4"), ("listen", "127.0.0.1:3")]);
    let flag = Settings::load(sources).unwrap();
    let origin = Origin::Flag("--listen".to_owned());
    assert_eq!((address(&flag).as_str(), flag.origin(keys::SERVER_LISTEN)), ("127.0.0.1:3", &origin));
    assert_eq!(flag.get(keys::SERVER_DRAIN), Duration::from_secs(60), "the file still says the rest");
}

#[test]
fn ops_2_every_kind_is_read_from_a_file() {
    let settings = Settings::load(Folder::with(FILE).sources()).unwrap();
    assert_eq!(settings.get(keys::MASTER_KEY_FILE), Some("keys/master".into()));
    assert!(settings.get(keys::SERVER_BEHIND_PROXY));
    let proxies = ["10.0.0.0/8", "::1/128"].map(|text| Network::parse(text).unwrap());
    assert_eq!(settings.get(keys::SERVER_TRUSTED_PROXIES), proxies);
    assert_eq!(settings.get(keys::SERVER_MAX_CONNECTIONS), 7);
    assert_eq!((settings.get(keys::AUTH_RATE_DEFAULT), settings.get(keys::AUTH_RATE_WORKER)), (5, 20_000));
    assert_eq!(settings.get(keys::OTEL_SAMPLE), 1.0);
}

#[test]
fn ops_2_every_kind_is_read_from_a_flag() {
    let all = [
        ("store-durability", "strict"),
        ("store-partitions", "8"),
        ("cache", "1GiB"),
        ("behind-proxy", "true"),
        ("trusted-proxies", "10.0.0.0/8, ::1"),
        ("cors-origins", "https://a.example"),
        ("otel-sample", "0.5"),
        ("log", "warn,weft_engine=trace"),
    ];
    let settings = Settings::load(Sources { flags: flags(&all), ..Sources::default() }).unwrap();
    assert_eq!(settings.get(keys::STORE_DURABILITY), Some(Durability::Strict));
    assert_eq!((settings.get(keys::STORE_PARTITIONS), settings.get(keys::STORE_REPLICAS)), (Some(8), None));
    assert_eq!(settings.get(keys::ENGINE_CACHE), 1 << 30);
    assert_eq!(settings.get(keys::SERVER_TRUSTED_PROXIES).len(), 2);
    assert_eq!(settings.get(keys::SERVER_CORS_ORIGINS), ["https://a.example"]);
    assert_eq!(settings.get(keys::OTEL_SAMPLE), 0.5);
    assert_eq!(settings.get(keys::LOG_LEVEL), "warn,weft_engine=trace");
}

#[test]
fn the_variable_of_opentelemetry_is_read_and_that_of_weft_goes_before_it() {
    let agreed = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318");
    let own = ("WEFT_OTEL_ENDPOINT", "http://b:4318");
    for (all, wanted) in [(vec![agreed], agreed), (vec![own, agreed], own), (vec![agreed, own], own)] {
        let settings = Settings::load(Sources { variables: variables(&all), ..Sources::default() }).unwrap();
        assert_eq!(settings.get(keys::OTEL_ENDPOINT).as_deref(), Some(wanted.1));
        assert_eq!(settings.origin(keys::OTEL_ENDPOINT), &Origin::Variable(wanted.0.to_owned()));
    }
}

#[test]
fn a_file_that_need_not_be_there_may_be_missing() {
    let folder = Folder::with("");
    std::fs::remove_file(folder.file()).unwrap();
    let mut sources = folder.sources();
    assert!(told(sources.clone())[0].starts_with("could not read `"));
    sources.file_required = false;
    assert_eq!(told(sources), [""; 0]);
}

#[test]
fn ops_3_rows_show_every_value_with_its_origin_and_no_secret() {
    let hidden = [
        ("WEFT_BOOTSTRAP_KEY", "weft_hidden"),
        ("WEFT_MASTER_KEY", "hidden"),
        ("WEFT_STORE", "postgres://ann:hidden@host/weft"),
    ];
    let settings = Settings::load(Sources {
        variables: variables(&hidden),
        flags: flags(&[("drain", "90s")]),
        ..Sources::default()
    });
    let settings = settings.unwrap();
    assert_eq!(settings.get(keys::MASTER_KEY).unwrap().expose(), "hidden");
    let rows = settings.rows();
    let row = |key: &str| {
        let row = rows.iter().find(|row| row.key == key).unwrap();
        (row.value.as_deref(), row.otherwise, row.origin.to_string())
    };
    assert_eq!(row("auth.bootstrap_key"), (Some("***"), None, "WEFT_BOOTSTRAP_KEY".to_owned()));
    assert_eq!(row("store.url"), (Some("postgres://***@host/weft"), None, "WEFT_STORE".to_owned()));
    assert_eq!(row("server.drain"), (Some("90s"), None, "--drain".to_owned()));
    assert_eq!(row("execution.retention"), (Some("24h"), None, "built-in".to_owned()));
    assert_eq!(row("store.replicas"), (None, Some("all of the shard"), "built-in".to_owned()));
    assert_eq!(rows.len(), keys::rows().count());
    assert!(!format!("{rows:?}{settings:?}").contains("hidden"));
}

#[test]
fn a_variable_of_others_that_cannot_be_read_is_no_mistake() {
    let settings = {
        let variables = variables(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")]);
        Settings::load(Sources { variables, ..Sources::default() }).unwrap()
    };
    assert_eq!(settings.get(keys::OTEL_ENDPOINT), None);
    assert_eq!(settings.origin(keys::OTEL_ENDPOINT), &Origin::BuiltIn);
}
