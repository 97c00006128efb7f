//! From a task's definition to a request.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use punctual_core::task::HttpCall;
use reqwest::{Request, Url};

use crate::Call;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const JOB_ID: HeaderName = HeaderName::from_static("punctual-job-id");
const ATTEMPT: HeaderName = HeaderName::from_static("punctual-attempt");
const TRACING_ID: HeaderName = HeaderName::from_static("punctual-tracing-id");

/// The error is a sentence for the user: nothing was sent.
pub(super) fn build(spec: &HttpCall, call: &Call) -> Result<Request, String> {
    let url = parse_url(&spec.url)?;
    let method = spec.method.as_str().parse().expect("our methods are HTTP methods");
    let mut request = Request::new(method, url);
    let body = match &spec.body {
        Some(body) => Some(Bytes::copy_from_slice(body.as_bytes())),
        None if spec.method.takes_body() => call.input.clone(),
        None => None,
    };
    *request.headers_mut() = headers(spec, call, body.is_some())?;
    *request.body_mut() = body.map(reqwest::Body::from);
    Ok(request)
}

fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("the url is not valid: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("only http and https urls can be called, not {}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the url must not carry a user name or password: use a header".to_owned());
    }
    Ok(url)
}

fn headers(spec: &HttpCall, call: &Call, has_body: bool) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::with_capacity(8 + spec.headers.len());
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("punctual/", env!("CARGO_PKG_VERSION"))));
    if has_body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &spec.headers {
        let parsed: HeaderName = name.parse().map_err(|_| format!("`{name}` is not the name of a header"))?;
        if HttpCall::is_reserved_header(parsed.as_str()) {
            call.log.line(format!("header {parsed} is not for a task to set: the task's own is not sent"));
            continue;
        }
        // The value may be a secret: say which header, never what it holds.
        let value = value.parse().map_err(|_| format!("the value of header {parsed} is not valid"))?;
        headers.insert(parsed, value);
    }
    let job = HeaderValue::from_str(&call.job.to_string()).expect("an id is ASCII");
    headers.insert(IDEMPOTENCY_KEY, job.clone());
    headers.insert(JOB_ID, job);
    headers.insert(ATTEMPT, HeaderValue::from(call.attempt.0));
    if let Some(tracing_id) = &call.tracing_id {
        match tracing_id.parse() {
            Ok(value) => {
                headers.insert(TRACING_ID, value);
            }
            Err(_) => call.log.line("the tracing id does not fit into a header and is not sent"),
        }
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
