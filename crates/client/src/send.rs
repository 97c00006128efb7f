//! Sends a request, again where that is safe, and reads the answer.

use std::time::{Duration, Instant};

use punctual_api::{ErrorKind, NAMESPACE_HEADER, Problem};
use reqwest::header::AUTHORIZATION;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::listeners::UntrustedListener;
use crate::{ANSWER_TIMEOUT, Client, ClientError};

/// Whether a request may be repeated when it is unknown whether the server handled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    Safe,
    Unsafe,
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The length of the quotation from an error page of another program on that port.
const QUOTE_CHARS_MAX: usize = 200;

impl Client {
    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.http[self.place()].request(method, url).timeout(ANSWER_TIMEOUT)
    }

    pub(crate) fn get(&self, url: Url) -> RequestBuilder {
        self.request(Method::GET, url)
    }

    pub(crate) fn post(&self, url: Url) -> RequestBuilder {
        self.request(Method::POST, url)
    }

    /// The successful answer, or the problem it carries.
    pub(crate) async fn send(&self, request: RequestBuilder, repeat: Repeat) -> Result<Response, ClientError> {
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let result = self.send_round(&request, repeat).await;
            let again = repeat == Repeat::Safe && begun.elapsed() + pause <= self.repeat_budget;
            match result {
                Err(error) if again && may_pass(&error) => tokio::time::sleep(pause).await,
                result => return result,
            }
            pause *= 2;
        }
    }

    /// Asks one server after the other until one answers.
    async fn send_round(&self, request: &RequestBuilder, repeat: Repeat) -> Result<Response, ClientError> {
        let mut others = self.bases.len() - 1;
        loop {
            // Bodies are in memory, so every request can be cloned.
            let once = request.try_clone().expect("no request has a streamed body");
            match self.send_once(once).await {
                Err(error) if others > 0 && may_ask_another(&error, repeat) => self.turn(),
                result => return result,
            }
            others -= 1;
        }
    }

    async fn send_once(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let mut request = request.build().map_err(|source| self.unreachable(source))?;
        *request.url_mut() = self.redirected(request.url());
        if let Some(token) = &self.tokens[self.place()] {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        if let Some(namespace) = &self.namespace {
            request.headers_mut().insert(NAMESPACE_HEADER, namespace.clone());
        }
        let (method, url) = (request.method().clone(), request.url().clone());
        let begun = Instant::now();
        let result = self.http[self.place()].execute(request).await.map_err(|source| self.unreachable(source));
        let told = match &result {
            Ok(response) => response.status().to_string(),
            Err(error) => error.unreachable_because().unwrap_or_default(),
        };
        tracing::debug!("{method} {}: {told}, {:.1?}", path_of(&url), begun.elapsed());
        let response = result?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let text = response.text().await.map_err(|source| self.unreachable(source))?;
        Err(match serde_json::from_str::<Problem>(&text) {
            Ok(problem) => ClientError::Problem(Box::new(problem)),
            Err(_) => self.bad_answer(format!("{status}: {}", quote(&text))),
        })
    }

    pub(crate) async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T, ClientError> {
        let bytes = response.bytes().await.map_err(|source| self.unreachable(source))?;
        serde_json::from_slice(&bytes).map_err(|error| self.bad_answer(error.to_string()))
    }

    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        repeat: Repeat,
    ) -> Result<T, ClientError> {
        let response = self.send(request, repeat).await?;
        self.read(response).await
    }

    pub(crate) fn unreachable(&self, source: reqwest::Error) -> ClientError {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&source);
        while let Some(found) = cause {
            if let Some(untrusted) = found.downcast_ref::<UntrustedListener>() {
                return ClientError::UntrustedListener { url: self.url().to_owned(), reason: untrusted.to_string() };
            }
            cause = found.source();
        }
        // The address is named once, by our own error.
        ClientError::Unreachable { url: self.url().to_owned(), source: source.without_url() }
    }

    pub(crate) fn bad_answer(&self, reason: String) -> ClientError {
        ClientError::BadAnswer { url: self.url().to_owned(), reason }
    }
}

/// Whether another server may be asked the same: this one did not act on it, or that does no harm.
fn may_ask_another(error: &ClientError, repeat: Repeat) -> bool {
    error.is_refused_connection()
        || error.kind() == Some(ErrorKind::NotServedHere)
        || (repeat == Repeat::Safe && may_pass(error))
}

fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { source, .. } => !source.is_timeout() && !source.is_decode(),
        ClientError::Problem(problem) => problem.status == StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        ClientError::BadUrl { .. }
        | ClientError::Setup(_)
        | ClientError::BadAnswer { .. }
        | ClientError::UntrustedListener { .. }
        | ClientError::NoEntropy(_) => false,
    }
}

/// The path of the request, without the server's address.
fn path_of(url: &Url) -> &str {
    url.as_str().get(url.origin().ascii_serialization().len()..).unwrap_or_default()
}

fn quote(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(QUOTE_CHARS_MAX).collect()
}

/// Adds a flat struct of optional texts to an address as its query.
pub(crate) fn with_query(mut url: Url, query: &impl Serialize) -> Url {
    let fields = serde_json::to_value(query).expect("a query is plain data");
    let fields = fields.as_object().expect("a query is a struct");
    let mut pairs = url.query_pairs_mut();
    for (key, value) in fields {
        match value {
            serde_json::Value::Null => continue,
            serde_json::Value::String(text) => pairs.append_pair(key, text),
            other => pairs.append_pair(key, &other.to_string()),
        };
    }
    drop(pairs);
    url
}
