//! What the end of a program means.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | It succeeded; what it left in `PUNCTUAL_OUTPUT` is the job's output. |
//! | 75 | It failed and should be tried again later: if `PUNCTUAL_OUTPUT` holds a time such as `90s`, not before. |
//! | 100 | Permanent failure; trying again would not help. |
//! | any other, or a signal | It failed; the task's retry policy decides. |

use bytes::Bytes;
use punctual_core::Span;
use punctual_core::attempt::{Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::run::Limits;
use punctual_core::size::ByteSize;
use punctual_sandbox::{Exit, LimitHit, Status};

use crate::Call;

const TRY_LATER: i32 = 75;
const FAILED_FOR_GOOD: i32 = 100;
/// What servers keep of an output. A result that is longer than a sandbox passes on is longer than this.
const OUTPUT_KEPT: u64 = 256 << 10;

/// What the worker requested of the program before it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndOrder {
    Cancelled,
    TimeOver,
}

pub(crate) fn outcome(exit: Exit, ordered: Option<EndOrder>, limits: &Limits, call: &Call) -> Outcome {
    if let Some(hit) = ends_it(&exit) {
        let reason = over_limit(hit, limits);
        call.log.line(format!("[{reason}]"));
        return failed(reason, FailureClass::Limit);
    }
    match (exit.status, ordered) {
        // It may have ended by itself in the last moment.
        (Status::Code(0), _) => Outcome::Succeeded { output: exit.result },
        (_, Some(EndOrder::Cancelled)) => Outcome::Cancelled,
        (_, Some(EndOrder::TimeOver)) => failed(time_over(call), FailureClass::Timeout),
        (Status::Code(FAILED_FOR_GOOD), None) => {
            Outcome::Failed(Failure { last: Last::Yes, ..Failure::new("exit code 100: permanent failure") })
        }
        (Status::Code(TRY_LATER), None) => Outcome::Failed(Failure {
            retry_after: exit.result.as_ref().and_then(wait_asked_for),
            ..Failure::new("exit code 75: it asks to be tried again later")
        }),
        (Status::Code(code), None) => failed(format!("exit code {code}"), FailureClass::Task),
        (Status::Signal(signal), None) => {
            failed(format!("ended by signal {}", signal_name(signal)), FailureClass::Task)
        }
        (Status::Lost, None) => Outcome::Failed(Failure {
            class: FailureClass::Environment,
            ran: Ran::Unknown,
            ..Failure::new("the sandbox was lost while the program ran")
        }),
    }
}

/// The limit that fails the attempt, if any. A program that reached a limit and still succeeded is not failed, except
/// for the limits of its output, because part of the output is missing.
fn ends_it(exit: &Exit) -> Option<LimitHit> {
    exit.hit.filter(|hit| matches!(hit, LimitHit::Output | LimitHit::Result) || exit.status != Status::Code(0))
}

fn over_limit(hit: LimitHit, limits: &Limits) -> String {
    match hit {
        LimitHit::Oom => format!("oom: it used more than {} of memory", limits.memory),
        LimitHit::Pids => format!("pids: it started more than {} processes and threads", limits.pids),
        LimitHit::Output => format!("output: it printed more than {}", limits.output),
        LimitHit::Result => {
            format!("output: it wrote more than {} to PUNCTUAL_OUTPUT", ByteSize::bytes(OUTPUT_KEPT))
        }
        LimitHit::Disk => format!("disk: it wrote more than {} to /tmp", limits.disk),
    }
}

fn time_over(call: &Call) -> String {
    if call.deadline.is_some() { "timeout: it did not end in time".to_owned() } else { "it was ended".to_owned() }
}

fn failed(reason: String, class: FailureClass) -> Outcome {
    Outcome::Failed(Failure { class, ..Failure::new(reason) })
}

fn wait_asked_for(result: &Bytes) -> Option<Span> {
    let text = std::str::from_utf8(result).ok()?.trim();
    match text.parse::<u32>() {
        Ok(seconds) => Some(Span::from_secs(i64::from(seconds))),
        Err(_) => Span::parse(text).ok(),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        7 => "BUS",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        15 => "TERM",
        24 => "XCPU",
        25 => "XFSZ",
        31 => "SYS",
        _ => return signal.to_string(),
    };
    format!("{signal} (SIG{name})")
}
