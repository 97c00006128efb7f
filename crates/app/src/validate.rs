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
        Run::Http(call) => http(call)?,
        Run::Probe(settings) => probe(settings)?,
        Run::Handler(Handler { name: handler }) => name("/run/handler/name", handler)?,
    }
    size(spec)
}

/// The parts have limits of their own; escapes can make the whole larger than their sum.
fn size(spec: &TaskSpec) -> Result<()> {
    let json = serde_json::to_vec(spec).expect("a task spec is JSON");
    if json.len() > limits::SPEC_BYTES_MAX {
        let detail = format!("the definition must be at most {} bytes of JSON", limits::SPEC_BYTES_MAX);
        return Err(AppError::field("/run", detail).hint("pass large data as the job's input, or by its address"));
    }
    Ok(())
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
    let headers_bytes: usize = call.headers.iter().map(|(key, value)| key.len() + value.len()).sum();
    if headers_bytes > limits::HEADERS_BYTES_MAX {
        let detail = format!("must be at most {} bytes together", limits::HEADERS_BYTES_MAX);
        return Err(AppError::field("/run/http/headers", detail));
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
    if key.len() > limits::HEADER_NAME_BYTES_MAX {
        let detail = format!("the name of a header must be at most {} bytes", limits::HEADER_NAME_BYTES_MAX);
        return Err(AppError::field(POINTER, detail));
    }
    let parsed = http::HeaderName::from_bytes(key.as_bytes())
        .map_err(|_| AppError::field(POINTER, "a header has a name that HTTP does not allow"))?;
    if HttpCall::is_reserved_header(parsed.as_str()) {
        return Err(AppError::field(POINTER, format!("{parsed} is set by Punctual")));
    }
    if value.len() > limits::HEADER_VALUE_BYTES_MAX {
        let detail = format!("the value of {parsed} must be at most {} bytes", limits::HEADER_VALUE_BYTES_MAX);
        return Err(AppError::field(POINTER, detail));
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
    use punctual_core::task::{Method, default_http_timeout};

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

    fn call(headers: &[(String, String)], body: Option<String>) -> TaskSpec {
        TaskSpec::new(Run::Http(HttpCall {
            url: "https://example.com/hook".to_owned(),
            method: Method::Post,
            headers: headers.iter().cloned().collect(),
            body,
            expect_status: Vec::new(),
            timeout: default_http_timeout(),
        }))
    }

    #[test]
    fn definitions_that_no_worker_could_take_are_refused_by_field() {
        let header = |n: usize, value_len: usize| (format!("x-{n}"), "v".repeat(value_len));
        let check = |headers: &[(String, String)], body: Option<String>| {
            spec(&call(headers, body)).map_err(|error| error.errors[0].pointer.clone())
        };
        let headers = Err("/run/http/headers".to_owned());
        assert_eq!(check(&[header(1, 8 << 10)], None), Ok(()));
        assert_eq!(check(&[header(1, (8 << 10) + 1)], None), headers);
        assert_eq!(check(&[("x".repeat(256), "v".to_owned())], None), Ok(()));
        assert_eq!(check(&[("x".repeat(257), "v".to_owned())], None), headers);
        let many = |count| (0..count).map(|n| header(n, 8000)).collect::<Vec<_>>();
        assert_eq!(check(&many(8), None), Ok(()));
        assert_eq!(check(&many(9), None), headers);
        // Each of these is one byte of text and six of JSON.
        assert_eq!(check(&[], Some("\u{1}".repeat(80 << 10))), Ok(()));
        assert_eq!(check(&[], Some("\u{1}".repeat(90 << 10))), Err("/run".to_owned()));
    }

    #[test]
    fn headers_that_are_ours_are_refused() {
        for name in ["Host", "idempotency-key", "Punctual-Job-Id", "punctual-attempt", "Proxy-Authorization", "te"] {
            assert!(spec(&call(&[(name.to_owned(), "x".to_owned())], None)).is_err(), "{name}");
        }
        assert!(spec(&call(&[("Authorization".to_owned(), "x".to_owned())], None)).is_ok());
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
