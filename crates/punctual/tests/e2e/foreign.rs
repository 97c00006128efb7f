//! A web page in the user's browser cannot reach the server, and no other machine can.

use std::process::{Command, Stdio};

use crate::harness::{Home, PUNCTUAL};
use crate::raw::{Request, exchange};

fn status(code: &'static str) -> u16 {
    if code.is_empty() { 200 } else { 403 }
}

#[tokio::test]
async fn only_this_machine_and_its_own_pages_are_answered() {
    const HOST: &str = "forbidden_host";
    const ORIGIN: &str = "forbidden_origin";
    let home = Home::new();
    let server = home.server();
    let own = server.address();
    let page = format!("http://{own}");
    let port = own.rsplit(':').next().expect("a port").to_owned();
    let named = format!("localhost:{port}");
    let named_page = format!("http://{named}");
    let upper = format!("HTTP://{}", own);
    let mut wrong = Vec::new();
    for (host, headers, code) in [
        // Names of this machine, and others that resolve to it.
        (own.as_str(), &[][..], ""),
        (named.as_str(), &[], ""),
        ("localhost", &[], ""),
        ("LOCALHOST", &[], ""),
        ("127.0.0.1", &[], ""),
        ("127.1.2.3:9", &[], ""),
        ("[::1]", &[], ""),
        ("[::1]:8020", &[], ""),
        ("evil.example", &[], HOST),
        ("localhost.evil.example", &[], HOST),
        ("evil.localhost.example", &[], HOST),
        ("localhost.", &[], HOST),
        ("127.0.0.1.nip.io", &[], HOST),
        ("0.0.0.0", &[], HOST),
        ("10.0.0.1", &[], HOST),
        ("192.168.1.7:8020", &[], HOST),
        ("[::]", &[], HOST),
        ("[::1].evil", &[], HOST),
        ("[::1].evil:8020", &[], HOST),
        ("[127.0.0.1]", &[], HOST),
        ("[::ffff:10.0.0.1]", &[], HOST),
        ("2130706433", &[], HOST),
        ("0x7f000001", &[], HOST),
        ("127.1", &[], HOST),
        ("user@localhost", &[], HOST),
        ("localhost@evil.example", &[], HOST),
        ("localhost, evil.example", &[], HOST),
        ("localhost evil.example", &[], HOST),
        ("localhost/evil.example", &[], HOST),
        ("", &[], HOST),
        // Pages: only one that this server itself served.
        (&own, &[("Origin", page.as_str())], ""),
        (&named, &[("Origin", named_page.as_str())], ""),
        (&own, &[("Origin", page.as_str()), ("Sec-Fetch-Site", "same-origin")], ""),
        (&own, &[("Sec-Fetch-Site", "none")], ""),
        (&own, &[("Origin", "http://evil.example")], ORIGIN),
        (&own, &[("Origin", "https://evil.example")], ORIGIN),
        (&own, &[("Origin", "null")], ORIGIN),
        (&own, &[("Origin", "")], ORIGIN),
        (&own, &[("Origin", "file://")], ORIGIN),
        (&own, &[("Origin", "http://127.0.0.1:3000")], ORIGIN),
        (&own, &[("Origin", "http://127.0.0.1")], ORIGIN),
        (&own, &[("Origin", named_page.as_str())], ORIGIN),
        (&own, &[("Origin", upper.as_str())], ORIGIN),
        (&own, &[("Origin", "http://127.0.0.1.evil.example")], ORIGIN),
        (&own, &[("Sec-Fetch-Site", "cross-site")], ORIGIN),
        (&own, &[("Sec-Fetch-Site", "same-site")], ORIGIN),
        (&own, &[("Sec-Fetch-Site", "whatever")], ORIGIN),
        (&own, &[("Origin", page.as_str()), ("Sec-Fetch-Site", "cross-site")], ORIGIN),
        ("evil.example", &[("Origin", "http://evil.example"), ("Sec-Fetch-Site", "same-origin")], HOST),
    ] {
        for path in ["/v1/stats", "/livez", "/openapi.json"] {
            let mut request = Request::new("GET", path).without("Host").header("Host", host);
            for (name, value) in headers {
                request = request.header(name, *value);
            }
            let said = exchange(&server, &request.into_bytes()).await;
            let allows = said.header("access-control-allow-origin");
            if said.status != Some(status(code)) || !said.text.contains(code) || allows.is_some() {
                wrong.push(format!("{path} {host} {headers:?}: {:?} {}", said.status, said.shortened()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_request_names_one_host_and_names_it_where_it_counts() {
    let home = Home::new();
    let server = home.server();
    let get = || Request::new("GET", "/livez");
    let absolute = |url: &str| Request::new("GET", url);
    for (name, request, expected) in [
        ("no host", get().without("Host"), 403),
        ("two hosts", get().header("Host", "localhost"), 403),
        ("a second host of another", get().header("Host", "evil.example"), 403),
        ("a host that is not ASCII", get().without("Host").header("Host", &b"local\xffhost"[..]), 403),
        ("a foreign address in full", absolute("http://evil.example/livez"), 403),
        ("an own address in full", absolute("http://localhost/livez"), 200),
    ] {
        let said = exchange(&server, &request.into_bytes()).await;
        assert_eq!(said.status, Some(expected), "{name}: {}", said.text);
    }
}

/// A page may send a form, or JSON as plain text, without asking first. Nothing comes of it.
#[tokio::test]
async fn what_a_page_may_send_unasked_changes_nothing() {
    let home = Home::new();
    let server = home.server();
    let job = "{\"inline\":{\"run\":{\"probe\":{}}}}";
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let request = Request::new("POST", "/v1/jobs").header("Content-Type", content_type).body(job);
        let said = exchange(&server, &request.into_bytes()).await;
        assert_eq!(said.status, Some(415), "{}", said.text);
    }
    let preflight = Request::new("OPTIONS", "/v1/jobs")
        .header("Origin", "http://evil.example")
        .header("Access-Control-Request-Method", "POST");
    let said = exchange(&server, &preflight.into_bytes()).await;
    assert_eq!((said.status, said.header("access-control-allow-origin")), (Some(403), None));
    assert_eq!(server.client().stats().await.expect("it answers").submitted, 0);
}

#[test]
fn a_server_does_not_listen_where_others_can_reach_it() {
    let home = Home::new();
    for listen in
        ["0.0.0.0:0", "[::]:0", "192.168.1.7:0", "10.0.0.1:8020", "8.8.8.8:53", "[fe80::1]:0", "[::ffff:0.0.0.0]:0"]
    {
        let output = Command::new(PUNCTUAL)
            .args(["server", "--exit-with-stdin", "--listen", listen, "--data-dir"])
            .arg(home.file("data"))
            .current_dir(home.path())
            .stdin(Stdio::null())
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{listen}: {said}");
        assert!(said.contains("without TLS") && said.contains("127.0.0.1"), "{listen}: {said}");
        assert!(!home.file("data").exists(), "{listen}: it left something behind");
    }
}
