//! Handshakes in memory, between the configurations of servers and clients.

use std::fs;
use std::sync::Arc;

use punctual_core::{Span, Timestamp};
use punctual_pki::rustls::pki_types::ServerName;
use punctual_pki::rustls::{ClientConfig, ClientConnection, ServerConnection};
use punctual_pki::{
    Authority, CLUSTER_SERVER_NAME, CertificateFiles, CertificateName, ClusterName, ClusterRoots, Credentials,
    Fingerprint, LeafKey, LeafRequest, OwnCertificate, PkiError, Reload, ServerCheck, ServerTls, ServerTlsParts, Trust,
    certificates_from_pem, client_config, explain, to_pem,
};

const DAY: Span = Span::from_secs(86_400);

#[expect(clippy::disallowed_methods, reason = "rustls compares certificates with the real clock")]
fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_micros(since.as_micros() as i64).unwrap()
}

fn ago(span: Span) -> Timestamp {
    now() - span
}

fn cluster() -> ClusterName {
    ClusterName::new("c1").unwrap()
}

fn authority() -> Authority {
    Authority::make(cluster(), 1, now()).unwrap()
}

fn server_request(id: &str, hosts: &[&str]) -> LeafRequest {
    let name = CertificateName::server(cluster(), id).unwrap();
    LeafRequest { name, hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), lifetime: DAY }
}

fn worker_request(id: &str) -> LeafRequest {
    let name = CertificateName::worker(cluster(), id, "scope-1".to_owned()).unwrap();
    LeafRequest { name, hosts: Vec::new(), lifetime: DAY }
}

fn server_with(authority: &Authority, issued: Credentials, from_files: Option<Credentials>) -> ServerTls {
    let authorities = vec![authority.certificate().clone()];
    ServerTls::new(ServerTlsParts { cluster: cluster(), issued, from_files, authorities }).unwrap()
}

fn server(authority: &Authority) -> ServerTls {
    let issued = authority.issue_with_key(server_request("s1", &["localhost", "10.0.0.1"]), now()).unwrap();
    server_with(authority, issued, None)
}

fn roots(authority: &Authority) -> ClusterRoots {
    ClusterRoots::new(cluster(), &[authority.certificate().clone()]).unwrap()
}

fn config(trust: &Trust, own: Option<Credentials>) -> ClientConfig {
    client_config(trust, own.map(OwnCertificate::new), &[b"h2"]).unwrap()
}

/// The name that the server learns of the client, or why the handshake failed.
fn shake(server: &ServerTls, client: ClientConfig, host: &str) -> Result<Option<CertificateName>, String> {
    let mut server_end = ServerConnection::new(server.config()).unwrap();
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut client_end = ClientConnection::new(Arc::new(client), name).unwrap();
    let said = |error: &punctual_pki::rustls::Error| explain(error).unwrap().to_string();
    for _ in 0..10 {
        let mut wire = Vec::new();
        while client_end.wants_write() {
            client_end.write_tls(&mut wire).unwrap();
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            server_end.read_tls(&mut rest).unwrap();
            server_end.process_new_packets().map_err(|error| format!("server: {}", said(&error)))?;
        }
        let mut wire = Vec::new();
        while server_end.wants_write() {
            server_end.write_tls(&mut wire).unwrap();
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            client_end.read_tls(&mut rest).unwrap();
            client_end.process_new_packets().map_err(|error| said(&error))?;
        }
        if !client_end.is_handshaking() && !server_end.is_handshaking() && !client_end.wants_write() {
            return server.client_name(server_end.peer_certificates()).map_err(|error| error.to_string());
        }
    }
    panic!("the handshake does not end")
}

#[test]
fn a_server_is_trusted_by_the_names_in_its_certificate() {
    let ours = authority();
    let server = server(&ours);
    let trust = Trust::Roots(vec![ours.certificate().clone()]);
    for host in ["localhost", "10.0.0.1", CLUSTER_SERVER_NAME] {
        assert_eq!(shake(&server, config(&trust, None), host), Ok(None), "{host}");
    }
    let refused = shake(&server, config(&trust, None), "other.example").unwrap_err();
    assert!(refused.contains("not for other.example") && refused.contains("public_hosts"), "{refused}");
}

#[test]
fn another_authority_is_refused_with_what_to_do() {
    let server = server(&authority());
    let theirs = authority();
    for trust in [
        Trust::Roots(vec![theirs.certificate().clone()]),
        Trust::Cluster(roots(&theirs), ServerCheck::Any),
        Trust::Pinned(theirs.fingerprint()),
    ] {
        let refused = shake(&server, config(&trust, None), "localhost").unwrap_err();
        assert!(refused.contains("--ca-file"), "{refused}");
    }
}

#[test]
fn servers_know_each_other_by_their_ids_and_not_by_their_hosts() {
    let ours = authority();
    let server = server(&ours);
    let trust = |id: &str| Trust::Cluster(roots(&ours), ServerCheck::Id(id.to_owned()));
    let own = ours.issue_with_key(server_request("s2", &[]), now()).unwrap();
    let name = shake(&server, config(&trust("s1"), Some(own)), CLUSTER_SERVER_NAME).unwrap().unwrap();
    assert_eq!(name.uri(), "punctual://c1/server/s2");
    assert!(!name.serial.is_empty());
    let refused = shake(&server, config(&trust("s9"), None), CLUSTER_SERVER_NAME).unwrap_err();
    assert!(refused.contains("no server or worker of this cluster"), "{refused}");
}

#[test]
fn a_worker_cannot_pose_as_a_server() {
    let ours = authority();
    let worker = ours.issue_with_key(worker_request("w1"), now()).unwrap();
    let posing = server_with(&ours, worker, None);
    for trust in [
        Trust::Roots(vec![ours.certificate().clone()]),
        Trust::Cluster(roots(&ours), ServerCheck::Any),
        Trust::Pinned(ours.fingerprint()),
    ] {
        assert!(shake(&posing, config(&trust, None), CLUSTER_SERVER_NAME).is_err());
    }
}

#[test]
fn a_certificate_without_our_name_is_no_server_of_the_cluster() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = params.self_signed(&key).unwrap();
    let leaf_key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![CLUSTER_SERVER_NAME.to_owned()]).unwrap();
    let leaf = params.signed_by(&leaf_key, &rcgen::Issuer::new(rcgen::CertificateParams::default(), key)).unwrap();
    let issued = Credentials::from_pem(leaf.pem().as_bytes(), leaf_key.serialize_pem().as_bytes(), now()).unwrap();
    let ours = authority();
    let server = server_with(&ours, issued, None);
    let roots = ClusterRoots::new(cluster(), &[root.der().clone()]).unwrap();
    assert!(shake(&server, config(&Trust::Cluster(roots, ServerCheck::Any), None), CLUSTER_SERVER_NAME).is_err());
}

#[test]
fn a_fingerprint_is_enough_to_trust_the_servers_of_its_authority() {
    let ours = authority();
    let trust = Trust::Pinned(ours.fingerprint());
    assert_eq!(shake(&server(&ours), config(&trust, None), CLUSTER_SERVER_NAME), Ok(None));
    assert_eq!(Fingerprint::of(ours.certificate()), ours.fingerprint());
}

#[test]
fn a_worker_is_known_by_its_certificate() {
    let ours = authority();
    let key = LeafKey::generate().unwrap();
    let leaf = ours.issue(worker_request("w1"), &key.public_key(), now()).unwrap();
    assert_eq!(leaf.name.scope.as_deref(), Some("scope-1"));
    let pem: String = leaf.chain.iter().map(|certificate| to_pem(certificate)).collect();
    let again = LeafKey::from_secret(&key.secret()).unwrap();
    assert_eq!(again.public_key(), key.public_key(), "the key reads back");
    let own = Credentials::new(certificates_from_pem(pem.as_bytes()).unwrap(), der(&key), now()).unwrap();
    let trust = Trust::Cluster(roots(&ours), ServerCheck::Any);
    let name = shake(&server(&ours), config(&trust, Some(own)), CLUSTER_SERVER_NAME).unwrap().unwrap();
    assert_eq!(name, leaf.name);
}

fn der(key: &LeafKey) -> punctual_pki::rustls::pki_types::PrivateKeyDer<'static> {
    punctual_pki::rustls::pki_types::PrivatePkcs8KeyDer::from(key.secret().as_pkcs8().to_vec()).into()
}

#[test]
fn a_client_certificate_of_another_authority_or_time_is_refused() {
    let ours = authority();
    let server = server(&ours);
    let trust = Trust::Roots(vec![ours.certificate().clone()]);
    let foreign = authority().issue_with_key(worker_request("w1"), now()).unwrap();
    assert!(shake(&server, config(&trust, Some(foreign)), "localhost").unwrap_err().starts_with("server:"));
    let expired = ours.issue_with_key(worker_request("w1"), ago(Span::from_secs(86_400 * 2)));
    let key = LeafKey::generate().unwrap();
    assert!(expired.is_ok(), "it was valid then");
    let leaf = ours.issue(worker_request("w1"), &key.public_key(), ago(Span::from_secs(86_400 * 2))).unwrap();
    assert!(matches!(Credentials::new(leaf.chain, der(&key), now()), Err(PkiError::Expired(_))));
    let refused = shake(&server, config(&trust, Some(expired.unwrap())), "localhost").unwrap_err();
    assert!(refused.starts_with("server:"), "{refused}");
}

#[test]
fn after_a_rotation_both_authorities_are_trusted_and_connections_follow() {
    let (old, new) = (authority(), Authority::make(cluster(), 2, now()).unwrap());
    let server = server(&old);
    let known = roots(&old);
    let trust = Trust::Cluster(known.clone(), ServerCheck::Any);
    let both = vec![old.certificate().clone(), new.certificate().clone()];
    let issued = new.issue_with_key(server_request("s1", &["localhost"]), now()).unwrap();
    server.replace(ServerTlsParts { cluster: cluster(), issued, from_files: None, authorities: both.clone() }).unwrap();
    let config = config(&trust, Some(old.issue_with_key(worker_request("w1"), now()).unwrap()));
    assert!(shake(&server, config.clone(), CLUSTER_SERVER_NAME).is_err(), "the new one is not known yet");
    known.replace(&both).unwrap();
    assert!(shake(&server, config, CLUSTER_SERVER_NAME).unwrap().is_some(), "and the old worker is still known");
}

#[test]
fn peers_get_the_clusters_certificate_and_browsers_the_one_of_the_files() {
    let (ours, public) = (authority(), authority());
    let issued = ours.issue_with_key(server_request("s1", &[]), now()).unwrap();
    let shown = public.issue_with_key(server_request("x", &["punctual.example"]), now()).unwrap();
    let server = server_with(&ours, issued, Some(shown));
    let browser = Trust::Roots(vec![public.certificate().clone()]);
    assert!(shake(&server, config(&browser, None), "punctual.example").is_ok());
    let peer = Trust::Cluster(roots(&ours), ServerCheck::Id("s1".to_owned()));
    assert!(shake(&server, config(&peer, None), CLUSTER_SERVER_NAME).is_ok());
    assert!(shake(&server, config(&peer, None), "punctual.example").is_err());
}

#[test]
fn a_broken_file_is_reported_once_and_the_next_good_one_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let ours = authority();
    let write = |key_of_other: bool| {
        let (one, two) = (LeafKey::generate().unwrap(), LeafKey::generate().unwrap());
        let leaf = ours.issue(server_request("s1", &["localhost"]), &one.public_key(), now()).unwrap();
        fs::write(path("cert"), to_pem(&leaf.chain[0])).unwrap();
        fs::write(path("key"), key_pem(if key_of_other { &two } else { &one })).unwrap();
    };
    let mut files = CertificateFiles::new(path("cert"), path("key"), |_, _| None);
    assert!(matches!(files.look(now()), Reload::Broken(PkiError::Unreadable { .. })));
    assert!(matches!(files.look(now()), Reload::Unchanged), "said once");
    write(false);
    assert!(matches!(files.look(now()), Reload::New(_)));
    assert!(matches!(files.look(now()), Reload::Unchanged));
    write(true);
    assert!(matches!(files.look(now()), Reload::Broken(PkiError::KeyMismatch)));
    assert!(matches!(files.look(now()), Reload::Unchanged));
    fs::write(path("cert"), "nonsense").unwrap();
    assert!(matches!(files.look(now()), Reload::Broken(PkiError::NoCertificate)));
    fs::write(path("cert"), vec![b'x'; 2 << 20]).unwrap();
    assert!(matches!(files.look(now()), Reload::Broken(PkiError::TooLarge { .. })));
    write(false);
    assert!(matches!(files.look(now()), Reload::New(_)));
}

fn key_pem(key: &LeafKey) -> String {
    use base64::Engine;
    let text = base64::prelude::BASE64_STANDARD.encode(key.secret().as_pkcs8());
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

#[test]
fn an_authority_opens_with_its_own_key_alone() {
    let ours = authority();
    let open = |key: &punctual_pki::SecretKey| Authority::open(cluster(), 1, ours.certificate().clone(), key);
    let again = open(&ours.secret()).unwrap();
    let leaf = again.issue_with_key(server_request("s1", &["localhost"]), now()).unwrap();
    let server = server_with(&ours, leaf, None);
    assert!(shake(&server, config(&Trust::Roots(vec![ours.certificate().clone()]), None), "localhost").is_ok());
    assert!(matches!(open(&authority().secret()), Err(PkiError::KeyMismatch)));
    let secret = format!("{:?} {ours:?}", ours.secret());
    assert_eq!(secret.matches("SecretKey").count(), 1);
    assert!(secret.len() < 200, "no key in it: {secret}");
}

#[test]
fn names_that_are_no_hosts_are_refused() {
    let ours = authority();
    for host in ["", "a b", "exa mple.com", "http://x", "x:1", "*", "-"] {
        let made = ours.issue_with_key(server_request("s1", &[host]), now());
        assert!(matches!(made, Err(PkiError::BadHost(_))), "{host}: {made:?}");
    }
}
