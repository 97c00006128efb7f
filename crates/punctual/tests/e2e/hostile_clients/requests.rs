//! Requests over TLS with credentials, origins, hosts and addresses that do not count.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use punctual_api::{AuditQuery, LoginRequest, SecretText, UserRequest};

use super::{Answer, PASSWORD, PROXY, Refused, STRANGER, Stage};
use crate::harness::eventually;

/// Routes that show something, change something, and give rights.
const ROUTES: [(&str, &str, &str); 5] = [
    ("GET", "/v1/jobs", "list_jobs"),
    ("POST", "/v1/jobs", "create_job"),
    ("GET", "/v1/audit/export", "export_audit"),
    ("PUT", "/v1/secrets/planted", "set_secret"),
    ("POST", "/v1/keys", "create_key"),
];

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text.push_str("Host: localhost\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let body = if method == "GET" { "" } else { "{}" };
    if !body.is_empty() {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    format!("{text}\r\n{body}")
}

/// What was tried, counted by what should be on record of it.
#[derive(Default)]
struct Tried {
    count: usize,
    expected: BTreeMap<(String, String), usize>,
}

impl Tried {
    #[track_caller]
    fn refused(&mut self, what: &str, answer: &Answer, status: u16, code: &str, action: &str) {
        assert_eq!((answer.status, answer.code.as_str()), (Some(status), code), "{what}: {}", answer.text);
        self.count += 1;
        *self.expected.entry((action.to_owned(), code.to_owned())).or_default() += 1;
    }

    /// The first five refusals of a kind in a minute have a line each.
    async fn are_on_record(&self, stage: &Stage) {
        let admin = stage.client(None);
        for ((action, code), count) in &self.expected {
            let query =
                AuditQuery { action: Some(action.clone()), outcome: Some(code.clone()), ..AuditQuery::default() };
            eventually(&format!("{code} of {action} is on record"), || async {
                let lines = admin.audit(&query).await.expect("the audit log").entries;
                assert!(lines.iter().all(|entry| entry.line.principal == "nobody"), "{lines:?}");
                lines.len() >= (*count).min(5)
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_credential_that_does_not_count_opens_anything() {
    let stage = Stage::new(&[]);
    let refused = Refused::make(&stage).await;
    let mut tried = Tried::default();
    for (method, path, action) in ROUTES {
        for (what, credential, code) in &refused.all {
            let bearer = format!("Bearer {credential}");
            let answer = stage.answer(PROXY, &request(method, path, &[("Authorization", &bearer)])).await;
            tried.refused(&format!("{what}: {method} {path}"), &answer, 401, code, action);
        }
        // Good credentials at places where none belongs.
        let good = &refused.good;
        let basic = base64_of(&format!("admin:{good}"));
        let cookie = format!("session={good}; token={good}; Authorization=Bearer {good}");
        let query = format!("{path}?token={good}");
        let elsewhere = [
            ("no credential", path, vec![]),
            ("Basic", path, vec![("Authorization", format!("Basic {basic}"))]),
            ("a scheme of its own", path, vec![("Authorization", format!("Token {good}"))]),
            ("no scheme", path, vec![("Authorization", good.clone())]),
            ("a cookie", path, vec![("Cookie", cookie)]),
            ("X-Api-Key", path, vec![("X-Api-Key", good.clone())]),
            (
                "a user of a proxy",
                path,
                vec![("X-Forwarded-User", "admin".to_owned()), ("X-Remote-User", "root".to_owned())],
            ),
            ("a proxy's credential", path, vec![("Proxy-Authorization", format!("Bearer {good}"))]),
            ("the query", query.as_str(), vec![]),
        ];
        for (what, path, headers) in elsewhere {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let answer = stage.answer(PROXY, &request(method, path, &headers)).await;
            assert_eq!(answer.status, Some(401), "{what}: {method} {path}: {}", answer.text);
            tried.refused(&format!("{what}: {method} {path}"), &answer, 401, &answer.code, action);
        }
    }
    assert!(tried.count >= 140, "{}", tried.count);
    tried.are_on_record(&stage).await;
    let admin = stage.client(None);
    assert!(admin.secrets().await.expect("the secrets").secrets.is_empty(), "nothing was changed");
    assert!(!admin.keys().await.expect("the keys").keys.iter().any(|key| key.name.is_empty()));
    let good = request("GET", "/v1/jobs", &[("Authorization", &format!("Bearer {}", refused.good))]);
    assert_eq!(stage.answer(PROXY, &good).await.status, Some(200), "the key itself counts");
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_are_refused_whatever_credential_they_have() {
    let stage = Stage::new(&[]);
    let bearer = format!("Bearer {}", stage.token);
    let mut tried = Tried::default();
    let port = crate::tls::port(&stage.server);
    let here = format!("localhost:{port}");
    let origins = [
        "https://evil.example".to_owned(),
        "http://localhost".to_owned(),
        format!("http://localhost:{port}"),
        "https://localhost".to_owned(),
        format!("https://localhost:{port}.evil.example"),
        "https://punctual.example.evil.example".to_owned(),
        "https://evil.example/#https://localhost".to_owned(),
        "null".to_owned(),
        "file://".to_owned(),
        "chrome-extension://abcdefgh".to_owned(),
        String::new(),
    ];
    for (method, path, action) in ROUTES {
        for origin in &origins {
            let headers = [("Host", here.as_str()), ("Authorization", bearer.as_str()), ("Origin", origin.as_str())];
            let answer = stage.answer(PROXY, &request(method, path, &headers)).await;
            tried.refused(&format!("{origin}: {method} {path}"), &answer, 403, "forbidden_origin", action);
        }
        for site in ["cross-site", "same-site", "nonsense"] {
            let headers = [("Authorization", bearer.as_str()), ("Sec-Fetch-Site", site)];
            let answer = stage.answer(PROXY, &request(method, path, &headers)).await;
            tried.refused(&format!("{site}: {method} {path}"), &answer, 403, "forbidden_origin", action);
        }
    }
    // A login of a foreign page would be the first half of a fixed session.
    let login = request("POST", "/v1/sessions", &[("Origin", "https://evil.example")]);
    tried.refused("a login", &stage.answer(PROXY, &login).await, 403, "forbidden_origin", "login");
    for host in ["evil.example", "10.0.0.1", "punctual.example.evil.example", "localhost.evil.example", "", "a b"] {
        let answer =
            stage.answer(PROXY, &request("GET", "/v1/jobs", &[("Host", host), ("Authorization", &bearer)])).await;
        if answer.status == Some(400) {
            // Hyper refuses what is no host at all.
            continue;
        }
        tried.refused(&format!("the host {host}"), &answer, 403, "forbidden_host", "list_jobs");
    }
    assert!(tried.count >= 70, "{}", tried.count);
    tried.are_on_record(&stage).await;
    let own = format!("https://localhost:{port}");
    let host = format!("localhost:{port}");
    let headers = [("Authorization", bearer.as_str()), ("Host", host.as_str()), ("Origin", own.as_str())];
    assert_eq!(stage.answer(PROXY, &request("GET", "/v1/jobs", &headers)).await.status, Some(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_strangers_say_of_their_addresses_is_not_believed() {
    let stage = Stage::new(&[]);
    let mut tried = Tried::default();
    // Without such headers the kernel vouches for this test's user at an address that is no proxy's.
    assert_eq!(stage.answer(STRANGER, &request("GET", "/v1/jobs", &[])).await.status, Some(200));
    for (name, value) in [
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-For", "127.0.0.1, 127.0.0.1"),
        ("X-Forwarded-For", "::1"),
        ("X-Forwarded-For", "unknown"),
        ("X-Real-IP", "127.0.0.1"),
        ("Forwarded", "for=127.0.0.1;proto=https;host=localhost"),
        ("Forwarded", "for=\"[::1]\""),
        ("Via", "1.1 localhost"),
        ("x-forwarded-for", ""),
    ] {
        for (method, path, action) in ROUTES {
            let answer = stage.answer(STRANGER, &request(method, path, &[(name, value)])).await;
            tried.refused(&format!("{name}: {value}: {method} {path}"), &answer, 401, "unauthenticated", action);
        }
    }
    let bearer = format!("Bearer {}", stage.token);
    // The host counts, and not what a stranger says of it.
    let foreign = [("Authorization", bearer.as_str()), ("Host", "evil.example"), ("X-Forwarded-Host", "localhost")];
    let answer = stage.answer(STRANGER, &request("GET", "/v1/jobs", &foreign)).await;
    tried.refused("a forwarded host", &answer, 403, "forbidden_host", "list_jobs");
    let origin =
        [("Authorization", bearer.as_str()), ("Origin", "http://evil.example"), ("X-Forwarded-Host", "evil.example")];
    let answer = stage.answer(STRANGER, &request("GET", "/v1/jobs", &origin)).await;
    tried.refused("a forwarded origin", &answer, 403, "forbidden_origin", "list_jobs");
    assert!(tried.count >= 45, "{}", tried.count);
    tried.are_on_record(&stage).await;
    // The address on record is the one of the connection.
    let query = AuditQuery { outcome: Some("unauthenticated".to_owned()), ..AuditQuery::default() };
    let lines = stage.client(None).audit(&query).await.expect("the audit log").entries;
    assert!(lines.iter().all(|entry| entry.line.address.as_deref() == Some(STRANGER)), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_never_one_that_somebody_chose() {
    let stage = Stage::new(&[]);
    let admin = stage.client(None);
    let password = SecretText(PASSWORD.to_owned());
    let user = |name: &str| UserRequest {
        name: name.to_owned(),
        role: Some("viewer".to_owned()),
        namespace_roles: Default::default(),
        password: Some(password.clone()),
        mail: None,
    };
    for name in ["ana", "eve"] {
        admin.create_user(&user(name)).await.expect("a user");
    }
    let login = |name: &str| LoginRequest { name: name.to_owned(), password: password.clone() };
    let eves = admin.login(&login("eve")).await.expect("a session").token.0;
    // Ana logs in with a session of Eve's on her request, in each place where a page could have put it.
    let body = format!("{{\"name\":\"ana\",\"password\":\"{PASSWORD}\"}}");
    for header in
        [format!("Authorization: Bearer {eves}"), format!("Cookie: session={eves}"), format!("X-Session: {eves}")]
    {
        let text = format!(
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = stage.answer(PROXY, &text).await;
        assert_eq!(answer.status, Some(201), "{}", answer.text);
        assert!(!answer.text.contains(&eves) && !answer.text.to_lowercase().contains("set-cookie"), "{}", answer.text);
    }
    for field in ["token", "session", "id"] {
        let body = format!("{{\"name\":\"ana\",\"password\":\"{PASSWORD}\",\"{field}\":\"{eves}\"}}");
        let text = format!(
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(stage.answer(PROXY, &text).await.status, Some(400), "{field}");
    }
    let whoami = stage.client(Some(&eves)).whoami().await.expect("it is still a session");
    assert_eq!(whoami.name, "user:eve", "Eve's session stays hers");
    let two = [
        admin.login(&login("ana")).await.expect("one").token.0,
        admin.login(&login("ana")).await.expect("two").token.0,
    ];
    assert_ne!(two[0], two[1]);
}

/// The tenth part of the times is shorter: the rest is what else the machine does.
async fn quick(stage: &Stage, credential: &str) -> Duration {
    let client = stage.client(Some(credential));
    let mut times = Vec::new();
    for _ in 0..150 {
        let begun = Instant::now();
        client.whoami().await.expect_err("it does not count");
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 10]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_refusal_says_nothing_about_the_credential() {
    let stage = Stage::new(&[]);
    let refused = Refused::make(&stage).await;
    let named =
        |name: &str| refused.all.iter().find(|(what, _, _)| *what == name).expect("it is in the list").1.clone();
    // Wrong at its beginning, and wrong at its end; an id that there is, and one that there is not.
    for (one, other) in [
        ("the access token with its first digit changed", "the access token with its last digit changed"),
        ("a key with another secret", "a key with another id"),
    ] {
        let (one, other) = (named(one), named(other));
        // Noise of the machine goes away in one of a few rounds; a comparison that stops early would not.
        let mut ratios = Vec::new();
        let is_alike = async {
            for _ in 0..10 {
                let (one, other) = (quick(&stage, &one).await, quick(&stage, &other).await);
                let ratio = one.as_secs_f64() / other.as_secs_f64();
                ratios.push(ratio);
                if (0.7..1.4).contains(&ratio) {
                    return true;
                }
            }
            false
        };
        assert!(is_alike.await, "{ratios:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_logins_gets_few_guesses_and_is_on_record() {
    let stage = Stage::new(&[]);
    let admin = stage.client(None);
    let user = UserRequest {
        name: "ana".to_owned(),
        role: Some("admin".to_owned()),
        namespace_roles: Default::default(),
        password: Some(SecretText(PASSWORD.to_owned())),
        mail: None,
    };
    admin.create_user(&user).await.expect("a user");
    let mut guesses = 0;
    for number in 0..80 {
        let body = format!("{{\"name\":\"ana\",\"password\":\"wrong password {number}\"}}");
        // As from an address of its own each time: what the proxy says is believed.
        let text = format!(
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-For: \
             192.0.2.{number}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = stage.answer(PROXY, &text).await;
        match (answer.status, answer.code.as_str()) {
            (Some(401), "login_failed") => guesses += 1,
            (Some(429), "too_many_logins") => {}
            _ => panic!("{}", answer.text),
        }
    }
    assert!((1..=40).contains(&guesses), "{guesses} guesses");
    for code in ["login_failed", "too_many_logins"] {
        let query = AuditQuery { outcome: Some(code.to_owned()), ..AuditQuery::default() };
        eventually(code, || async { admin.audit(&query).await.expect("the log").entries.len() >= 5 }).await;
    }
}
