//! Clients that speak something else than they should. The server refuses them and goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_pki::rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use punctual_pki::{
    Authority, CertificateName, ClientTls, ClusterName, Credentials, LeafKey, LeafRequest, OwnCertificate, Trust,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::{GET, ask, client, config, connect, shake, trust_of};
use crate::harness::{Home, Server};

fn start(home: &Home) -> Server {
    home.server_at("127.0.0.1:0", &["--tls", "cluster"])
}

async fn serves(server: &Server, trust: &Trust) {
    client(server, trust).server().await.expect("it answers others as before");
}

#[tokio::test]
async fn plain_http_is_told_to_use_tls() {
    let home = Home::new();
    let server = start(&home);
    for request in
        [GET, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{", "PRI * HTTP/2.0\r\n"]
    {
        let answer = ask(&mut connect(&server).await, request).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains("\"code\":\"tls_required\"") && answer.contains("https://"), "{answer}");
    }
    for noise in ["\r\n\r\n", "\u{1}\u{2}\u{3}", "ssh-2.0"] {
        assert_eq!(ask(&mut connect(&server).await, noise).await, "");
    }
    serves(&server, &trust_of(&home)).await;
}

/// A ClientHello that offers this version alone, without extensions.
fn old_hello(minor: u8) -> Vec<u8> {
    let mut hello = vec![3, minor];
    hello.extend([7; 32]);
    // No session, two suites of CBC, no compression.
    hello.extend([0, 0, 4, 0xc0, 0x14, 0x00, 0x35, 1, 0]);
    let len = hello.len() as u16;
    let mut record = vec![0x16, 3, 1];
    record.extend((len + 4).to_be_bytes());
    record.extend([1, 0]);
    record.extend(len.to_be_bytes());
    record.extend(hello);
    record
}

#[tokio::test]
async fn versions_before_tls_1_2_are_refused_with_an_alert() {
    const ALERT: u8 = 0x15;
    let home = Home::new();
    let server = start(&home);
    for minor in [0, 1, 2] {
        let mut stream = connect(&server).await;
        stream.write_all(&old_hello(minor)).await.unwrap();
        let mut answer = Vec::new();
        timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("it is closed").unwrap();
        assert_eq!(answer.first(), Some(&ALERT), "3.{minor}: {answer:?}");
    }
    serves(&server, &trust_of(&home)).await;
}

#[tokio::test]
async fn without_alpn_http_1_is_spoken_and_unknown_protocols_are_refused() {
    let home = Home::new();
    let server = start(&home);
    let trust = trust_of(&home);
    let mut stream = shake(&server, config(&trust, &[]), "localhost").await.expect("ALPN is no duty");
    let answer = ask(&mut stream, GET).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(shake(&server, config(&trust, &[b"spdy/3"]), "localhost").await.is_err());
}

#[tokio::test]
async fn names_that_are_not_the_servers_are_refused_by_both_ends() {
    let home = Home::new();
    let server = home.server_at("127.0.0.1:0", &["--tls", "cluster", "--public-hosts", "punctual.example"]);
    let trust = trust_of(&home);
    let refused = shake(&server, config(&trust, &[]), "other.example").await.unwrap_err();
    let explained = punctual_pki::explain(&refused).expect("TLS is the reason").to_string();
    assert!(explained.contains("not for other.example") && explained.contains("public_hosts"), "{explained}");
    let answer = async |host: &str| {
        let mut stream =
            shake(&server, config(&trust, &[]), "punctual.example").await.expect("it is in the certificate");
        ask(&mut stream, &GET.replace("localhost", host)).await
    };
    assert!(answer("punctual.example").await.starts_with("HTTP/1.1 200 "));
    for host in ["evil.example", "10.0.0.1", "punctual.example.evil.example"] {
        let answer = answer(host).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("forbidden_host"), "{host}: {answer}");
    }
}

/// What the server says to a client that shows this certificate, or nothing.
async fn presenting(server: &Server, trust: &Trust, own: Credentials) -> String {
    let tls = ClientTls::new(trust, Some(OwnCertificate::new(own)), &[]).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = connect(server).await;
    match tokio_rustls::TlsConnector::from(tls.config()).connect(name, stream).await {
        // With TLS 1.3 the client has finished before the server has looked at its certificate.
        Ok(mut stream) => ask(&mut stream, GET).await,
        Err(_) => String::new(),
    }
}

#[tokio::test]
async fn client_certificates_of_others_are_refused() {
    let home = Home::new();
    let server = start(&home);
    let trust = trust_of(&home);
    let now = super::renewal::now();
    let foreign = Authority::make(ClusterName::new("other").unwrap(), 1, now).unwrap();
    let issue = |name: CertificateName| {
        let lifetime = punctual_core::Span::from_secs(3600);
        foreign.issue_with_key(LeafRequest { name, hosts: Vec::new(), lifetime }, now).unwrap()
    };
    let cluster = foreign.cluster().clone();
    let worker = issue(CertificateName::worker(cluster.clone(), "w1", None).unwrap());
    let posing = issue(CertificateName::server(cluster, "s1").unwrap());
    assert_eq!(presenting(&server, &trust, worker).await, "");
    assert_eq!(presenting(&server, &trust, posing).await, "");
    // Larger than any message of a handshake may be.
    let key = LeafKey::generate().unwrap();
    let name = CertificateName::worker(foreign.cluster().clone(), "w1", None).unwrap();
    let request = LeafRequest { name, hosts: Vec::new(), lifetime: punctual_core::Span::from_secs(3600) };
    let mut chain = foreign.issue(request, &key.public_key(), now).unwrap().chain;
    chain.extend(vec![foreign.certificate().clone(); 400]);
    let secret = PrivatePkcs8KeyDer::from(key.secret().as_pkcs8().to_vec());
    let huge = Credentials::new(chain, secret.into(), now).unwrap();
    assert_eq!(presenting(&server, &trust, huge).await, "");
    serves(&server, &trust).await;
}

#[tokio::test]
async fn handshakes_that_never_end_hold_up_nobody_for_long() {
    let home = Home::new();
    let server = start(&home);
    let trust = trust_of(&home);
    let mut open = Vec::new();
    // More than may be under way at once.
    for _ in 0..600 {
        let mut stream = connect(&server).await;
        stream.write_all(&[0x16, 3, 1]).await.unwrap();
        open.push(stream);
    }
    let begun = Instant::now();
    let tls = config(&trust, &[]);
    let answered = timeout(Duration::from_secs(30), async {
        loop {
            if let Ok(mut stream) = shake(&server, Arc::clone(&tls), "localhost").await
                && ask(&mut stream, GET).await.starts_with("HTTP/1.1 200 ")
            {
                return;
            }
        }
    });
    answered.await.expect("the others are given up");
    let limit = Duration::from_secs(30).saturating_sub(begun.elapsed());
    for stream in &mut open {
        let mut byte = [0];
        let ended = timeout(limit, stream.read(&mut byte)).await.expect("it is closed");
        assert!(!matches!(ended, Ok(1)) || byte[0] == 0x15, "nothing but an alert is sent");
    }
}
