//! Requests to the provider: bounded in size and time, and never sent anywhere else than asked.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode};

use crate::Fault;
use crate::fault::quoted;
use crate::settings::BadSettings;

/// From the first byte of the request to the last of the answer. People wait for it.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// Many times what a document, a set of keys or a token of a large organization has.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Follows no redirects: an answer from elsewhere would not be the provider's.
pub(crate) fn client(tls: Option<rustls::ClientConfig>) -> Result<reqwest::Client, BadSettings> {
    let builder = reqwest::Client::builder()
        .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIME_MAX)
        .timeout(ANSWER_TIME_MAX);
    let tls = match tls {
        Some(config) => config,
        None => nobodys()?,
    };
    let builder = builder.tls_backend_preconfigured(tls);
    builder.build().map_err(|error| BadSettings::Http(error.to_string()))
}

/// Trusts nobody, for plain HTTP on loopback. Looking for the system's certificates fails on machines that have none.
fn nobodys() -> Result<rustls::ClientConfig, BadSettings> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| BadSettings::Http(error.to_string()))?;
    Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

/// An answer that arrived as a whole.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

/// `what` names the endpoint.
pub(crate) async fn send(request: RequestBuilder, what: &'static str) -> Result<Answered, Fault> {
    let unavailable = |error: reqwest::Error| Fault::Unavailable(format!("{what}: {}", cause_of(error)));
    let mut response = request.send().await.map_err(unavailable)?;
    let status = response.status();
    if status.is_redirection() {
        return Err(Fault::Unusable(format!("{what} answers with a redirect ({status}), which is not followed")));
    }
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Err(Fault::Unavailable(format!("{what} answers with {status}")));
    }
    let too_large = || Fault::Unusable(format!("the answer of {what} is larger than {ANSWER_BYTES_MAX} bytes"));
    if response.content_length().is_some_and(|len| len > ANSWER_BYTES_MAX as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unavailable)? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answered { status, body })
}

/// The last cause says it; the address is in the settings.
fn cause_of(error: reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", ANSWER_TIME_MAX.as_secs());
    }
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    quoted(&cause.to_string())
}
