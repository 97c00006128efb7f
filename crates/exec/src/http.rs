//! Sends one HTTP request and keeps the start of the answer.
//!
//! Says as exactly as it can whether the receiver may have acted: not when no connection came
//! about, certainly when it answered, unknown when the request may have gone out and no answer
//! came. Speaks HTTP/1.1, uses no proxy of the environment, follows a redirect only when the task
//! says so, and logs neither headers nor query strings.

pub(crate) mod answer;
mod idle;
mod judge;
mod redirect;
pub(crate) mod request;
mod sign;
pub(crate) mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use http::StatusCode;
use punctual_core::attempt::{Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::task::{HttpCall, Run};
use tokio::time::{Instant, timeout_at};

use crate::dial::{NotConnected, Outbound};
use crate::{Call, ExecutionEnd, Executor, clock, root_cause, wrong_kind};
use redirect::RedirectDecision;
use request::Outgoing;
use wire::{HttpError, Reply, Wire};

pub use sign::WebhookKeys;

/// One set of connections for all requests of a worker.
pub struct Http {
    wire: Wire,
    keys: WebhookKeys,
}

impl Http {
    pub fn new(outbound: Arc<Outbound>) -> Self {
        Self { wire: Wire::new(outbound), keys: WebhookKeys::default() }
    }

    /// Signs requests of tasks that ask for one of these keys.
    #[must_use]
    pub fn webhook_keys(mut self, keys: WebhookKeys) -> Self {
        self.keys = keys;
        self
    }

    async fn exchange(&self, spec: &HttpCall, call: &Call) -> Outcome {
        let mut request = match request::build(spec, call) {
            Ok(request) => request,
            Err(reason) => return Outcome::Failed(never_sent(reason)),
        };
        if let Some(name) = &spec.sign_with {
            let now = clock::now();
            if let Err(reason) = self.keys.sign(name, call.job, now, &mut request) {
                return Outcome::Failed(Failure {
                    class: FailureClass::Environment,
                    ran: Ran::No,
                    ..Failure::new(reason)
                });
            }
        }
        let deadline = Instant::now() + spec.timeout.to_std();
        let mut followed = 0;
        loop {
            let reply = match self.send(&request, spec, call, deadline).await {
                Ok(reply) => reply,
                Err(failure) => return Outcome::Failed(after_redirects(failure, followed)),
            };
            if judge::is_expected(spec, reply.status) {
                return self.end(spec, reply, None, call, deadline).await;
            }
            match redirect::next(spec, &request, &reply, followed) {
                RedirectDecision::Follow(next) => {
                    call.log.line(format!("redirected to {}", request::shown(&next.url)));
                    request = *next;
                    followed += 1;
                }
                RedirectDecision::Refused(reason) => {
                    return Outcome::Failed(Failure { last: Last::Yes, ..Failure::new(reason) });
                }
                RedirectDecision::Stay(hint) => return self.end(spec, reply, hint, call, deadline).await,
            }
        }
    }

    async fn send(
        &self,
        request: &Outgoing,
        spec: &HttpCall,
        call: &Call,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        let line = format!("{} {}", request.method, request::shown(&request.url));
        let begun = Instant::now();
        match self.wire.send(request, deadline).await {
            Ok(reply) => {
                let took_ms = begun.elapsed().as_millis();
                call.log.line(format!("{line} → {} in {took_ms} ms", reply.status.as_u16()));
                Ok(reply)
            }
            Err(unanswered) => {
                let took_ms = begun.elapsed().as_millis();
                let failure = not_answered(unanswered, spec);
                call.log.line(format!("{line} → {} after {took_ms} ms", failure.reason));
                Err(failure)
            }
        }
    }

    /// Reads the rest of the answer and decides. `hint` says why a redirect was not followed.
    async fn end(
        &self,
        spec: &HttpCall,
        mut reply: Reply,
        hint: Option<String>,
        call: &Call,
        deadline: Instant,
    ) -> Outcome {
        let answer = match timeout_at(deadline, answer::read(&mut reply.body, call.log.redactor().as_ref())).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err((FailureClass::Network, format!("the answer broke off: {}", root_cause(&error)))),
            Err(_) => Err((FailureClass::Timeout, format!("the answer was not complete within {}", spec.timeout))),
        };
        match &answer {
            Ok(answer) => call.log.line(answer.size()),
            Err((_, reason)) => call.log.line(reason),
        }
        let outcome = judge::judge(spec, &reply, &answer, hint, call);
        if answer.is_ok_and(|answer| !answer.is_cut()) {
            self.wire.keep(reply);
        }
        outcome
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

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let Run::Http(spec) = &*call.run else {
            return wrong_kind(&call.run).into();
        };
        let outcome = tokio::select! {
            biased;
            outcome = self.exchange(spec, &call) => outcome,
            () = call.cancel.cancelled() => Outcome::Cancelled,
        };
        outcome.into()
    }
}

fn not_answered(unanswered: HttpError, spec: &HttpCall) -> Failure {
    let reason = unanswered.to_string();
    match unanswered {
        HttpError::NotConnected(reached) => not_connected(&reached),
        HttpError::Unfit(_) => never_sent(reason),
        HttpError::Broken(_) => Failure { class: FailureClass::Network, ran: Ran::Unknown, ..Failure::new(reason) },
        HttpError::Late => Failure {
            class: FailureClass::Timeout,
            ran: Ran::Unknown,
            ..Failure::new(format!("no answer within {}", spec.timeout))
        },
    }
}

/// Nothing was sent. A refusal by the guard is permanent; every other failure to connect may pass.
pub(crate) fn not_connected(reached: &NotConnected) -> Failure {
    let reason = reached.to_string();
    match reached {
        NotConnected::Refused(_) => never_sent(reason),
        NotConnected::NoAddress(_) | NotConnected::Tcp(_) | NotConnected::Tls(_) | NotConnected::Late(_) => {
            Failure { class: FailureClass::Network, ran: Ran::No, ..Failure::new(reason) }
        }
    }
}

/// A request that cannot be sent, now or later.
pub(crate) fn never_sent(reason: String) -> Failure {
    Failure { last: Last::Yes, ran: Ran::No, ..Failure::new(reason) }
}

/// Once a receiver answered, be it with a redirect, something ran.
fn after_redirects(failure: Failure, followed: u8) -> Failure {
    let ran = match failure.ran {
        Ran::No if followed > 0 => Ran::Yes,
        ran => ran,
    };
    Failure { ran, ..failure }
}

/// Whether another try is pointless: the receiver understood and said no. Used where a task says
/// nothing else.
pub(crate) fn is_final(status: StatusCode) -> bool {
    let may_pass = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    (status.is_redirection() || status.is_client_error()) && !may_pass.contains(&status)
}
