//! The part of an answer that is kept.

use std::borrow::Cow;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::redact::Redactor;

/// Read and kept of a body; the rest stays unread.
const BODY_BYTES_MAX: usize = 64 << 10;

/// A body of control characters grows sixfold as JSON; outputs have a limit of their own,
/// and the answer must fit into it.
const BODY_JSON_BYTES_MAX: usize = 192 << 10;

const EXCERPT_BYTES_MAX: usize = 512;

pub(crate) struct HttpAnswer {
    body: Vec<u8>,
    /// The body without secrets, where the attempt has some: before anything is cut off, or a part of one would be left.
    shown: Option<Vec<u8>>,
    cut: bool,
}

pub(crate) async fn read(incoming: &mut Incoming, redactor: Option<&Redactor>) -> Result<HttpAnswer, hyper::Error> {
    let (body, cut) = read_body(incoming).await?;
    let shown = redactor.map(|redactor| redactor.redact(&body).into_owned());
    Ok(HttpAnswer { body, shown, cut })
}

async fn read_body(incoming: &mut Incoming) -> Result<(Vec<u8>, bool), hyper::Error> {
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        // What is not data is a trailer, and nobody asked for one.
        let Ok(chunk) = frame?.into_data() else { continue };
        let room = BODY_BYTES_MAX - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok((body, true));
        }
    }
    Ok((body, false))
}

impl HttpAnswer {
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    fn shown(&self) -> &[u8] {
        self.shown.as_deref().unwrap_or(&self.body)
    }

    /// As it came, for decisions.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    pub(crate) fn size(&self) -> String {
        if self.cut {
            format!("answer of more than {BODY_BYTES_MAX} bytes: the first {BODY_BYTES_MAX} are kept")
        } else {
            format!("answer of {} bytes", self.body.len())
        }
    }

    /// The start of the body, for the log of a failure; `None` when there is no text.
    pub(crate) fn excerpt(&self) -> Option<String> {
        let shown = self.shown();
        let start = &shown[..shown.len().min(EXCERPT_BYTES_MAX)];
        let text = String::from_utf8_lossy(start);
        let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        (!line.is_empty()).then_some(line)
    }

    pub(crate) fn to_output(&self, status: StatusCode) -> Bytes {
        let text = String::from_utf8_lossy(self.shown());
        let kept = json_prefix(&text, BODY_JSON_BYTES_MAX);
        let output = serde_json::json!({
            "status": status.as_u16(),
            "body": kept,
            "truncated": self.cut || kept.len() < text.len(),
        });
        Bytes::from(output.to_string())
    }
}

/// The longest prefix of `text` that takes at most `bytes_max` in a JSON string.
fn json_prefix(text: &str, bytes_max: usize) -> &str {
    let mut len = 0;
    for (place, c) in text.char_indices() {
        len += match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            c => c.len_utf8(),
        };
        if len > bytes_max {
            return &text[..place];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_stays_small_whatever_the_body_holds() {
        for byte in [0, b'"', b'a', 0xff] {
            let answer = HttpAnswer { shown: None, body: vec![byte; BODY_BYTES_MAX], cut: false };
            let output = answer.to_output(StatusCode::OK);
            assert!(output.len() <= BODY_JSON_BYTES_MAX + 100, "{byte}: {}", output.len());
            let json: serde_json::Value = serde_json::from_slice(&output).unwrap();
            assert_eq!(json["truncated"], byte == 0, "{byte}");
        }
    }
}
