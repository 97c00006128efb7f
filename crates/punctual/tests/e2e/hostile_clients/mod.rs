//! Clients that are let in nowhere: more than two hundred of them, over TLS and with credentials that do not count. None gets
//! an answer that says anything about what is stored, and each refusal is on record.

mod every_route;
mod handshakes;
mod insiders;
mod requests;

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use punctual_api::{KeyRequest, LoginRequest, SecretText, UserRequest};
use punctual_client::Client;
use punctual_core::Span;
use punctual_pki::Trust;
use punctual_pki::rustls::ClientConfig;
use punctual_pki::rustls::pki_types::ServerName;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{Home, Server, eventually};
use crate::tls::{ask, config, port, trust_of};

const PASSWORD: &str = "correct horse battery staple";

/// A proxy's address: the kernel's word for whoever connects from there counts for nothing, so a credential is needed.
const PROXY: &str = "127.0.0.1";
/// An address of this machine that is no proxy's.
const STRANGER: &str = "127.0.0.9";

/// A server with TLS that believes nobody by the kernel's word.
struct Stage {
    home: Home,
    server: Server,
    trust: Trust,
    tls: Arc<ClientConfig>,
    token: String,
}

impl Stage {
    fn new(flags: &[&str]) -> Self {
        let home = Home::new();
        let usual = ["-v", "--tls", "cluster", "--proxies", PROXY, "--public-hosts", "punctual.example"];
        let log = File::create(home.file("server.log")).expect("a log");
        let server = home.server_logging("127.0.0.1:0", &[&usual[..], flags].concat(), &[], log);
        let trust = trust_of(&home);
        let tls = config(&trust, &[]);
        let token = std::fs::read_to_string(home.file("data/token")).expect("the access token");
        Self { home, server, trust, tls, token: token.trim().to_owned() }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.file("server.log")).expect("the log")
    }

    /// A client with a credential; the access token's if there is none.
    fn client(&self, credential: Option<&str>) -> Client {
        let credential = credential.unwrap_or(&self.token).to_owned();
        let client = Client::new(&self.server.url).expect("the address is a URL");
        let client = client.with_tls(config(&self.trust, &[b"http/1.1"]).as_ref().clone()).expect("TLS is set up");
        client.with_tokens(move |_| Some(credential.clone())).with_repeat_budget(Duration::ZERO)
    }

    async fn connect(&self, from: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::new(from.parse().expect("an address"), 0)).expect("an address of this machine");
        let server = SocketAddr::from(([127, 0, 0, 1], port(&self.server)));
        socket.connect(server).await.expect("the server listens")
    }

    async fn shake(&self, from: &str) -> TlsStream<TcpStream> {
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = self.connect(from).await;
        TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await.expect("the handshake goes well")
    }

    /// What the server answers to these bytes, over TLS.
    async fn answer(&self, from: &str, request: &str) -> Answer {
        let text = ask(&mut self.shake(from).await, request).await;
        let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let code = text.split_once("\"code\":\"").and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_owned()));
        Answer { status, code: code.unwrap_or_default(), text }
    }
}

#[derive(Debug)]
struct Answer {
    /// `None` if the connection was closed without one.
    status: Option<u16>,
    code: String,
    text: String,
}

/// Credentials that counted once, or never did.
struct Refused {
    /// What each is called, its text, and the code of its refusal.
    all: Vec<(&'static str, String, &'static str)>,
    /// A key that counts, with every right.
    good: String,
}

impl Refused {
    async fn make(stage: &Stage) -> Self {
        let admin = stage.client(None);
        let key = async |name: &str, expires_in: Option<Span>| {
            let role = Some("admin".to_owned());
            let request = KeyRequest { name: name.to_owned(), role, expires_in, ..KeyRequest::default() };
            admin.create_key(&request).await.expect("a key").secret.0
        };
        let (good, revoked) = (key("good", None).await, key("revoked", None).await);
        let expired = key("expired", Some(Span::from_secs(1))).await;
        admin.revoke_key("revoked").await.expect("it is revoked");
        let session = async |name: &str| {
            let password = SecretText(PASSWORD.to_owned());
            let user = UserRequest {
                name: name.to_owned(),
                role: Some("admin".to_owned()),
                namespace_roles: Default::default(),
                password: Some(password.clone()),
                mail: None,
            };
            admin.create_user(&user).await.expect("a user");
            admin.login(&LoginRequest { name: name.to_owned(), password }).await.expect("a session").token.0
        };
        let (ended, gone) = (session("ended").await, session("gone").await);
        stage.client(Some(&ended)).end_session("current").await.expect("it ends");
        admin.delete_user("gone").await.expect("the user is deleted");
        let expired_client = stage.client(Some(&expired));
        eventually("the key expires", || async { expired_client.whoami().await.is_err() }).await;
        let other = Home::new();
        let elsewhere = other.server();
        let role = Some("admin".to_owned());
        let request = KeyRequest { name: "foreign".to_owned(), role, ..KeyRequest::default() };
        let foreign_key = elsewhere.client().create_key(&request).await.expect("a key").secret.0;
        let foreign_token = std::fs::read_to_string(other.file("data/token")).expect("a token").trim().to_owned();
        let swapped = |text: &str, place: usize| {
            let mut text = text.to_owned();
            let digit = if text[place..].starts_with('0') { "1" } else { "0" };
            text.replace_range(place..=place, digit);
            text
        };
        let (token, end) = (&stage.token, good.len() - 1);
        let all = vec![
            ("an expired key", expired, "credential_expired"),
            ("a revoked key", revoked, "credential_revoked"),
            ("a session that ended", ended, "credential_revoked"),
            ("a session of a deleted user", gone, "credential_revoked"),
            ("a key of another cluster", foreign_key, "invalid_token"),
            ("the access token of another cluster", foreign_token, "invalid_token"),
            ("nothing after Bearer", String::new(), "invalid_token"),
            ("a word", "nonsense".to_owned(), "invalid_token"),
            ("the prefix alone", "punctual_".to_owned(), "invalid_token"),
            ("the prefix of a key", "punctual_key_".to_owned(), "invalid_token"),
            ("the access token without its end", token[..token.len() - 1].to_owned(), "invalid_token"),
            ("the access token and more", format!("{token}0"), "invalid_token"),
            ("the access token in capitals", token.to_uppercase(), "invalid_token"),
            ("the access token with its first digit changed", swapped(token, 9), "invalid_token"),
            ("the access token with its last digit changed", swapped(token, token.len() - 1), "invalid_token"),
            ("a key with another checksum", swapped(&good, end), "invalid_token"),
            ("a key with another secret", with_checksum(&swapped(&good, 40)), "invalid_token"),
            ("a key with another id", with_checksum(&swapped(&good, 14)), "invalid_token"),
            ("a key that says that it is a session", good.replace("_key_", "_session_"), "invalid_token"),
            (
                "a key of zeros",
                with_checksum(&format!("punctual_key_{}_{}_", "0".repeat(16), "0".repeat(64))),
                "invalid_token",
            ),
            ("a long text", "x".repeat(8000), "invalid_token"),
        ];
        Self { all, good }
    }
}

/// The text with the checksum of its form, which everybody can compute.
fn with_checksum(text: &str) -> String {
    let body = text.rsplit_once('_').expect("a checksum comes last").0;
    let digest = ring::digest::digest(&ring::digest::SHA256, body.as_bytes());
    let digits: String = digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{body}_{digits}")
}
