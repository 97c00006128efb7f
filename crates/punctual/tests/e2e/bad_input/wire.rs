//! Bytes that are hardly HTTP, and gRPC that is none.

use super::{Case, Cut, Dismissed, Refused, RefusedAsGrpc, Taken, check};
use crate::raw::Request;

#[tokio::test]
async fn what_is_hardly_http_is_cut_off() {
    let get = || Request::new("GET", "/livez");
    let text = |text: &str| text.as_bytes().to_vec();
    let many = (0..200).fold(get(), |request, n| request.header(&format!("X-{n}"), "v"));
    check(vec![
        Case::raw("nothing", Vec::new(), Cut),
        Case::raw("a line break", text("\r\n"), Cut),
        Case::raw("zeros", vec![0; 4096], Cut),
        Case::raw("all bytes", (0..=255).cycle().take(10_000).collect(), Cut),
        Case::raw("a greeting of TLS", vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03], Cut),
        Case::raw("a greeting of SSH", text("SSH-2.0-OpenSSH_9.6\r\n"), Cut),
        Case::raw("a greeting of SMTP", text("EHLO example.org\r\n"), Cut),
        Case::raw("HTTP/0.9", text("GET /livez\r\n\r\n"), Cut),
        Case::raw("HTTP/1.0 without a host", text("GET /livez HTTP/1.0\r\n\r\n"), Refused(403, "forbidden_host", "host")),
        Case::raw("HTTP/1.0 with a host", text("GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n"), Taken),
        Case::raw("HTTP/9.9", text("GET /livez HTTP/9.9\r\nHost: localhost\r\n\r\n"), Cut),
        Case::raw("a preface of HTTP/2 and nonsense", text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense and more of it"), Cut),
        Case::raw("half a request line", text("GET /liv"), Cut),
        Case::raw("half the headers", text("GET /livez HTTP/1.1\r\nHost: local"), Cut),
        Case::raw("half a body", text("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"task\":"), Cut),
        Case::raw("a method with a blank before it", text(" GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"), Cut),
        Case::raw("bytes in the path", [b"GET /\xff\xfe".to_vec(), text(" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")].concat(), Cut),
        Case::raw("a NUL in the path", text("GET /livez\0 HTTP/1.1\r\nHost: localhost\r\n\r\n"), Cut),
        Case::raw("a blank in the path", text("GET /li vez HTTP/1.1\r\nHost: localhost\r\n\r\n"), Cut),
        Case::new("a path of 100 KiB", Request::new("GET", &format!("/{}", "a".repeat(100 << 10))), Cut),
        Case::raw("a header without a colon", text("GET /livez HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n"), Cut),
        Case::raw("a header that goes on", text("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n  c\r\n\r\n"), Cut),
        Case::raw("a header with a blank in its name", text("GET /livez HTTP/1.1\r\nHost : localhost\r\n\r\n"), Cut),
        Case::new("a header with a NUL", get().header("X-A", &b"b\0c"[..]), Cut),
        Case::new("200 headers", many, Cut),
        Case::new("a header of 100 KiB", get().header("X-A", vec![b'a'; 100 << 10]), Cut),
        Case::new("a header of a megabyte", get().header("X-A", vec![b'a'; 1 << 20]), Cut),
        Case::new("an unknown transfer", get().header("Transfer-Encoding", "gzip"), Cut),
        Case::raw("a length and pieces", Request::new("POST", "/v1/jobs").header("Content-Type", "application/json").header("Content-Length", "5").chunked(&[b"{}".to_vec()]), Cut),
        Case::raw("a piece without a length", text("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n"), Cut),
        Case::raw("a piece of all that there is", text("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}"), Cut),
        Case::new("a tunnel", Request::new("CONNECT", "localhost:80"), Cut),
        Case::new("an upgrade", get().header("Upgrade", "websocket"), Taken),
    ])
    .await;
}

#[tokio::test]
async fn what_is_no_worker_is_refused_by_the_protocol_of_workers() {
    let call = |method: &str| Request::new("POST", &format!("/punctual.worker.v1.Worker/{method}"));
    let grpc = |method: &str, body: &[u8]| call(method).header("Content-Type", "application/grpc").body(body);
    check(vec![
        Case::new("nothing", grpc("Work", b""), Dismissed),
        Case::new("nonsense", grpc("Work", b"nonsense"), Dismissed),
        Case::new("half a frame", grpc("Work", &[0, 0, 0]), Dismissed),
        Case::new("a frame of 4 GiB", grpc("Work", &[0, 0xff, 0xff, 0xff, 0xff, 1]), Dismissed),
        Case::new("a compressed frame", grpc("Work", &[1, 0, 0, 0, 1, 1]), Dismissed),
        Case::new("a frame that is no message", grpc("Work", &[0, 0, 0, 0, 3, 0xff, 0xff, 0xff]), Dismissed),
        Case::new("an empty message", grpc("Work", &[0, 0, 0, 0, 0]), Dismissed),
        Case::new("a heartbeat of nobody", grpc("Heartbeat", &[0, 0, 0, 0, 0]), Dismissed),
        Case::new("a heartbeat of nonsense", grpc("Heartbeat", &[0, 0, 0, 0, 2, 0x0a, 0x7f]), Dismissed),
        Case::new("a method that there is not", grpc("Shutdown", &[0, 0, 0, 0, 0]), RefusedAsGrpc),
    ])
    .await;
}
