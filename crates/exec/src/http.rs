//! Sends one HTTP request and keeps the start of the answer.
//!
//! Says as exactly as it can whether the receiver may have acted: not when no connection
//! came about, certainly when it answered, unknown when the request may have gone out and no
//! answer came. Follows no redirect, uses no proxy of the environment, and logs neither
//! headers nor query strings.

mod answer;
mod request;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use punctual_core::attempt::{Failure, Last, Outcome, Ran};
use punctual_core::task::{HttpCall, Run};
use reqwest::{Client, Response};
use tokio::time::timeout_at;

use crate::{Call, Executor, clock, retry_after, root_cause, wrong_kind};
use answer::Answer;

/// Shorter than the usual timeout of a request, so that a host which cannot be reached is
/// told apart from one that does not answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One client, and so one pool of connections, for all requests of a worker.
pub struct Http {
    client: Client,
}

impl Http {
    /// Fails only where no TLS can be set up at all.
    pub fn new() -> Result<Self, reqwest::Error> {
        // Another part of the process may have chosen a provider before us; that is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_nodelay(true)
        };
        let client = builder().build().or_else(|error| {
            tracing::warn!(%error, "no certificate authorities found: https calls will fail");
            builder().tls_certs_only([]).build()
        })?;
        Ok(Self { client })
    }
}

#[async_trait]
impl Executor for Http {
    fn kind(&self) -> &'static str {
        "http"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["http".to_owned()]
    }

    async fn execute(self: Arc<Self>, call: Call) -> Outcome {
        let Run::Http(spec) = &*call.run else {
            return wrong_kind(&call.run);
        };
        tokio::select! {
            biased;
            outcome = exchange(&self.client, spec, &call) => outcome,
            () = call.cancel.cancelled() => Outcome::Cancelled,
        }
    }
}

async fn exchange(client: &Client, spec: &HttpCall, call: &Call) -> Outcome {
    let request = match request::build(spec, call) {
        Ok(request) => request,
        Err(reason) => return failed(reason, Last::Yes, Ran::No),
    };
    let line = format!("{} {}", spec.method.as_str(), request::shown(request.url()));
    let begun = Instant::now();
    let deadline = (begun + spec.timeout.to_std()).into();

    let sent = timeout_at(deadline, client.execute(request)).await;
    let took_ms = begun.elapsed().as_millis();
    let mut response = match sent {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            let failure = not_answered(error);
            call.log.line(format!("{line} → {} after {took_ms} ms", failure.reason));
            return Outcome::Failed(failure);
        }
        Err(_) => {
            let reason = format!("no answer within {}", spec.timeout);
            call.log.line(format!("{line} → {reason}"));
            return failed(reason, Last::No, Ran::Unknown);
        }
    };
    call.log.line(format!("{line} → {} in {took_ms} ms", response.status().as_u16()));

    let answer = timeout_at(deadline, answer::read(&mut response)).await;
    let answer = match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("the answer broke off: {}", root_cause(&error.without_url()))),
        Err(_) => Err(format!("the answer was not complete within {}", spec.timeout)),
    };
    match &answer {
        Ok(answer) => call.log.line(answer.size()),
        Err(reason) => call.log.line(reason),
    }
    judge(spec, &response, answer, call)
}

fn judge(spec: &HttpCall, response: &Response, answer: Result<Answer, String>, call: &Call) -> Outcome {
    let status = response.status();
    let expected = match spec.expect_status.as_slice() {
        [] => status.is_success(),
        listed => listed.contains(&status.as_u16()),
    };
    match answer {
        Ok(answer) if expected => Outcome::Succeeded { output: Some(answer.to_output(status)) },
        // The status says that it worked and the rest of the answer never came.
        Err(reason) if expected => failed(reason, Last::No, Ran::Unknown),
        answer => {
            if let Some(excerpt) = answer.ok().and_then(|answer| answer.excerpt()) {
                call.log.line(format!("answer: {excerpt}"));
            }
            Outcome::Failed(Failure {
                reason: format!("unexpected status {status}"),
                last: Last::No,
                retry_after: retry_after::read(response.headers(), clock::now()),
                ran: Ran::Yes,
            })
        }
    }
}

fn not_answered(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    let (what, ran, last) = if error.is_connect() {
        ("cannot connect", Ran::No, Last::No)
    } else if error.is_builder() {
        ("the request cannot be sent", Ran::No, Last::Yes)
    } else {
        ("no answer", Ran::Unknown, Last::No)
    };
    Failure { reason: format!("{what}: {}", root_cause(&error)), last, retry_after: None, ran }
}

fn failed(reason: String, last: Last, ran: Ran) -> Outcome {
    Outcome::Failed(Failure { reason, last, retry_after: None, ran })
}
