//! Posting a message to a service by HTTP: what Slack and Telegram have in common. What an answer means is theirs to say.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use punctual_core::Span;
use punctual_core::attempt::{Failure, FailureClass, Outcome, Ran};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::http::answer::{self, Answer};
use crate::http::request::{Outgoing, own_headers};
use crate::http::wire::{Unanswered, Wire};
use crate::http::{never_sent, not_connected};
use crate::{Call, Ended, clock, retry_after, root_cause};

/// These services answer within seconds or have trouble.
const TIMEOUT: Span = Span::from_secs(30);

/// A message on its way. The URL is a secret: `place` is what the log calls it.
pub(crate) struct Message {
    pub(crate) url: Url,
    pub(crate) place: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
}

/// What the service answered.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    /// How long it wants to be left alone.
    pub(crate) retry_after: Option<Span>,
    /// Absent if it broke off after a status that says enough.
    pub(crate) answer: Option<Answer>,
}

/// Sends a message, logs that, and lets `judge` say what the answer means.
pub(crate) async fn post(
    wire: &Wire,
    call: &Call,
    message: Message,
    judge: impl FnOnce(&Answered) -> Result<Bytes, Failure>,
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
    let answer = match timeout_at(deadline, answer::read(&mut reply.body)).await {
        Ok(Ok(answer)) => Some(answer),
        Ok(Err(_)) | Err(_) if !status.is_success() => None,
        Ok(Err(error)) => {
            return Err(in_doubt(FailureClass::Network, format!("the answer broke off: {}", root_cause(&error))));
        }
        Err(_) => {
            return Err(in_doubt(FailureClass::Timeout, format!("the answer was not complete within {TIMEOUT}")));
        }
    };
    let outcome = judge(&Answered { status, retry_after, answer });
    if outcome.is_ok() {
        wire.keep(reply);
    }
    outcome
}

/// Ends with what became of the message, or when the attempt is cancelled.
pub(crate) async fn until_cancelled(call: &Call, sent: impl Future<Output = Result<Bytes, Failure>>) -> Ended {
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

/// Nobody knows whether the service took it.
pub(crate) fn in_doubt(class: FailureClass, reason: String) -> Failure {
    Failure { class, ran: Ran::Unknown, ..Failure::new(reason) }
}

/// A task names something that this worker's settings do not have. Another worker may have it.
pub(crate) fn not_configured(what: &str, name: &str, setting: &str) -> Failure {
    let reason = format!("this worker has no {what} {name:?}; its setting {setting} can have it");
    Failure { class: FailureClass::Environment, ran: Ran::No, ..Failure::new(reason) }
}

fn not_answered(unanswered: &Unanswered) -> Failure {
    match unanswered {
        Unanswered::NotConnected(reached) => not_connected(reached),
        Unanswered::Unfit(_) => never_sent(unanswered.to_string()),
        Unanswered::Broken(_) => in_doubt(FailureClass::Network, unanswered.to_string()),
        Unanswered::Late => in_doubt(FailureClass::Timeout, unanswered.to_string()),
    }
}
