//! The least HTTP/1.1 client that keeps a connection: the tool shares the machine with
//! what it measures, so each microsecond of its own counts against the result.

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::secured::Secured;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// One connection, one request at a time.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    /// Lines that all requests have.
    common: String,
    sent: Vec<u8>,
    received: Vec<u8>,
}

/// Where a head ends and what it says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    len: usize,
    status: u16,
    body_len: usize,
}

impl Connection {
    /// Connects to an address like `http://127.0.0.1:8020`.
    pub(crate) async fn open(url: &str, secured: Option<&Secured>) -> anyhow::Result<Self> {
        let scheme = if secured.is_some() { "https://" } else { "http://" };
        let host = url.strip_prefix(scheme).context("the bench speaks plain http only, but for servers of its own")?;
        let host = host.trim_end_matches('/');
        let tcp = TcpStream::connect(host).await.with_context(|| format!("cannot reach {url}"))?;
        tcp.set_nodelay(true)?;
        let (stream, common): (Box<dyn Stream>, _) = match secured {
            None => (Box::new(tcp), format!("host: {host}\r\n")),
            Some(secured) => {
                let name = secured.tls().server_name(host.rsplit_once(':').map_or(host, |(name, _)| name))?;
                let stream = secured.connector().connect(name, tcp).await.context("no TLS with the server")?;
                (Box::new(stream), format!("host: {host}\r\nauthorization: Bearer {}\r\n", secured.token()))
            }
        };
        Ok(Self { stream, common, sent: Vec::new(), received: Vec::new() })
    }

    /// The body of a 2xx answer.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<&[u8]> {
        self.send("POST", path, body).await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &str) -> anyhow::Result<&[u8]> {
        self.send("PUT", path, body).await
    }

    async fn send(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<&[u8]> {
        let Self { sent, common, .. } = self;
        sent.clear();
        // Head and body in one packet.
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{common}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        sent.extend_from_slice(head.as_bytes());
        sent.extend_from_slice(body.as_bytes());
        self.exchange().await
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<&[u8]> {
        let head = format!("GET {path} HTTP/1.1\r\n{}\r\n", self.common);
        self.sent.clear();
        self.sent.extend_from_slice(head.as_bytes());
        self.exchange().await
    }

    async fn exchange(&mut self) -> anyhow::Result<&[u8]> {
        self.stream.write_all(&self.sent).await?;
        self.stream.flush().await?;
        self.received.clear();
        let mut head: Option<Head> = None;
        loop {
            if head.is_none() {
                head = parse_head(&self.received)?;
            }
            if let Some(Head { len, status, body_len }) = head
                && self.received.len() >= len + body_len
            {
                let body = &self.received[len..len + body_len];
                if !(200..300).contains(&status) {
                    bail!("the server answered {status}: {}", String::from_utf8_lossy(body));
                }
                return Ok(body);
            }
            let read = self.stream.read_buf(&mut self.received).await?;
            ensure!(read > 0, "the server closed the connection");
        }
    }
}

/// `None` while the head is not complete.
fn parse_head(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).context("a head that is not text")?;
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("not an HTTP answer: {first}"))?;
    let mut body_len = 0;
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if name.eq_ignore_ascii_case("content-length") {
            body_len = value.trim().parse().context("a content-length that is not a number")?;
        }
        ensure!(!name.eq_ignore_ascii_case("transfer-encoding"), "chunked answers are not understood here");
    }
    Ok(Some(Head { len: end + 4, status, body_len }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_complete() {
        let text = b"HTTP/1.1 201 Created\r\nContent-Type: x\r\nContent-LENGTH: 12\r\n\r\nhello";
        for end in 0..text.len() - 5 {
            assert_eq!(parse_head(&text[..end]).unwrap(), None, "{end}");
        }
        let head = Head { len: text.len() - 5, status: 201, body_len: 12 };
        assert_eq!(parse_head(text).unwrap(), Some(head));
    }

    #[test]
    fn answers_that_are_not_understood_are_refused() {
        for text in [
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        ] {
            assert!(parse_head(text.as_bytes()).is_err(), "{text}");
        }
    }
}
