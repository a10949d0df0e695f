//! TLS: the server's certificate, another one while it runs, and certificates of callers.

use crate::kit::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use weft_server::tls::{Files, Identity};
use weft_server::{App, Listener, Options};
use weft_tls::testing::{Certificates, certificates};

fn write(folder: &Path, made: &Certificates, client_ca: Option<&str>) -> Files {
    let file = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    Files {
        cert: file("cert.pem", &made.server),
        key: file("key.pem", &made.server_key),
        client_ca: client_ca.map(|text| file("clients.pem", text)),
    }
}

/// Connects, trusting this authority, and says who it is if it can.
async fn connect(server: &Server, authority: &str, own: Option<&Certificates>) -> std::io::Result<Http> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let cert = CertificateDer::from_pem_slice(own.server.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(own.server_key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![cert], key).unwrap()
        }
    };
    let stream = tokio::net::TcpStream::connect(server.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let stream = within(TlsConnector::from(Arc::new(config)).connect(name, stream)).await?;
    Ok(Http::over(stream, "localhost".to_string()).await)
}

async fn serve(files: Files) -> (Server, Arc<Identity>) {
    let app = App::new(engine().await, Options::dev());
    let identity = Identity::load(files).unwrap();
    let listener = Listener::bind(&app, ([127, 0, 0, 1], 0).into(), Some(identity)).await.unwrap();
    let identity = listener.identity().unwrap();
    (Server::run(app, listener), identity)
}

#[tokio::test]
async fn api_51_a_new_certificate_is_taken_without_dropping_connections() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (certificates(&["localhost"]).unwrap(), certificates(&["localhost"]).unwrap());
    let (server, identity) = serve(write(folder.path(), &old, None)).await;
    let mut open = connect(&server, &old.authority, None).await.unwrap();
    assert_eq!(open.get("/healthz").await.status, 200);
    assert!(connect(&server, &new.authority, None).await.is_err(), "the new one is not there yet");
    // Files that do not fit leave everything as it is.
    std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
    assert!(identity.refresh().is_err());
    connect(&server, &old.authority, None).await.unwrap();
    write(folder.path(), &new, None);
    assert!(identity.refresh().unwrap());
    assert!(connect(&server, &old.authority, None).await.is_err(), "the old one is gone");
    let mut fresh = connect(&server, &new.authority, None).await.unwrap();
    assert_eq!(fresh.get("/healthz").await.status, 200);
    assert_eq!(open.get("/healthz").await.status, 200, "what was open stays open");
    assert!(!identity.refresh().unwrap(), "nothing has changed since");
}

#[tokio::test]
async fn api_51_callers_without_a_certificate_of_the_right_authority_are_refused_if_one_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (own, client) = (certificates(&["localhost"]).unwrap(), certificates(&["worker"]).unwrap());
    let stranger = certificates(&["worker"]).unwrap();
    let (server, _) = serve(write(folder.path(), &own, Some(&client.authority))).await;
    let mut known = connect(&server, &own.authority, Some(&client)).await.unwrap();
    assert_eq!(known.get("/healthz").await.status, 200);
    for other in [None, Some(&stranger)] {
        // With TLS 1.3 the refusal comes after the client's side of the handshake.
        if let Ok(mut http) = connect(&server, &own.authority, other).await {
            assert!(http.try_send(http::Request::get("/healthz"), "").await.is_err());
        }
    }
}

#[tokio::test]
async fn api_51_the_subject_of_a_callers_certificate_is_in_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let (own, client) = (certificates(&["localhost"]).unwrap(), certificates(&["worker"]).unwrap());
    let (server, _) = serve(write(folder.path(), &own, Some(&client.authority))).await;
    let mut http = connect(&server, &own.authority, Some(&client)).await.unwrap();
    let id = http.submit(serde_json::json!({ "kind": "mail" })).await;
    http.post(&format!("/v1/executions/{id}/hold"), serde_json::json!({ "reason": "x" })).await.good();
    let audit = http.get("/v1/audit").await.good();
    assert_eq!(audit["items"][0]["address"], "127.0.0.1 (CN=rcgen self signed cert)");
}
