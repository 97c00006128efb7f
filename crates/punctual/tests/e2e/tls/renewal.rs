//! Certificates from files, renewed while the server is busy.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use punctual_core::{Span, Timestamp};
use punctual_pki::{Authority, CertificateFacts, CertificateName, ClusterName, LeafKey, LeafRequest, Trust, to_pem};

use super::{GET, ask, config, path, punctual, said, shake};
use crate::harness::{Home, Server, eventually};

#[expect(clippy::disallowed_methods, reason = "certificates are compared with the real clock")]
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    Timestamp::from_micros(since.as_micros() as i64).expect("a time")
}

/// An authority of somebody else, and the files that it renews.
pub(crate) struct Files {
    authority: Authority,
    pub(crate) home: Home,
}

impl Files {
    pub(crate) fn new() -> Self {
        let cluster = ClusterName::new("elsewhere").expect("a name");
        let files = Self { authority: Authority::make(cluster, 1, now()).expect("an authority"), home: Home::new() };
        files.renew();
        files
    }

    /// The serial number of the new certificate.
    pub(crate) fn renew(&self) -> String {
        let key = LeafKey::generate().expect("a key");
        let name = CertificateName::server(self.authority.cluster().clone(), "x").expect("a name");
        let request = LeafRequest {
            name,
            hosts: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
            lifetime: Span::from_secs(86_400),
        };
        let leaf = self.authority.issue(request, &key.public_key(), now()).expect("a certificate");
        let encoded = BASE64_STANDARD.encode(key.secret().as_pkcs8());
        let key = self.home.file("key");
        // As whoever renews keys does: nobody else can read it at any moment.
        let draft = self.home.file("key.new");
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&draft).expect("a file");
        write!(file, "-----BEGIN PRIVATE KEY-----\n{encoded}\n-----END PRIVATE KEY-----\n")
            .expect("the key is written");
        fs::rename(draft, key).expect("the key is in its place");
        let chain: String = leaf.chain.iter().map(to_pem).collect();
        fs::write(self.home.file("cert"), chain).expect("the certificate is written");
        leaf.name.serial
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::Roots(vec![self.authority.certificate().clone()])
    }
}

pub(crate) async fn serial_shown(server: &Server, trust: &Trust) -> String {
    let stream = shake(server, config(trust, &[]), "localhost").await.expect("the certificate is trusted");
    let certificates = stream.get_ref().1.peer_certificates().expect("it shows one");
    CertificateFacts::read(&certificates[0]).expect("a certificate").serial
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_renewed_under_load_and_broken_ones_are_left_out() {
    let files = Files::new();
    let flags = ["--tls", "files", "--tls-cert", "cert", "--tls-key", "key"];
    let log = files.home.file("server.log");
    let server =
        Arc::new(files.home.server_logging("127.0.0.1:0", &flags, &[], fs::File::create(&log).expect("a log")));
    let trust = files.trust();
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for _ in 0..4 {
        let (server, trust) = (Arc::clone(&server), trust.clone());
        let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
        clients.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                // Each with a handshake of its own.
                let mut stream = shake(&server, config(&trust, &[]), "localhost").await.expect("no handshake fails");
                let answer = ask(&mut stream, GET).await;
                assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for _ in 0..2 {
        let serial = files.renew();
        eventually("the new certificate is shown", async || serial_shown(&server, &trust).await == serial).await;
    }
    let kept = serial_shown(&server, &trust).await;
    fs::write(files.home.file("cert"), "nonsense").expect("the file is broken");
    let complaints = || fs::read_to_string(&log).expect("a log").matches("the old one stays in use").count();
    eventually("the broken file is reported", async || complaints() > 0).await;
    assert_eq!(serial_shown(&server, &trust).await, kept);
    let serial = files.renew();
    eventually("the next good one is shown", async || serial_shown(&server, &trust).await == serial).await;
    assert_eq!(complaints(), 1, "once for each content");
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no request failed");
    }
    assert!(answered.load(Ordering::Relaxed) > 20);
}

#[test]
fn files_that_cannot_be_used_are_refused_at_the_start() {
    let files = Files::new();
    let refused = |cert: &str, key: &str, expected: &str| {
        let (cert, key) = (files.home.file(cert), files.home.file(key));
        let arguments = ["server", "--listen", "127.0.0.1:0", "--data-dir", "data", "--tls", "files"];
        let names = ["--tls-cert", path(&cert), "--tls-key", path(&key)];
        let output = punctual(&files.home, &[&arguments[..], &names].concat());
        assert!(output.status.code() == Some(1) && said(&output).contains(expected), "{}", said(&output));
    };
    refused("missing", "key", "cannot read");
    refused("key", "key", "no certificate in it");
    fs::copy(files.home.file("cert"), files.home.file("no-key")).expect("a copy");
    fs::set_permissions(files.home.file("no-key"), Permissions::from_mode(0o600)).expect("it is closed");
    refused("cert", "no-key", "no usable private key");
    fs::copy(files.home.file("key"), files.home.file("other-key")).expect("a copy");
    files.renew();
    refused("cert", "other-key", "does not belong to the certificate");
    fs::set_permissions(files.home.file("key"), Permissions::from_mode(0o640)).expect("it is opened");
    refused("cert", "key", "others can read or change it (mode 0640); close it with chmod 600");
}
