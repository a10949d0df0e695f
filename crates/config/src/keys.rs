//! The table: every key, by subject. A key is here because something reads it.

use crate::network::Network;
use crate::row::{
    Area, Key, Row, address, count, duration, filter, fraction, name, networks, origins, path, secret, size, switch,
    tag, text, url, word,
};
use crate::secret::Secret;
use crate::words::{Durability, LogFormat, Migrate};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use weft_core::limits;

/// Every row, in the order of the table.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    AREAS.iter().flat_map(|area| area.rows)
}

/// The row of a key.
pub fn find(key: &str) -> Option<&'static Row> {
    rows().find(|row| row.key == key)
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// What is taken as a rate per second.
const RATE_MAX: u64 = 1_000_000;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn times(duration: Duration, times: u64) -> Duration {
    Duration::from_secs(duration.as_secs() * times)
}

/// The settings of one scanner.
pub struct ScannerKeys {
    pub name: &'static str,
    pub interval: Key<Duration>,
    pub namespace: Key<Option<String>>,
    pub tag: Key<Option<String>>,
}

/// One scanner per line: its name, its default interval and, where that is not how long a failed item waits, its meaning.
/// An interval is at least a tenth of a second, so that failing items cannot keep a store busy.
macro_rules! scanners {
    ($($name:literal $interval:literal $(($what:literal))?;)+) => {
        pub const SCANNERS: &[ScannerKeys] = &[$(ScannerKeys {
            name: $name,
            interval: duration(concat!("scanners.", $name, ".interval"), ms(100), times(MINUTE, 60))
                .default($interval)
                .help(scanners!(@help $name $($what)?)),
            namespace: name(concat!("scanners.", $name, ".namespace"))
                .derived("that of all scanners", "shop")
                .help(concat!("The only namespace that `", $name, "` of this node handles")),
            tag: tag(concat!("scanners.", $name, ".tag"))
                .derived("that of all scanners", "team=a")
                .help(concat!("The tag that an execution or flow must have for `", $name, "` of this node to handle it")),
        }),+];

        const SCANNER_ROWS: [Row; SCANNERS.len() * 3] = {
            let mut rows = [SCANNERS[0].tag.row; SCANNERS.len() * 3];
            let mut at = 0;
            while at < SCANNERS.len() {
                rows[at * 3] = SCANNERS[at].interval.row;
                rows[at * 3 + 1] = SCANNERS[at].namespace.row;
                rows[at * 3 + 2] = SCANNERS[at].tag.row;
                at += 1;
            }
            rows
        };
    };
    (@help $name:literal $what:literal) => { $what };
    (@help $name:literal) => { concat!("How long `", $name, "` lets an item wait that it could not handle") };
}

scanners! {
    "attempt_timeout" "2s";
    "execution_deadline" "5s";
    "lease_expiry" "1s";
    "delayed_promoter" "750ms";
    "suspension_timeout" "2s";
    "retention_trimmer" "60s";
    "dependency_reconciler" "15s";
    "cancel_reconciler" "15s";
    "edge_cancel_dispatcher" "1s";
    "edge_cancel_reconciler" "10s"
        ("How old an item of `edge_cancel_dispatcher` is when `edge_cancel_reconciler` looks at it");
    "flow_projector" "15s";
    "worker_reaper" "15s";
}

/// A constant per key with its type, and the subjects with their rows. A subject may also name rows that are made elsewhere.
macro_rules! table {
    ($($title:literal $({ $($name:ident: $type:ty = $key:expr;)+ })? $(= $rows:ident;)?)+) => {
        $($($(pub const $name: Key<$type> = $key;)+)?)+

        /// Every subject, in the order in which people meet them.
        pub const AREAS: &[Area] = &[$(Area { title: $title, rows: &$([$($name.row),+])?$($rows)? }),+];

        #[cfg(test)]
        fn read_all(settings: &crate::Settings) {
            $($($(let _: $type = settings.get($name);)+)?)+
        }
    };
}

// A file has what stands in no table of it at its beginning, so the master key comes first.
table! {
    "Master key" {
        MASTER_KEY_FILE: Option<PathBuf> = path("master_key_file")
            .derived("`master.key` in `node.data_dir` on SQLite, else none", "master.key")
            .help("File with the key that seals what is secret in the store: 32 bytes in base64");
        MASTER_KEY: Option<Secret> = secret("master_key")
            .not_in_file()
            .help("The same key as a value");
    }

    "Store" {
        STORE_URL: String = url("store.url", &[])
            .variable("WEFT_STORE")
            .flag("--store")
            .default("sqlite:weft-data/weft.db")
            .help("Where everything is kept: `sqlite:PATH`, `postgres://…`, `valkey://…`, `valkey-cluster://…` or `valkeys…`");
        STORE_PARTITIONS: Option<u16> = count("store.partitions", 1, 1024)
            .derived("1 on SQLite, 16 on PostgreSQL, 64 on Valkey", "16")
            .help("Partitions of a store that is made; fixed from then on");
        STORE_DURABILITY: Option<Durability> = word("store.durability", Durability::WORDS)
            .derived("`local`", "replicated")
            .help("How far a commit must have got in Valkey before it is acknowledged");
        STORE_REPLICAS: Option<u32> = count("store.replicas", 1, 1000)
            .derived("all of the shard", "1")
            .help("Replicas that a commit waits for if the durability is `replicated`");
        STORE_ACCEPT_DATA_LOSS: bool = switch("store.accept_data_loss")
            .default("false")
            .help("Opens a server whose settings can lose acknowledged work");
        STORE_PLAINTEXT: bool = switch("store.plaintext")
            .default("false")
            .help("Lets the store be reached beyond this machine without encryption");
        STORE_CONNECT_TIMEOUT: Option<Duration> = duration("store.connect_timeout", ms(100), times(MINUTE, 5))
            .derived("5s", "5s")
            .help("How long connecting to a server may take");
        STORE_CALL_TIMEOUT: Option<Duration> = duration("store.call_timeout", ms(100), times(MINUTE, 10))
            .derived("10s", "10s")
            .help("How long a call of a server may take; a commit that takes longer has an unknown outcome");
        STORE_POOL: Option<u32> = count("store.pool", 2, 1000)
            .derived("20", "20")
            .help("Connections to PostgreSQL that calls take in turn, a fifth of them for reads; a few more are kept beside them");
        STORE_MIGRATE: Option<Migrate> = word("store.migrate", Migrate::WORDS)
            .flag("--migrate")
            .derived("`auto` on SQLite, else `check`", "check")
            .help("Whether a start makes or upgrades the store, or refuses one that is not up to date");
    }

    "Node" {
        NODE_NAME: Option<String> = text("node.name", limits::NAME_MAX)
            .flag("--name")
            .derived("name of the host and a random part", "node-1")
            .help("Names this node in logs and in the list of nodes");
        NODE_DATA_DIR: Option<PathBuf> = path("node.data_dir")
            .variable("WEFT_DATA_DIR")
            .flag("--data-dir")
            .derived("folder of the file on SQLite, else `weft-data`", "weft-data")
            .help("Folder for what belongs to this node");
    }

    "Server" {
        SERVER_LISTEN: SocketAddr = address("server.listen")
            .variable("WEFT_LISTEN")
            .flag("--listen")
            .default("127.0.0.1:7700")
            .help("Where the API is served; beyond this machine only with TLS or behind a proxy");
        SERVER_TLS_CERT: Option<PathBuf> = path("server.tls_cert")
            .variable("WEFT_TLS_CERT")
            .flag("--tls-cert")
            .derived("none", "tls/cert.pem")
            .reload()
            .help("PEM file with the certificate of the server and those between it and its authority");
        SERVER_TLS_KEY: Option<PathBuf> = path("server.tls_key")
            .variable("WEFT_TLS_KEY")
            .flag("--tls-key")
            .derived("none", "tls/key.pem")
            .reload()
            .help("PEM file with the key of the certificate");
        SERVER_TLS_CLIENT_CA: Option<PathBuf> = path("server.tls_client_ca")
            .variable("WEFT_TLS_CLIENT_CA")
            .flag("--tls-client-ca")
            .derived("none", "tls/clients.pem")
            .help("PEM file with the authorities of clients; a client without a certificate of theirs is turned away");
        SERVER_BEHIND_PROXY: bool = switch("server.behind_proxy")
            .flag("--behind-proxy")
            .default("false")
            .help("Says that a proxy in front does TLS, so that plain HTTP may be served beyond this machine");
        SERVER_TRUSTED_PROXIES: Vec<Network> = networks("server.trusted_proxies")
            .flag("--trusted-proxies")
            .default("")
            .help("Networks of proxies whose word about the address of a client counts");
        SERVER_CORS_ORIGINS: Vec<String> = origins("server.cors_origins")
            .variable("WEFT_CORS_ORIGINS")
            .flag("--cors-origins")
            .default("")
            .reload()
            .help("Origins of web pages that may call the API; `*` is taken by `weft dev` only");
        SERVER_DRAIN: Duration = duration("server.drain", Duration::ZERO, times(MINUTE, 10))
            .flag("--drain")
            .default("15s")
            .help("How long a stop waits for calls that came in before");
        SERVER_MAX_CONNECTIONS: usize = count("server.max_connections", 1, 1_000_000)
            .default("10000")
            .help("Connections at a time");
        SERVER_MAX_WAITING_CLAIMS: usize = count("server.max_waiting_claims", 1, 1_000_000)
            .default("20000")
            .help("Claims that may wait for work at a time");
    }

    "Who may call" {
        AUTH_BOOTSTRAP_KEY: Option<Secret> = secret("auth.bootstrap_key")
            .variable("WEFT_BOOTSTRAP_KEY")
            .derived("one is made and printed at the first start", "weft_…")
            .help("The first key of an installation, with the scope `admin`; used if there is no key yet");
        AUTH_RATE_DEFAULT: u32 = count("auth.rate.default", 1, RATE_MAX)
            .default("2000")
            .reload()
            .help("Requests per second of one key of the class `default`");
        AUTH_RATE_WORKER: u32 = count("auth.rate.worker", 1, RATE_MAX)
            .default("20000")
            .reload()
            .help("Requests per second of one key of the class `worker`");
        AUTH_OPEN_RATE: u32 = count("auth.open_rate", 1, RATE_MAX)
            .default("20")
            .help("Requests per second from one address that carries no key");
    }

    "Metrics" {
        METRICS_LISTEN: Option<SocketAddr> = address("metrics.listen")
            .derived("none", "127.0.0.1:7701")
            .help("Where metrics are served without a key; on this machine only, or behind a proxy");
    }

    "Engine" {
        ENGINE_QUEUE: usize = count("engine.queue", 16, 1 << 20)
            .default("8192")
            .help("Calls that may wait for a partition before callers are told `busy`");
        ENGINE_BATCH: usize = count("engine.batch", 1, 1 << 16)
            .default("1024")
            .help("Calls that share a commit of a partition at most");
        ENGINE_CACHE: usize = size("engine.cache", MIB, TIB)
            .flag("--cache")
            .default("256MiB")
            .help("Memory for cached records, for all partitions of the node together");
        ENGINE_RECHECK: Duration = duration("engine.recheck", SECOND, MINUTE)
            .default("5s")
            .help("How long a lost wake-up can delay a waiting claim");
        ENGINE_CLOCK_SKEW_MAX: Duration = duration("engine.clock_skew_max", ms(10), times(MINUTE, 60))
            .default("2s")
            .help("How far this machine's clock may be from the store's; beyond it the node is not ready");
    }

    "Scanners" {
        SCANNERS_AT_ONCE: usize = count("scanners.at_once", 1, 64)
            .default("4")
            .help("Passes of one scanner that run at the same time; one that takes longer than a second makes room for the next");
        SCANNERS_NAMESPACE: Option<String> = name("scanners.namespace")
            .derived("all", "shop")
            .help("The only namespace that scanners of this node handle");
        SCANNERS_TAG: Option<String> = tag("scanners.tag")
            .derived("any", "team=a")
            .help("The tag that an execution or flow must have for scanners of this node to handle it");
    }

    "Single scanners" = SCANNER_ROWS;

    "Executions" {
        EXECUTION_RETENTION: Duration = duration("execution.retention", Duration::ZERO, ms(limits::RETENTION_MS_MAX))
            .default("24h")
            .help("How long a finished execution is kept if its submission does not say");
        EXECUTION_LEASE: Duration = duration("execution.lease", ms(limits::LEASE_MS_MIN), ms(limits::LEASE_MS_MAX))
            .default("30s")
            .help("How long a worker has its work if its claim does not say");
        EXECUTION_IDEMPOTENCY_TTL: Duration =
            duration("execution.idempotency_ttl", ms(limits::IDEMPOTENCY_TTL_MS_MIN), ms(limits::IDEMPOTENCY_TTL_MS_MAX))
                .default("24h")
                .help("How long an idempotency key is remembered if its submission does not say");
        EXECUTION_REQUEST_TTL: Duration = duration("execution.request_ttl", MINUTE, ms(limits::REQUEST_TTL_CEILING_MS))
            .default("15m")
            .help("How long the answer to a request id is kept");
    }

    "Flows" {
        FLOW_SEAL_BY: Duration = duration("flow.seal_by", MINUTE, ms(limits::SEAL_BY_CEILING_MS))
            .default("24h")
            .help("How long a flow may stay unsealed if its submission does not say");
    }

    "Limits" {
        LIMITS_INPUT: usize = size("limits.input", KIB, limits::INPUT_CEILING as u64)
            .default("1MiB")
            .help("Input of an execution");
        LIMITS_RESULT: usize = size("limits.result", KIB, limits::RESULT_CEILING as u64)
            .default("1MiB")
            .help("Result of an execution");
        LIMITS_CHECKPOINT: usize = size("limits.checkpoint", KIB, limits::CHECKPOINT_CEILING as u64)
            .default("256KiB")
            .help("Checkpoint of an execution");
        LIMITS_STEP: usize = size("limits.step", KIB, 4 * MIB)
            .default("256KiB")
            .help("Result of one step");
        LIMITS_FLOW_MEMBERS: u32 = count("limits.flow_members", 1, limits::FLOW_MEMBERS_CEILING as u64)
            .default("100000")
            .help("Members of one flow");
        LIMITS_FLOW_EDGES: usize = count("limits.flow_edges", 1, limits::FLOW_EDGES_CEILING)
            .default("1000000")
            .help("Edges of one flow");
        LIMITS_EDGES_PER_MEMBER: u32 = count("limits.edges_per_member", 1, limits::EDGES_PER_MEMBER_CEILING as u64)
            .default("10000")
            .help("Edges that lead to a member of a flow, and edges that leave it");
        LIMITS_INPUTS: usize = size("limits.inputs", KIB, limits::INPUTS_INLINE_CEILING as u64)
            .default("1MiB")
            .help("Results of upstreams that come with a claim; what is beyond is read when asked for");
    }

    "Logs" {
        LOG_LEVEL: String = filter("log.level")
            .variable("WEFT_LOG")
            .flag("--log")
            .default("info")
            .reload()
            .help("What is logged: `off`, `error`, `warn`, `info`, `debug` or `trace`, also per target");
        LOG_FORMAT: Option<LogFormat> = word("log.format", LogFormat::WORDS)
            .derived("`text` on a terminal, else `json`", "json")
            .help("Lines for people or objects for programs");
    }

    "Traces" {
        OTEL_ENDPOINT: Option<String> = url("otel.endpoint", &["http://", "https://"])
            .also("OTEL_EXPORTER_OTLP_ENDPOINT")
            .derived("none", "http://127.0.0.1:4318")
            .help("Where traces are sent by OTLP; without it none are made");
        OTEL_SAMPLE: f64 = fraction("otel.sample")
            .default("0.1")
            .help("Share of traces that are sent, of those that begin here");
        OTEL_SERVICE: String = text("otel.service", limits::NAME_MAX)
            .default("weft")
            .help("Name of the service in traces");
    }

    "Audit log" {
        AUDIT_RETENTION: Duration = duration("audit.retention", ms(limits::DAY_MS), ms(limits::HORIZON_MS))
            .default("365d")
            .help("How long entries of the audit log are kept; counts for those that are written from then on");
        AUDIT_FILE: Option<PathBuf> = path("audit.file")
            .derived("none", "audit.jsonl")
            .help("Copies the audit log of this node to this file, a line of JSON each; opened again at SIGHUP");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fallback, Kind, Settings, Sources};
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_there_once() {
        let names = |name: fn(&Row) -> Option<String>| rows().filter_map(name).collect::<Vec<_>>();
        for all in [names(|row| Some(row.key.to_owned())), names(|row| Some(row.variable())), names(Row::flag)] {
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_specification() {
        for (key, variable, flag) in [
            ("store.url", "WEFT_STORE", "--store"),
            ("store.accept_data_loss", "WEFT_STORE_ACCEPT_DATA_LOSS", "--store-accept-data-loss"),
            ("store.migrate", "WEFT_STORE_MIGRATE", "--migrate"),
            ("node.name", "WEFT_NODE_NAME", "--name"),
            ("node.data_dir", "WEFT_DATA_DIR", "--data-dir"),
            ("master_key_file", "WEFT_MASTER_KEY_FILE", "--master-key-file"),
            ("server.listen", "WEFT_LISTEN", "--listen"),
            ("server.tls_client_ca", "WEFT_TLS_CLIENT_CA", "--tls-client-ca"),
            ("server.trusted_proxies", "WEFT_SERVER_TRUSTED_PROXIES", "--trusted-proxies"),
            ("server.drain", "WEFT_SERVER_DRAIN", "--drain"),
            ("server.max_waiting_claims", "WEFT_SERVER_MAX_WAITING_CLAIMS", "--server-max-waiting-claims"),
            ("auth.rate.worker", "WEFT_AUTH_RATE_WORKER", "--auth-rate-worker"),
            ("engine.cache", "WEFT_ENGINE_CACHE", "--cache"),
            ("execution.idempotency_ttl", "WEFT_EXECUTION_IDEMPOTENCY_TTL", "--execution-idempotency-ttl"),
            ("log.level", "WEFT_LOG", "--log"),
        ] {
            let row = find(key).expect(key);
            assert_eq!((row.variable().as_str(), row.flag().as_deref()), (variable, Some(flag)));
        }
    }

    #[test]
    fn every_row_says_what_it_is() {
        for row in rows() {
            let key = row.key;
            assert!(row.help.starts_with(char::is_uppercase) && !row.help.ends_with('.'), "{key}: {}", row.help);
            let in_tables = key
                .split('.')
                .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
            assert!(in_tables, "{key}");
            match row.default {
                Fallback::Value(text) => assert!(row.kind.read(text).is_ok(), "{key}: {text}"),
                Fallback::Derived(how) => {
                    assert!(!how.is_empty(), "{key}");
                    assert!(!row.in_file || row.kind.read(row.sample).is_ok(), "{key}: {}", row.sample);
                }
            }
        }
    }

    #[test]
    fn every_key_reads_as_its_type_over_its_whole_range() {
        read_all(&Settings::built_in());
        let ends = rows().filter_map(|row| Some((row, row.kind.range()?)));
        let ends: Vec<_> = ends.map(|(row, (min, max))| (row.flag().unwrap(), min, max)).collect();
        for flags in [
            ends.iter().map(|(flag, min, _)| (flag.clone(), min.clone())).collect(),
            ends.iter().map(|(flag, _, max)| (flag.clone(), max.clone())).collect(),
        ] {
            read_all(&Settings::load(Sources { flags, ..Sources::default() }).unwrap());
        }
    }

    #[test]
    fn a_secret_is_no_flag() {
        let secrets: Vec<_> = rows().filter(|row| row.kind == Kind::Secret).collect();
        assert_eq!(secrets.iter().map(|row| row.key).collect::<Vec<_>>(), ["master_key", "auth.bootstrap_key"]);
        assert!(secrets.iter().all(|row| row.flag().is_none()));
    }

    #[test]
    fn defaults_of_limits_are_those_of_the_core() {
        let settings = Settings::built_in();
        let core = limits::Limits::default();
        assert_eq!(settings.get(LIMITS_INPUT), core.input_max);
        assert_eq!(settings.get(LIMITS_RESULT), core.result_max);
        assert_eq!(settings.get(LIMITS_CHECKPOINT), core.checkpoint_max);
        assert_eq!(settings.get(EXECUTION_REQUEST_TTL), ms(core.request_ttl_ms));
        assert_eq!(settings.get(EXECUTION_RETENTION), ms(limits::RETENTION_MS_DEFAULT));
    }
}
