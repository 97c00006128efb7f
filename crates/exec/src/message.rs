//! Posts a message to a service over HTTP: what Slack and Telegram have in common. Each of them judges its answers
//! itself.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use punctual_core::Span;
use punctual_core::attempt::{Failure, FailureClass, Outcome, Ran};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::http::answer::{self, HttpAnswer};
use crate::http::request::{Outgoing, own_headers};
use crate::http::wire::{HttpError, Wire};
use crate::http::{never_sent, not_connected};
use crate::{Call, ExecutionEnd, clock, retry_after, root_cause};

/// Message services answer within seconds, or are in trouble.
const TIMEOUT: Span = Span::from_secs(30);

/// A message to send. The URL is secret; `place` is its name in the log.
pub(crate) struct Message {
    pub(crate) url: Url,
    pub(crate) place: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
}

/// The answer of the service.
pub(crate) struct MessageAnswer {
    pub(crate) status: StatusCode,
    /// How long the service asks to wait (`Retry-After`).
    pub(crate) retry_after: Option<Span>,
    /// The body; absent if the connection broke after a status that is sufficient.
    pub(crate) answer: Option<HttpAnswer>,
}

/// Sends a message, logs it, and lets `judge` interpret the answer.
pub(crate) async fn post(
    wire: &Wire,
    call: &Call,
    message: Message,
    judge: impl FnOnce(&MessageAnswer) -> Result<Bytes, Failure>,
) -> Result<Bytes, Failure> {
    let Message { url, place, content_type, body } = message;
    let mut headers = own_headers(call);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    let outgoing = Outgoing { method: Method::POST, url, headers, body: Some(body) };
    let begun = Instant::now();
    let deadline = begun + TIMEOUT.to_std();
    let sent = wire.send(&outgoing, deadline).await;
    let took_ms = begun.elapsed().as_millis();
    let mut reply = sent.map_err(|unanswered| {
        let failure = not_answered(&unanswered);
        call.log.line(format!("{place} → {} after {took_ms} ms", failure.reason));
        failure
    })?;
    let status = reply.status;
    call.log.line(format!("{place} → {} in {took_ms} ms", status.as_u16()));
    let retry_after = retry_after::read(&reply.headers, clock::now());
    let answer = match timeout_at(deadline, answer::read(&mut reply.body, call.log.redactor().as_ref())).await {
        Ok(Ok(answer)) => Some(answer),
        Ok(Err(_)) | Err(_) if !status.is_success() => None,
        Ok(Err(error)) => {
            return Err(in_doubt(FailureClass::Network, format!("the answer broke off: {}", root_cause(&error))));
        }
        Err(_) => {
            return Err(in_doubt(FailureClass::Timeout, format!("the answer was not complete within {TIMEOUT}")));
        }
    };
    let outcome = judge(&MessageAnswer { status, retry_after, answer });
    if outcome.is_ok() {
        wire.keep(reply);
    }
    outcome
}

/// Waits for the result of the message, or until the attempt is cancelled.
pub(crate) async fn until_cancelled(call: &Call, sent: impl Future<Output = Result<Bytes, Failure>>) -> ExecutionEnd {
    let outcome = tokio::select! {
        biased;
        sent = sent => match sent {
            Ok(output) => Outcome::Succeeded { output: Some(output) },
            Err(failure) => Outcome::Failed(failure),
        },
        () = call.cancel.cancelled() => Outcome::Cancelled,
    };
    outcome.into()
}

/// It is unknown whether the service accepted the message.
pub(crate) fn in_doubt(class: FailureClass, reason: String) -> Failure {
    Failure { class, ran: Ran::Unknown, ..Failure::new(reason) }
}

/// The task names something that this worker's settings lack. Another worker may have it.
pub(crate) fn not_configured(what: &str, name: &str, setting: &str) -> Failure {
    let reason = format!("this worker has no {what} {name:?}; its setting {setting} can have it");
    Failure { class: FailureClass::Environment, ran: Ran::No, ..Failure::new(reason) }
}

fn not_answered(unanswered: &HttpError) -> Failure {
    match unanswered {
        HttpError::NotConnected(reached) => not_connected(reached),
        HttpError::Unfit(_) => never_sent(unanswered.to_string()),
        HttpError::Broken(_) => in_doubt(FailureClass::Network, unanswered.to_string()),
        HttpError::Late => in_doubt(FailureClass::Timeout, unanswered.to_string()),
    }
}
