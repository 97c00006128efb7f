//! What other machines may reach, and whose forwarded headers are believed.

use super::{punctual, said};
use crate::harness::{Home, Server};
use crate::raw::{Request, exchange};

#[test]
fn a_server_off_loopback_needs_tls_or_a_proxy() {
    let home = Home::new();
    let refused = |arguments: &[&str], expected: &str| {
        let output = punctual(&home, &[&["server", "--data-dir", "refused"], arguments].concat());
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(!home.file("refused").exists(), "nothing was made");
    };
    refused(&["--listen", "0.0.0.0:0"], "--tls cluster");
    refused(&["--listen", "[::]:0"], "--tls cluster");
    refused(&["--listen", "192.0.2.1:8020"], "--tls cluster");
    refused(&["--listen", "0.0.0.0:0", "--tls", "cluster"], "--advertise https://NAME");
    refused(&["--tls", "cluster", "--advertise", "http://10.0.0.1:8020"], "rite https://");
    refused(&["--advertise", "http://10.0.0.1:8020"], "without TLS");
    refused(&["--advertise", "https://10.0.0.1:8020"], "speaks no TLS");
    refused(&["--tls", "files"], "tls_cert or tls_key is missing");
    refused(&["--tls", "cluster", "--tls-cert", "x"], "tls is not files");
    refused(&["--proxies", "0.0.0.0/0"], "every address there is");
    refused(&["--public-hosts", "https://x"], "without https://");
    let database = "postgresql://127.0.0.1:1/x";
    refused(&["--listen", "0.0.0.0:0", "--proxies", "10.0.0.5", "--database", database], "among themselves");
}

async fn status(server: &Server, request: Request) -> (u16, String) {
    let said = exchange(server, &request.into_bytes()).await;
    (said.status.expect("an answer"), said.text)
}

#[tokio::test]
async fn forwarded_headers_are_believed_only_from_the_proxies() {
    let home = Home::new();
    let flags = ["--public-hosts", "punctual.example"];
    let strict = home.server_at("127.0.0.1:0", &flags);
    let get = || Request::new("GET", "/v1/jobs").without("Host");
    let forwarded = || {
        get()
            .header("Host", "localhost")
            .header("X-Forwarded-Host", "punctual.example")
            .header("X-Forwarded-Proto", "https")
            .header("X-Forwarded-For", "192.0.2.7")
    };
    // Without proxies the headers prove nothing: the host is the one of the request, and so is the scheme.
    let (code, body) = status(&strict, forwarded().header("Origin", "https://punctual.example")).await;
    assert!(code == 403 && body.contains("forbidden_origin"), "{code} {body}");
    let (code, body) = status(&strict, forwarded()).await;
    assert!(code == 401 && body.contains("unauthenticated"), "{code} {body}");
    drop(strict);
    let home = Home::new();
    let behind = home.server_at("127.0.0.1:0", &[&flags[..], &["--proxies", "127.0.0.1"]].concat());
    let (code, body) = status(&behind, get().header("Host", "localhost")).await;
    assert!(code == 401 && body.contains("unauthenticated"), "a proxy has no user: {code} {body}");
    let token = std::fs::read_to_string(home.file("data/token")).expect("the token");
    let bearer = format!("Bearer {}", token.trim());
    let with_token = || forwarded().header("Authorization", bearer.clone());
    assert_eq!(status(&behind, with_token()).await.0, 200);
    assert_eq!(status(&behind, with_token().header("Origin", "https://punctual.example")).await.0, 200);
    let (code, body) = status(&behind, with_token().header("Origin", "http://punctual.example")).await;
    assert!(code == 403 && body.contains("forbidden_origin"), "{code} {body}");
    let evil = get().header("X-Forwarded-Host", "evil.example").header("Authorization", bearer.clone());
    let (code, body) = status(&behind, evil).await;
    assert!(code == 403 && body.contains("forbidden_host"), "{code} {body}");
}
