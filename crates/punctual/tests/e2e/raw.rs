//! HTTP as bytes on a socket, for what no client library would send.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::Server;

/// A request that is well formed but for what a test does to it.
#[derive(Clone)]
pub(crate) struct Request {
    line: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Option<Vec<u8>>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        let headers = vec![("Host".to_owned(), b"localhost".to_vec()), ("Connection".to_owned(), b"close".to_vec())];
        Self { line: format!("{method} {path} HTTP/1.1"), headers, body: None }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub(crate) fn json(self, body: impl Into<Vec<u8>>) -> Self {
        self.header("Content-Type", "application/json").body(body)
    }

    /// The body in pieces, without a declared length.
    pub(crate) fn chunked(self, pieces: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.header("Transfer-Encoding", "chunked").into_bytes();
        for piece in pieces {
            bytes.extend(format!("{:x}\r\n", piece.len()).into_bytes());
            bytes.extend(piece);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = format!("{}\r\n", self.line).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        if let Some(body) = &self.body {
            bytes.extend(format!("Content-Length: {}\r\n", body.len()).into_bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(self.body.unwrap_or_default());
        bytes
    }
}

#[derive(Debug)]
pub(crate) struct RawResponse {
    /// `None` when the connection was closed without an answer.
    pub(crate) status: Option<u16>,
    head: String,
    pub(crate) text: String,
}

impl RawResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn shortened(&self) -> String {
        self.text.chars().take(400).collect()
    }
}

/// Sends the bytes and reads until the server closes.
pub(crate) async fn exchange(server: &Server, bytes: &[u8]) -> RawResponse {
    converse(server, bytes, None).await
}

/// Like [`exchange`], but hangs up if the server waits for more.
pub(crate) async fn exchange_and_leave(server: &Server, bytes: &[u8]) -> RawResponse {
    converse(server, bytes, Some(PATIENCE_OF_A_LEAVER)).await
}

const PATIENCE_OF_A_LEAVER: Duration = Duration::from_millis(300);

async fn converse(server: &Server, bytes: &[u8], leave_after: Option<Duration>) -> RawResponse {
    let stream = TcpStream::connect(server.address()).await.expect("the server takes connections");
    let (mut reader, mut writer) = stream.into_split();
    let mut answer = Vec::new();
    let write = async {
        // The server may have heard enough and closed.
        let _ = writer.write_all(bytes).await;
        match leave_after {
            Some(patience) => tokio::time::sleep(patience).await,
            None => std::future::pending().await,
        }
        let _ = writer.shutdown().await;
        std::future::pending().await
    };
    tokio::select! {
        _ = reader.read_to_end(&mut answer) => {}
        () = write => {}
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, text) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
    RawResponse { status, head: head.to_owned(), text: text.to_owned() }
}
