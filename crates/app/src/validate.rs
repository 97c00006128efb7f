//! Checks of what users send. Each refusal says where and what to do.

use punctual_api::limits;
use punctual_core::Span;
use punctual_core::task::{Handler, HttpCall, Probe, Run, TaskSpec};

use crate::{AppError, Result};

/// An attempt that needs longer than this is several jobs.
const TIMEOUT_MAX: Span = Span::from_secs(30 * 86_400);

pub(crate) fn name(pointer: &str, value: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if value.is_empty() || value.len() > limits::NAME_CHARS_MAX || !value.chars().all(is_allowed) {
        let detail = format!("must be 1 to {} letters, digits, dots, dashes or underscores", limits::NAME_CHARS_MAX);
        return Err(AppError::field(pointer, detail));
    }
    if value.starts_with('.') {
        return Err(AppError::field(pointer, "must not begin with a dot"));
    }
    Ok(())
}

pub(crate) fn spec(spec: &TaskSpec) -> Result<()> {
    name("/queue", &spec.queue)?;
    labels(spec)?;
    spec.retry.check().map_err(|detail| AppError::field("/retry", detail))?;
    spec.node_retry.check().map_err(|detail| AppError::field("/node_retry", detail))?;
    if spec.timeout == Span::ZERO || spec.timeout > TIMEOUT_MAX {
        return Err(AppError::field("/timeout", "must be more than 0 and at most 30 days"));
    }
    if spec.queue_timeout == Some(Span::ZERO) {
        return Err(AppError::field("/queue_timeout", "must be more than 0; leave it out for no limit"));
    }
    match &spec.run {
        Run::Http(call) => http(call),
        Run::Probe(settings) => probe(settings),
        Run::Handler(Handler { name: handler }) => name("/run/handler/name", handler),
    }
}

fn labels(spec: &TaskSpec) -> Result<()> {
    if spec.labels.len() > limits::LABELS_MAX {
        return Err(AppError::field("/labels", format!("must be at most {}", limits::LABELS_MAX)));
    }
    for (key, value) in &spec.labels {
        name("/labels", key)?;
        text("/labels", value, limits::LABEL_CHARS_MAX)?;
    }
    Ok(())
}

/// One line of printable text.
pub(crate) fn text(pointer: &str, value: &str, chars_max: usize) -> Result<()> {
    if value.chars().count() > chars_max {
        return Err(AppError::field(pointer, format!("must be at most {chars_max} characters")));
    }
    if value.chars().any(char::is_control) {
        return Err(AppError::field(pointer, "must not contain control characters"));
    }
    Ok(())
}

fn http(call: &HttpCall) -> Result<()> {
    url(&call.url)?;
    if call.timeout == Span::ZERO || call.timeout > TIMEOUT_MAX {
        return Err(AppError::field("/run/http/timeout", "must be more than 0 and at most 30 days"));
    }
    if call.headers.len() > limits::HEADERS_MAX {
        let detail = format!("must be at most {}", limits::HEADERS_MAX);
        return Err(AppError::field("/run/http/headers", detail));
    }
    for (key, value) in &call.headers {
        header(key, value)?;
    }
    if let Some(body) = &call.body {
        if !call.method.takes_body() {
            let detail = format!("a {} request has no body", call.method.as_str());
            return Err(AppError::field("/run/http/body", detail).hint("use method POST"));
        }
        if body.len() > limits::HTTP_BODY_BYTES_MAX {
            let detail = format!("must be at most {} bytes", limits::HTTP_BODY_BYTES_MAX);
            return Err(AppError::field("/run/http/body", detail));
        }
    }
    if call.expect_status.len() > 100 {
        return Err(AppError::field("/run/http/expect_status", "must be at most 100 codes"));
    }
    if let Some(code) = call.expect_status.iter().find(|code| !(100..=599).contains(*code)) {
        let detail = format!("{code} is not an HTTP status");
        return Err(AppError::field("/run/http/expect_status", detail));
    }
    Ok(())
}

fn url(value: &str) -> Result<()> {
    const POINTER: &str = "/run/http/url";
    if value.chars().count() > limits::URL_CHARS_MAX {
        let detail = format!("must be at most {} characters", limits::URL_CHARS_MAX);
        return Err(AppError::field(POINTER, detail));
    }
    let parsed = url::Url::parse(value).map_err(|error| {
        AppError::field(POINTER, format!("not a URL: {error}"))
            .hint("write it in full, such as https://example.com/hook")
    })?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(AppError::field(POINTER, "must begin with http:// or https://"));
    }
    if parsed.host_str().is_none_or(str::is_empty) {
        return Err(AppError::field(POINTER, "must name a host"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(AppError::field(POINTER, "must not contain a user name or password")
            .hint("send credentials in an Authorization header"));
    }
    Ok(())
}

fn header(key: &str, value: &str) -> Result<()> {
    const POINTER: &str = "/run/http/headers";
    /// These belong to the connection or to the delivery promise.
    const RESERVED: [&str; 8] =
        ["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "idempotency-key"];
    let parsed = http::HeaderName::from_bytes(key.as_bytes())
        .map_err(|_| AppError::field(POINTER, "a header has a name that HTTP does not allow"))?;
    if RESERVED.contains(&parsed.as_str()) {
        return Err(AppError::field(POINTER, format!("{parsed} is set by Punctual")));
    }
    http::HeaderValue::from_str(value).map_err(|_| {
        AppError::field(POINTER, format!("the value of {parsed} has characters that HTTP does not allow"))
    })?;
    Ok(())
}

fn probe(probe: &Probe) -> Result<()> {
    if probe.output.as_ref().is_some_and(|output| output.len() > limits::HTTP_BODY_BYTES_MAX) {
        let detail = format!("must be at most {} bytes", limits::HTTP_BODY_BYTES_MAX);
        return Err(AppError::field("/run/probe/output", detail));
    }
    Ok(())
}

/// A job's input: any JSON, within limits of size and depth.
pub(crate) fn input(json: &str) -> Result<()> {
    if json.len() > limits::INPUT_BYTES_MAX {
        let detail = format!("must be at most {} bytes", limits::INPUT_BYTES_MAX);
        return Err(AppError::field("/input", detail).hint("put large data into a file and pass its address"));
    }
    if depth(json) > limits::JSON_DEPTH_MAX {
        let detail = format!("must be nested at most {} deep", limits::JSON_DEPTH_MAX);
        return Err(AppError::field("/input", detail));
    }
    Ok(())
}

/// How deep valid JSON is nested.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut in_text = false;
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_text => {
                bytes.next();
            }
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_nesting_and_not_what_stands_in_texts() {
        for (json, expected) in [("1", 0), ("[]", 1), (r#"{"a":[{}]}"#, 3), (r#"["[[[\"[["]"#, 1)] {
            assert_eq!(depth(json), expected, "{json}");
        }
    }

    #[test]
    fn names_that_would_be_trouble_in_paths_and_lists_are_refused() {
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "ä", "a\n", &"x".repeat(129)] {
            assert!(name("/name", bad).is_err(), "{bad:?}");
        }
        for good in ["a", "nightly-report", "etl.v2_x", &"x".repeat(128)] {
            assert!(name("/name", good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn urls_that_could_not_be_called_are_refused() {
        for bad in
            ["", "example.com", "ftp://example.com", "http://", "http://user:pw@example.com", "file:///etc/passwd"]
        {
            assert!(url(bad).is_err(), "{bad}");
        }
        assert!(url("https://example.com/hook?x=1").is_ok());
    }
}
