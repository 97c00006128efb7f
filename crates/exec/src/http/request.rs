//! From a task's definition to a request.

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use punctual_core::task::HttpCall;
use url::Url;

use crate::Call;

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const JOB_ID: HeaderName = HeaderName::from_static(punctual_core::run::JOB_ID_HEADER);
pub(super) const ATTEMPT: HeaderName = HeaderName::from_static("punctual-attempt");
pub(super) const TRACING_ID: HeaderName = HeaderName::from_static("punctual-tracing-id");

/// What a redirect may write; twice what a task may.
pub(super) const URL_BYTES_MAX: usize = 4096;

/// A request before it meets a connection.
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// The error is a sentence for the user: nothing was sent.
pub(super) fn build(spec: &HttpCall, call: &Call) -> Result<Outgoing, String> {
    let url = parse_url(&spec.url)?;
    let method = spec.method.as_str().parse().expect("our methods are HTTP methods");
    let body = match &spec.body {
        // A definition that was never checked; a body behind a GET would be read as the next request.
        Some(_) if !spec.method.takes_body() => {
            return Err(format!("a {} request has no body", spec.method.as_str()));
        }
        Some(body) => Some(Bytes::copy_from_slice(body.as_bytes())),
        None if spec.method.takes_body() => call.input.clone(),
        None => None,
    };
    let headers = headers(spec, call, body.is_some())?;
    Ok(Outgoing { method, url, headers, body })
}

fn parse_url(text: &str) -> Result<Url, String> {
    // The parser would drop line breaks and tabs, and call another place than was written.
    if text.contains(|letter: char| letter.is_control()) {
        return Err("the url is not valid: it has control characters".to_owned());
    }
    let mut url = Url::parse(text)
        .map_err(|_| "the url is not valid: write it in full, such as https://example.com/hook".to_owned())?;
    check_url(&url)?;
    url.set_fragment(None);
    Ok(url)
}

pub(super) fn check_url(url: &Url) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("only http and https urls can be called, not {}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the url must not carry a user name or password: use a header".to_owned());
    }
    Ok(())
}

/// What every request of ours says of itself.
pub(crate) fn own_headers(call: &Call) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("punctual/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    let job = HeaderValue::from_str(&call.job.to_string()).expect("an id is ASCII");
    headers.insert(IDEMPOTENCY_KEY, job);
    for (name, value) in call.facts().iter() {
        let name = HeaderName::try_from(format!("punctual-{}", name.replace('_', "-")));
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    if let Some(tracing_id) = &call.tracing_id {
        match tracing_id.parse() {
            Ok(value) => {
                headers.insert(TRACING_ID, value);
            }
            Err(_) => call.log.line("the tracing id does not fit into a header and is not sent"),
        }
    }
    headers
}

fn headers(spec: &HttpCall, call: &Call, has_body: bool) -> Result<HeaderMap, String> {
    let mut headers = own_headers(call);
    if has_body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &spec.headers {
        let parsed: HeaderName = name.parse().map_err(|_| format!("{name:?} is not the name of a header"))?;
        if HttpCall::is_reserved_header(parsed.as_str()) {
            call.log.line(format!("header {parsed} is not for a task to set: the task's own is not sent"));
            continue;
        }
        // The value may be a secret: say which header, never what it holds.
        let value = value.parse().map_err(|_| format!("the value of header {parsed} is not valid"))?;
        headers.insert(parsed, value);
    }
    Ok(headers)
}

/// The URL without what may be secret.
pub(super) fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    shown.into()
}
