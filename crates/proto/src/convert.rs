//! Wire to core and back. A message that does not fit is an error of the sender.

use bytes::Bytes;
use punctual_core::attempt::{AttemptNo, Failure, Last, Outcome, Ran};
use punctual_core::shard::event::Report;
use punctual_core::{JobId, Span};

use crate::worker as wire;

/// Why a message was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadMessage(pub &'static str);

impl std::fmt::Display for BadMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadMessage {}

pub fn job_id(bytes: &[u8]) -> Result<JobId, BadMessage> {
    JobId::from_bytes(bytes).ok_or(BadMessage("a job id is 16 bytes of UUID version 7"))
}

pub fn id_bytes(id: [u8; 16]) -> Bytes {
    Bytes::copy_from_slice(&id)
}

pub fn attempt_ref(id: JobId, attempt: AttemptNo) -> wire::AttemptRef {
    wire::AttemptRef { job_id: id_bytes(id.to_bytes()), attempt: attempt.0 }
}

pub fn read_attempt_ref(wire: &wire::AttemptRef) -> Result<(JobId, AttemptNo), BadMessage> {
    Ok((job_id(&wire.job_id)?, AttemptNo(wire.attempt)))
}

pub fn outcome_to_wire(report: &Report) -> wire::Outcome {
    use wire::outcome::Result as R;
    let result = match &report.outcome {
        Outcome::Succeeded { output } => R::Succeeded(wire::Succeeded { output: output.clone() }),
        Outcome::Failed(failure) => R::Failed(wire::Failed {
            reason: failure.reason.clone(),
            r#final: failure.last == Last::Yes,
            retry_after_us: failure.retry_after.map(|span| span.as_micros().unsigned_abs()),
            ran: match failure.ran {
                Ran::Yes => wire::Ran::Yes,
                Ran::No => wire::Ran::No,
                Ran::Unknown => wire::Ran::Unknown,
            }
            .into(),
            timed_out: report.timed_out,
        }),
        Outcome::Cancelled => R::Cancelled(wire::Cancelled {}),
        Outcome::NotStarted { reason } => R::NotStarted(wire::NotStarted { reason: reason.clone() }),
    };
    wire::Outcome { job_id: id_bytes(report.id.to_bytes()), attempt: report.attempt.0, result: Some(result) }
}

pub fn outcome_from_wire(wire: wire::Outcome) -> Result<Report, BadMessage> {
    use wire::outcome::Result as R;
    let id = job_id(&wire.job_id)?;
    let mut timed_out = false;
    let outcome = match wire.result.ok_or(BadMessage("an outcome has a result"))? {
        R::Succeeded(succeeded) => Outcome::Succeeded { output: succeeded.output },
        R::Failed(failed) => {
            timed_out = failed.timed_out;
            let ran = match failed.ran() {
                wire::Ran::Yes => Ran::Yes,
                wire::Ran::No => Ran::No,
                wire::Ran::Unknown => Ran::Unknown,
            };
            Outcome::Failed(Failure {
                last: if failed.r#final { Last::Yes } else { Last::No },
                retry_after: failed.retry_after_us.map(|us| Span::from_micros(i64::try_from(us).unwrap_or(i64::MAX))),
                reason: failed.reason,
                ran,
            })
        }
        R::Cancelled(_) => Outcome::Cancelled,
        R::NotStarted(not_started) => Outcome::NotStarted { reason: not_started.reason },
    };
    Ok(Report { id, attempt: AttemptNo(wire.attempt), outcome, timed_out })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{ShardId, Timestamp};

    #[test]
    fn an_outcome_survives_the_wire() {
        let id = JobId::new(Timestamp::EPOCH, ShardId(3), 9);
        let failure =
            Failure { reason: "no route".into(), last: Last::Yes, retry_after: Some(Span::from_secs(7)), ran: Ran::No };
        for outcome in [
            Outcome::Succeeded { output: None },
            Outcome::Succeeded { output: Some(Bytes::from_static(b"done")) },
            Outcome::Failed(failure),
            Outcome::Cancelled,
            Outcome::NotStarted { reason: "draining".into() },
        ] {
            let report = Report { id, attempt: AttemptNo(2), outcome, timed_out: false };
            assert_eq!(outcome_from_wire(outcome_to_wire(&report)), Ok(report));
        }
    }
}
