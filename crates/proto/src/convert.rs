//! Wire to core and back. A message that does not fit is an error of the sender.

use bytes::Bytes;
use punctual_core::attempt::{AttemptNo, Details, Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::schedule::{ScheduledRun, SourceKind};
use punctual_core::secret::{SecretValue, SecretValues};
use punctual_core::shard::event::Report;
use punctual_core::{JobId, ScheduleId, Span, Timestamp};

use crate::ShortBytes;
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

/// The same, with the job's id in bytes that are shared with others.
pub fn attempt_ref_in(id: JobId, attempt: AttemptNo, bytes: &mut ShortBytes) -> wire::AttemptRef {
    wire::AttemptRef { job_id: bytes.copy(&id.to_bytes()), attempt: attempt.0 }
}

pub fn read_attempt_ref(wire: &wire::AttemptRef) -> Result<(JobId, AttemptNo), BadMessage> {
    Ok((job_id(&wire.job_id)?, AttemptNo(wire.attempt)))
}

pub fn scheduled_run_to_wire(run: ScheduledRun) -> wire::ScheduledRun {
    wire::ScheduledRun {
        schedule_id: id_bytes(run.schedule.to_bytes()),
        schedule: run.name,
        r#type: i32::from(run.kind as u8),
        planned_at_us: run.planned_at.as_micros(),
        planned_local: run.planned_local,
        time_zone: run.time_zone,
        interval_start_us: run.interval_start.map(Timestamp::as_micros),
        last_success_us: run.last_success.map(Timestamp::as_micros),
    }
}

pub fn scheduled_run_from_wire(wire: wire::ScheduledRun) -> Result<ScheduledRun, BadMessage> {
    let time = |micros: i64| Timestamp::from_micros(micros).ok_or(BadMessage("a time of a run is not one"));
    let kind = u8::try_from(wire.r#type).ok().and_then(SourceKind::from_number);
    Ok(ScheduledRun {
        schedule: ScheduleId::from_bytes(&wire.schedule_id).ok_or(BadMessage("the id of a schedule is not one"))?,
        name: wire.schedule,
        kind: kind.ok_or(BadMessage("the type of a run is not one"))?,
        planned_at: time(wire.planned_at_us)?,
        planned_local: wire.planned_local,
        time_zone: wire.time_zone,
        interval_start: wire.interval_start_us.map(time).transpose()?,
        last_success: wire.last_success_us.map(time).transpose()?,
    })
}

pub fn secrets_to_wire(secrets: &SecretValues) -> Vec<wire::Secret> {
    let secret =
        |(name, value): (&str, &SecretValue)| wire::Secret { name: name.to_owned(), value: value.expose().to_owned() };
    secrets.iter().map(secret).collect()
}

pub fn secrets_from_wire(secrets: Vec<wire::Secret>) -> SecretValues {
    secrets.into_iter().map(|secret| (secret.name, SecretValue::new(secret.value))).collect()
}

pub fn outcome_to_wire(report: &Report) -> wire::Outcome {
    outcome_in(report, id_bytes(report.id.to_bytes()))
}

/// The same, with the job's id in bytes that are shared with others.
pub fn outcome_to_wire_in(report: &Report, bytes: &mut ShortBytes) -> wire::Outcome {
    outcome_in(report, bytes.copy(&report.id.to_bytes()))
}

fn outcome_in(report: &Report, job_id: Bytes) -> wire::Outcome {
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
            class: class_to_wire(failure.class).into(),
        }),
        Outcome::Cancelled => R::Cancelled(wire::Cancelled {}),
        Outcome::NotStarted { reason } => R::NotStarted(wire::NotStarted { reason: reason.clone() }),
    };
    wire::Outcome {
        job_id,
        attempt: report.attempt.0,
        result: Some(result),
        details: report.details.as_deref().map(|details| Box::new(details_to_wire(details))),
        // Whoever was given the attempt has it.
        token: Bytes::new(),
    }
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
                // An older worker knows of no classes.
                class: if timed_out { FailureClass::Timeout } else { class_from_wire(failed.class()) },
                reason: failed.reason,
                ran,
            })
        }
        R::Cancelled(_) => Outcome::Cancelled,
        R::NotStarted(not_started) => Outcome::NotStarted { reason: not_started.reason },
    };
    let details = wire.details.map(|details| Box::new(details_from_wire(*details)));
    Ok(Report { id, attempt: AttemptNo(wire.attempt), outcome, timed_out, details })
}

const fn class_to_wire(class: FailureClass) -> wire::FailureClass {
    match class {
        FailureClass::Task => wire::FailureClass::Task,
        FailureClass::Network => wire::FailureClass::Network,
        FailureClass::Limit => wire::FailureClass::Limit,
        FailureClass::Timeout => wire::FailureClass::Timeout,
        FailureClass::Environment => wire::FailureClass::Environment,
    }
}

const fn class_from_wire(class: wire::FailureClass) -> FailureClass {
    match class {
        wire::FailureClass::Task => FailureClass::Task,
        wire::FailureClass::Network => FailureClass::Network,
        wire::FailureClass::Limit => FailureClass::Limit,
        wire::FailureClass::Timeout => FailureClass::Timeout,
        wire::FailureClass::Environment => FailureClass::Environment,
    }
}

/// Without the class, which the failure has.
fn details_to_wire(details: &Details) -> wire::Details {
    let Details { class: _, exit_code, signal, limit, peak_memory_bytes, cpu_us, sandbox, host } = details;
    wire::Details {
        exit_code: *exit_code,
        signal: *signal,
        limit: limit.clone(),
        peak_memory_bytes: *peak_memory_bytes,
        cpu_us: *cpu_us,
        sandbox: sandbox.clone(),
        host: host.clone(),
    }
}

fn details_from_wire(wire: wire::Details) -> Details {
    let wire::Details { exit_code, signal, limit, peak_memory_bytes, cpu_us, sandbox, host } = wire;
    // A worker may say anything.
    Details { class: None, exit_code, signal, limit, peak_memory_bytes, cpu_us, sandbox, host }.cut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{ShardId, Timestamp};

    #[test]
    fn an_outcome_survives_the_wire() {
        let failure = Failure {
            last: Last::Yes,
            retry_after: Some(Span::from_secs(7)),
            ran: Ran::No,
            ..Failure::new("no route")
        };
        for outcome in [
            Outcome::Succeeded { output: None },
            Outcome::Succeeded { output: Some(Bytes::from_static(b"done")) },
            Outcome::Failed(failure),
            Outcome::Cancelled,
            Outcome::NotStarted { reason: "draining".into() },
        ] {
            for details in [None, Some(Box::new(Details::default())), Some(Box::new(details()))] {
                let report =
                    Report { id: id(), attempt: AttemptNo(2), outcome: outcome.clone(), timed_out: false, details };
                assert_eq!(outcome_from_wire(outcome_to_wire(&report)), Ok(report));
            }
        }
    }

    fn id() -> JobId {
        JobId::new(Timestamp::EPOCH, ShardId(3), 9)
    }

    fn details() -> Details {
        Details {
            class: None,
            exit_code: Some(-1),
            signal: Some(9),
            limit: Some("oom".into()),
            peak_memory_bytes: Some(u64::MAX),
            cpu_us: Some(0),
            sandbox: Some("full".into()),
            host: Some("vm-7".into()),
        }
    }

    fn failed(class: FailureClass) -> Report {
        let outcome = Outcome::Failed(Failure { class, ..Failure::new("no route") });
        Report { id: id(), attempt: AttemptNo(1), outcome, timed_out: false, details: None }
    }

    #[test]
    fn every_class_of_failure_survives_the_wire() {
        for class in FailureClass::ALL {
            assert_eq!(outcome_from_wire(outcome_to_wire(&failed(class))), Ok(failed(class)));
        }
    }

    #[test]
    fn a_class_that_nobody_knows_is_that_of_the_task() {
        let mut wire = outcome_to_wire(&failed(FailureClass::Limit));
        let Some(wire::outcome::Result::Failed(failure)) = &mut wire.result else { panic!("{wire:?}") };
        failure.class = 99;
        assert_eq!(outcome_from_wire(wire), Ok(failed(FailureClass::Task)));
    }

    #[test]
    fn an_attempt_that_timed_out_is_of_that_class_though_its_worker_knows_of_none() {
        let report = Report { timed_out: true, ..failed(FailureClass::Task) };
        let read = Report { timed_out: true, ..failed(FailureClass::Timeout) };
        assert_eq!(outcome_from_wire(outcome_to_wire(&report)), Ok(read));
    }

    #[test]
    fn long_texts_of_a_worker_are_cut_between_characters() {
        let long = "é".repeat(100_000);
        let said = Details { limit: Some(long.clone()), sandbox: Some(long.clone()), host: Some(long), ..details() };
        let report = Report { details: Some(Box::new(said)), ..failed(FailureClass::Limit) };
        let read = outcome_from_wire(outcome_to_wire(&report)).unwrap().details.unwrap();
        let kept = Some("é".repeat(Details::TEXT_MAX / 2));
        assert_eq!(*read, Details { limit: kept.clone(), sandbox: kept.clone(), host: kept, ..details() });
    }
}
