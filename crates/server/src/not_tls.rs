//! Answers those who speak plain HTTP where TLS is needed. Their request is not read: it was sent in the clear already, and what
//! it asks for must not depend on that.

use std::time::Duration;

use punctual_api::{ErrorKind, Problem};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// To write an answer of a few hundred bytes.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// What the client sends meanwhile is thrown away: the kernel would drop our answer if it were still there when we close.
const DISCARDED_MAX: usize = 64 << 10;

/// Plain HTTP on a port with TLS. `first` is the first byte that came.
pub(crate) async fn refuse(stream: TcpStream, first: u8) {
    // The methods of HTTP and the preface of HTTP/2 begin with a capital letter. Whoever sends something else cannot read this.
    if first.is_ascii_uppercase() {
        answer(stream, "this port speaks TLS, and the request came without it", "write https:// in place of http://")
            .await;
    }
}

/// Plain HTTP from another machine that is no proxy of ours.
pub(crate) async fn refuse_stranger(stream: TcpStream) {
    let detail = "this server takes requests without TLS only from its proxies";
    answer(stream, detail, "use the public address of the service, or name the proxy in the setting `proxies`").await;
}

async fn answer(mut stream: TcpStream, detail: &str, hint: &str) {
    let text = response(detail, hint);
    let _ = timeout(ANSWER_WITHIN, async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await?;
        let mut buffer = vec![0; 4096];
        let mut discarded = 0;
        while discarded < DISCARDED_MAX {
            match stream.read(&mut buffer).await? {
                0 => break,
                len => discarded += len,
            }
        }
        std::io::Result::Ok(())
    })
    .await;
}

fn response(detail: &str, hint: &str) -> String {
    let kind = ErrorKind::TlsRequired;
    let problem = Problem {
        type_uri: format!("/problems/{}", kind.code()),
        title: kind.title().to_owned(),
        status: kind.http_status(),
        detail: detail.to_owned(),
        code: kind.code().to_owned(),
        hint: Some(hint.to_owned()),
        request_id: String::new(),
        retryable: false,
        errors: Vec::new(),
    };
    let json = serde_json::to_string(&problem).expect("a problem is JSON");
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{json}",
        json.len()
    )
}
