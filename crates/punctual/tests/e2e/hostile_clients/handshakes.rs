//! Connections that get no further than their handshake.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;
use punctual_core::{Span, Timestamp};
use punctual_pki::rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use punctual_pki::{
    Authority, CertificateName, ClientTls, ClusterName, Credentials, LeafKey, LeafRequest, OwnCertificate,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::{PROXY, Stage};
use crate::harness::eventually;
use crate::tls::renewal::now;
use crate::tls::{GET, ask, config, shake};

/// What may come back at most: nothing, an alert of TLS, or the refusal of plain HTTP.
fn is_refused(answer: &[u8]) -> bool {
    const ALERT: u8 = 0x15;
    let is_plain_refusal = || {
        let text = String::from_utf8_lossy(answer);
        text.starts_with("HTTP/1.1 400 ") && text.contains("\"code\":\"tls_required\"")
    };
    answer.is_empty() || answer[0] == ALERT || is_plain_refusal()
}

/// A ClientHello without extensions that offers one version and these suites.
fn hello(version: u16, suites: &[u16]) -> Vec<u8> {
    let mut hello = version.to_be_bytes().to_vec();
    hello.extend([7; 32]);
    hello.push(0);
    hello.extend((suites.len() as u16 * 2).to_be_bytes());
    suites.iter().for_each(|suite| hello.extend(suite.to_be_bytes()));
    hello.extend([1, 0]);
    let len = hello.len() as u16;
    let mut record = vec![0x16, 3, 1];
    record.extend((len + 4).to_be_bytes());
    record.extend([1, 0]);
    record.extend(len.to_be_bytes());
    record.extend(hello);
    record
}

/// What is sent in the clear to a port that speaks TLS.
fn in_the_clear() -> Vec<(String, Vec<u8>)> {
    let mut cases = Vec::new();
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"] {
        for version in ["HTTP/1.1", "HTTP/1.0"] {
            let request = format!("{method} /v1/jobs {version}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            cases.push((format!("plain {method} with {version}"), request.into_bytes()));
        }
    }
    for (what, bytes) in [
        ("HTTP/2 with prior knowledge", &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..]),
        (
            "an upgrade to h2c",
            b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        ),
        ("a credential in the clear", b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n"),
        ("a line without end", b"GET /v1/jobs"),
        ("HTTP/0.9", b"GET /v1/jobs\r\n"),
        ("a proxy's preamble", b"PROXY TCP4 192.0.2.1 127.0.0.1 1 8020\r\nGET / HTTP/1.1\r\n\r\n"),
        ("a proxy's binary preamble", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"),
        ("ssh", b"SSH-2.0-OpenSSH_9.6\r\n"),
        ("SMTP", b"EHLO example.com\r\n"),
        ("STARTTLS", b"STARTTLS\r\n"),
        ("PostgreSQL", b"\0\0\0\x08\x04\xd2\x16\x2f"),
        ("line breaks", b"\r\n\r\n"),
        ("zeros", &[0; 64]),
        ("a hello of SSL 2", b"\x80\x2e\x01\0\x02\0\x15\0\0\0\x10\x01\0\x80\x02\0\x80\x03\0\x80\x04\0\x80\x05\0\x80"),
    ] {
        cases.push((what.to_owned(), bytes.to_vec()));
    }
    cases
}

/// Records of TLS that are none, or that no version in use sends.
fn broken_records() -> Vec<(String, Vec<u8>)> {
    let mut cases = Vec::new();
    let suites: [(&str, &[u16]); 5] = [
        ("CBC", &[0xc014, 0x0035]),
        ("RC4", &[0x0005, 0xc011]),
        ("no encryption", &[0x0000, 0x0002]),
        ("keys for export", &[0x0003, 0x0008]),
        ("anonymous servers", &[0x0034, 0xc018]),
    ];
    for (version, name) in [(0x0300, "SSL 3"), (0x0301, "TLS 1.0"), (0x0302, "TLS 1.1"), (0x0303, "TLS 1.2")] {
        for (what, suites) in suites {
            cases.push((format!("{name} with {what}"), hello(version, suites)));
        }
    }
    let good = hello(0x0303, &[0xc02b]);
    let with = |place: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[place] = byte;
        bytes
    };
    cases.extend([
        ("TLS 1.2 without extensions".to_owned(), good.clone()),
        ("a version of the future".to_owned(), hello(0x0404, &[0x1301])),
        ("no suites".to_owned(), hello(0x0303, &[])),
        ("a hello of another length".to_owned(), with(8, 0xff)),
        ("a record of the greatest length".to_owned(), [&[0x16, 3, 3, 0xff, 0xff][..], &[0; 100]].concat()),
        ("an empty record".to_owned(), vec![0x16, 3, 3, 0, 0, 0x16, 3, 3, 0, 0]),
        ("the server's hello".to_owned(), with(5, 2)),
        ("the end of a handshake".to_owned(), with(5, 20)),
        ("a key exchange first".to_owned(), with(5, 16)),
        ("data after the first byte".to_owned(), [&[0x16][..], GET.as_bytes()].concat()),
        ("a message of 16 MiB".to_owned(), [&[0x16, 3, 3, 0, 4, 1, 0xff, 0xff, 0xff][..], &[0; 16]].concat()),
        ("data in the place of a handshake".to_owned(), [&good[..], &[0x17, 3, 3, 0, 5], b"hello"].concat()),
    ]);
    cases
}

/// Sends the bytes, and closes its half if the server is to see the end.
async fn spoken(stage: &Stage, bytes: &[u8], closes: bool) -> Vec<u8> {
    let mut stream = stage.connect(PROXY).await;
    let _ = stream.write_all(bytes).await;
    if closes {
        let _ = stream.shutdown().await;
    }
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(40), stream.read_to_end(&mut answer)).await;
    let _ = read.expect("the server ends it");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_in_who_does_not_speak_tls_as_it_is_now() {
    let stage = Stage::new(&[]);
    let cases: Vec<(String, Vec<u8>)> = [in_the_clear(), broken_records()].concat();
    assert!(cases.len() >= 60, "{}", cases.len());
    // Half of a handshake is closed by its time limit, so that many are tried at a time.
    let half =
        (1..=8).map(|part| (format!("{part}0 bytes of a hello"), hello(0x0303, &[0xc02b])[..part * 5].to_vec(), false));
    let all = cases.into_iter().map(|(what, bytes)| (what, bytes, true)).chain(half);
    let stage_of_all = &stage;
    let answers = stream::iter(
        all.map(|(what, bytes, closes)| async move { (what, spoken(stage_of_all, &bytes, closes).await) }),
    );
    let answers: Vec<(String, Vec<u8>)> = answers.buffer_unordered(32).collect().await;
    for (what, answer) in &answers {
        assert!(is_refused(answer), "{what}: {}", String::from_utf8_lossy(answer));
    }
    eventually("the refusals are in the log", || async {
        let log = stage.log();
        log.contains("a TLS handshake failed") && log.contains("a client without TLS is refused")
    })
    .await;
    stage.client(None).server().await.expect("it answers others as before");
}

/// What the server says to a client that shows this certificate; empty if nothing.
async fn presenting(stage: &Stage, own: Credentials) -> String {
    let tls = ClientTls::new(&stage.trust, Some(OwnCertificate::new(own)), &[]).expect("a configuration");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = stage.connect(PROXY).await;
    match tokio_rustls::TlsConnector::from(tls.config()).connect(name, stream).await {
        Ok(mut stream) => ask(&mut stream, GET).await,
        Err(_) => String::new(),
    }
}

/// A certificate by an authority of somebody else.
fn issued(cluster: &ClusterName, name: CertificateName, at: Timestamp, copies: usize) -> Credentials {
    let authority = Authority::make(cluster.clone(), 1, at).expect("an authority");
    let key = LeafKey::generate().expect("a key");
    let request = LeafRequest { name, hosts: Vec::new(), lifetime: Span::from_secs(3600) };
    let mut chain = authority.issue(request, &key.public_key(), at).expect("a certificate").chain;
    chain.truncate(1);
    chain.extend(vec![authority.certificate().clone(); copies]);
    let secret = PrivatePkcs8KeyDer::from(key.secret().as_pkcs8().to_vec());
    Credentials::new(chain, secret.into(), at).expect("it fits its key")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_certificate_of_another_authority_counts_whatever_it_says() {
    let stage = Stage::new(&[]);
    let ours = stage.client(None).authority().await.expect("the authority").cluster;
    let (now, day) = (now(), Span::from_secs(86_400));
    let mut tried = 0;
    for cluster in ["other", ours.as_str()] {
        let cluster = ClusterName::new(cluster).expect("a name");
        let worker = |id: &str| CertificateName::worker(cluster.clone(), id, None).expect("a name");
        let server = CertificateName::server(cluster.clone(), "s1").expect("a name");
        let enrolment = "enrolment_01m7et433kee4803yssgvaf2fh";
        for (what, name) in
            [("a worker", worker("w1")), ("a worker with the form of an id", worker(enrolment)), ("a server", server)]
        {
            for (when, at) in [("now", now), ("ten days ago", now - day - day), ("in ten days", now + day + day)] {
                for (length, copies) in [("its authority", 1), ("nothing", 0), ("400 certificates", 400)] {
                    let answer = presenting(&stage, issued(&cluster, name.clone(), at, copies)).await;
                    assert_eq!(answer, "", "{what} of {cluster} from {when}, with {length} in its chain");
                    tried += 1;
                }
            }
        }
    }
    assert_eq!(tried, 54);
    eventually("the refusals are in the log", || async { stage.log().contains("a TLS handshake failed") }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_protocols_that_are_not_the_servers_are_refused() {
    let stage = Stage::new(&[]);
    for name in ["other.example", "example", "punctual.example.evil.example", "evil.punctual.example", "10.0.0.1"] {
        let refused = shake(&stage.server, config(&stage.trust, &[]), name).await;
        assert!(refused.is_err(), "the client refuses {name}");
    }
    for protocol in [&b"spdy/3"[..], b"h3", b"acme-tls/1", b"http/0.9", b"smtp"] {
        let refused = shake(&stage.server, config(&stage.trust, &[protocol]), "localhost").await;
        assert!(refused.is_err(), "{}", String::from_utf8_lossy(protocol));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_stop_halfway_end_in_time_and_hold_up_nobody() {
    let stage = Arc::new(Stage::new(&[]));
    let begun = Instant::now();
    let half: Vec<_> = (0..300)
        .map(|number| {
            let stage = Arc::clone(&stage);
            tokio::spawn(async move { spoken(&stage, &hello(0x0303, &[0xc02b])[..5 + number % 30], false).await })
        })
        .collect();
    for _ in 0..5 {
        stage.client(None).server().await.expect("others are answered meanwhile");
    }
    for one in half {
        assert!(is_refused(&one.await.expect("no panic")));
    }
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
}
