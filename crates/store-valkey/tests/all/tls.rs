//! Encrypted connections: what is trusted, and what a person is told about the rest.

use crate::records::{P0, batch, insert, key};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use weft_servers::Valkey;
use weft_store::{Outcome, Store};
use weft_store_valkey::{Options, ValkeyStore};
use weft_tls::testing::{Certificates, certificates};

/// A server behind a gate that speaks TLS and nothing else, because not every server is built with it.
struct Server {
    valkey: Valkey,
    /// Has the certificate of the authority that signed the gate's.
    folder: TempDir,
    gate: u16,
}

impl Server {
    /// With a certificate for these names. A node of a Cluster tells clients to come through the gate.
    async fn start(names: &[&str], cluster: bool) -> Self {
        let Certificates { authority, server, server_key, .. } = certificates(names).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gate = listener.local_addr().unwrap().port();
        let port = gate.to_string();
        let settings: &[(&str, &str)] = &[("cluster-enabled", "yes"), ("cluster-announce-port", &port)];
        let valkey = Valkey::start(if cluster { settings } else { &[] }).unwrap();
        tokio::spawn(pass_through(listener, acceptor(&server, &server_key), valkey.addr().port()));
        Self { valkey, folder, gate }
    }

    fn options(&self, scheme: &str, authority: &Path) -> Options {
        at(scheme, self.gate, authority)
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    async fn works(&self, scheme: &str) {
        let options = Options { partitions: 2, ..self.options(scheme, &self.authority()) };
        let (one, two) = (ValkeyStore::open(options.clone()).await.unwrap(), ValkeyStore::open(options).await.unwrap());
        let mut wakes = two.watch();
        // A hint that nobody hears yet is lost.
        for number in 1.. {
            let mut batch = batch(&one, P0, vec![insert(key(P0, number), &[(0, b"x")])]).await;
            batch.lanes = vec![("default".into(), "mail".into())];
            assert!(matches!(one.commit(P0, batch).await, Outcome::Applied { .. }));
            let heard = tokio::time::timeout(Duration::from_millis(200), wakes.recv()).await;
            if heard.is_ok() {
                break;
            }
            assert!(number < 50, "no wake-up came through");
        }
    }
}

fn at(scheme: &str, port: u16, authority: &Path) -> Options {
    crate::servers::options(&format!("{scheme}://127.0.0.1:{port}?cacert={}", authority.display()), "tls")
}

fn acceptor(certificate: &str, key: &str) -> TlsAcceptor {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()))
}

async fn pass_through(listener: TcpListener, acceptor: TlsAcceptor, port: u16) {
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // A client that does not trust the gate goes away.
            let Ok(mut outside) = acceptor.accept(stream).await else { return };
            let mut inside = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
        });
    }
}

async fn refusal(options: Options) -> String {
    match ValkeyStore::open(options).await {
        Ok(_) => panic!("a store was opened"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn sec_8_every_connection_to_a_server_is_encrypted() {
    Server::start(&["127.0.0.1"], false).await.works("valkeys").await;
}

#[tokio::test]
async fn sec_8_every_connection_to_a_cluster_is_encrypted() {
    let server = Server::start(&["127.0.0.1"], true).await;
    server.valkey.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
    let state = || server.valkey.command(&["CLUSTER", "INFO"]).unwrap().text().unwrap();
    let started = Instant::now();
    while !state().contains("cluster_state:ok") {
        assert!(started.elapsed() < Duration::from_secs(30), "{}", state());
        tokio::task::yield_now().await;
    }
    server.works("valkeys-cluster").await;
}

#[tokio::test]
async fn sec_8_a_server_that_is_not_trusted_is_refused_with_what_to_do() {
    let server = Server::start(&["db.example"], false).await;
    let told = refusal(server.options("valkeys", &server.authority())).await;
    assert!(told.contains("another name"), "{told}");
    let stranger = server.folder.path().join("stranger.pem");
    std::fs::write(&stranger, certificates(&["x"]).unwrap().authority).unwrap();
    let told = refusal(server.options("valkeys", &stranger)).await;
    assert!(told.contains("`cacert=FILE`"), "{told}");
    let told = refusal(server.options("valkeys", Path::new("no/such/file"))).await;
    assert!(told.contains("`no/such/file`"), "{told}");
}

#[tokio::test]
async fn sec_8_a_server_without_tls_is_refused_with_what_to_do() {
    let server = Server::start(&["127.0.0.1"], false).await;
    let options = at("valkeys", server.valkey.addr().port(), &server.authority());
    let told = refusal(Options { connect_timeout: Duration::from_secs(1), ..options }).await;
    assert!(told.contains("speaks no TLS"), "{told}");
}
