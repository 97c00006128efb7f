//! What an answer means for the attempt.

use http::StatusCode;
use punctual_core::attempt::{Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::task::HttpCall;
use regex::RegexBuilder;

use super::answer::HttpAnswer;
use super::is_final;
use super::wire::Reply;
use crate::{Call, clock, retry_after};

pub(super) fn is_expected(spec: &HttpCall, status: StatusCode) -> bool {
    match spec.expect_status.as_slice() {
        [] => status.is_success(),
        listed => listed.contains(&status.as_u16()),
    }
}

pub(super) fn judge(
    spec: &HttpCall,
    reply: &Reply,
    answer: &Result<HttpAnswer, (FailureClass, String)>,
    hint: Option<String>,
    call: &Call,
) -> Outcome {
    let status = reply.status;
    let retry_after = retry_after::read(&reply.headers, clock::now());
    match (answer, is_expected(spec, status)) {
        (Ok(answer), true) => match &spec.expect_body {
            Some(pattern) => match_body(pattern, answer, status, call),
            None => Outcome::Succeeded { output: Some(answer.to_output(status)) },
        },
        // The status says that it worked and the rest of the answer never came.
        (Err((class, reason)), true) => {
            Outcome::Failed(Failure { class: *class, ran: Ran::Unknown, ..Failure::new(reason) })
        }
        (answer, false) => {
            if let Some(excerpt) = answer.as_ref().ok().and_then(HttpAnswer::excerpt) {
                call.log.line(format!("answer: {excerpt}"));
            }
            let hint = hint.map(|hint| format!(": {hint}")).unwrap_or_default();
            Outcome::Failed(Failure {
                last: last(spec, status, retry_after.is_some()),
                retry_after,
                ..Failure::new(format!("unexpected status {status}{hint}"))
            })
        }
    }
}

/// A receiver that names a time to come back wants to be asked again.
fn last(spec: &HttpCall, status: StatusCode, asks_to_come_back: bool) -> Last {
    let is_worth_it = match spec.retry_status.as_slice() {
        [] => !is_final(status),
        listed => listed.contains(&status.as_u16()),
    };
    if is_worth_it || asks_to_come_back { Last::No } else { Last::Yes }
}

fn match_body(pattern: &str, answer: &HttpAnswer, status: StatusCode, call: &Call) -> Outcome {
    let compiled = RegexBuilder::new(pattern).size_limit(HttpCall::EXPECT_BODY_COMPILED_BYTES_MAX).build();
    let Ok(regex) = compiled else {
        let reason = "expect_body is not a regular expression that this worker can use".to_owned();
        return Outcome::Failed(Failure { last: Last::Yes, ..Failure::new(reason) });
    };
    if regex.is_match(&answer.text()) {
        return Outcome::Succeeded { output: Some(answer.to_output(status)) };
    }
    if let Some(excerpt) = answer.excerpt() {
        call.log.line(format!("answer: {excerpt}"));
    }
    let place = if answer.is_cut() { "the start of the answer" } else { "the answer" };
    Outcome::Failed(Failure::new(format!("{place} (status {}) does not match expect_body", status.as_u16())))
}
