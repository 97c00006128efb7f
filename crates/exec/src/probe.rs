//! Sleeps, fails, prints or crashes on demand, for tests and benchmarks.
//!
//! A probe that does nothing costs almost nothing: that is what benchmarks measure the rest
//! against. The witness file is written with one `write` a line and shares no code with the
//! system, so that a checker can hold the system's own history against it.
//!
//! Writing to a file and killing the worker reach beyond the job. Whoever may submit a job
//! could then do both, so a prober refuses them unless it was made for it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::{AttemptNo, Failure, Last, Outcome, Ran};
use punctual_core::id::JobId;
use punctual_core::task::Run;
use punctual_core::{Span, Timestamp};

use crate::clock;
use crate::{Call, ExecutionEnd, Executor, FirstPoll, wrong_kind};

const EFFECTS_REFUSED: &str =
    "this worker runs probes without effects; start it with --probe-effects to allow witness and crash";

#[derive(Debug, Clone, Copy)]
pub struct Prober {
    effects: Effects,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effects {
    Refused,
    Allowed,
}

impl Prober {
    /// Refuses probes with a witness or a crash.
    pub const fn harmless() -> Self {
        Self { effects: Effects::Refused }
    }

    /// Appends to any file that a probe names, and kills the process if a probe requests it.
    pub const fn with_effects() -> Self {
        Self { effects: Effects::Allowed }
    }
}

#[async_trait]
impl Executor for Prober {
    fn kind(&self) -> &'static str {
        "probe"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["probe".to_owned()]
    }

    fn first_poll(&self) -> FirstPoll {
        FirstPoll::InPlace
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let begun_at = clock::now();
        probe(call, self.effects, begun_at).await.into()
    }
}

async fn probe(call: Call, effects: Effects, begun_at: Timestamp) -> Outcome {
    let Run::Probe(probe) = &*call.run else {
        return wrong_kind(&call.run);
    };
    if effects == Effects::Refused && (probe.witness.is_some() || probe.crash) {
        return not_run(EFFECTS_REFUSED.to_owned());
    }
    let _witness = match probe.witness.as_deref().map(|path| Witness::begin(path, &call)) {
        None => None,
        Some(Ok(witness)) => Some(witness),
        Some(Err(error)) => {
            return not_run(format!("cannot write the witness file: {error}"));
        }
    };
    if probe.sleep > Span::ZERO {
        tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Outcome::Cancelled,
            () = tokio::time::sleep(probe.sleep.to_std()) => {}
        }
    }
    if probe.crash {
        return crash().await;
    }
    if call.attempt.0 <= probe.fail_times {
        let (attempt, times) = (call.attempt, probe.fail_times);
        return Outcome::Failed(Failure::new(format!("attempt {attempt} failed as asked: the first {times} do")));
    }
    if let Some(output) = &probe.output {
        call.log.line(output);
    }
    let output = if probe.report_time {
        Some(Bytes::from(begun_at.as_micros().to_string()))
    } else {
        probe.output.clone().map(Bytes::from)
    };
    Outcome::Succeeded { output }
}

fn not_run(reason: String) -> Outcome {
    Outcome::Failed(Failure { last: Last::Yes, ran: Ran::No, ..Failure::new(reason) })
}

async fn crash() -> Outcome {
    let own = rustix::process::getpid();
    match rustix::process::kill_process(own, rustix::process::Signal::KILL) {
        // The signal is on its way; nothing may be reported any more.
        Ok(()) => std::future::pending().await,
        Err(error) => Outcome::Failed(Failure::new(format!("cannot kill the worker: {error}"))),
    }
}

/// Writes `begin` when created and `end` when dropped, so that only the death of the process leaves a `begin` without
/// an `end`.
struct Witness {
    file: File,
    job: JobId,
    attempt: AttemptNo,
}

impl Witness {
    fn begin(path: &str, call: &Call) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let mut witness = Self { file, job: call.job, attempt: call.attempt };
        witness.say("begin")?;
        Ok(witness)
    }

    fn say(&mut self, word: &str) -> io::Result<()> {
        let boottime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let boottime_ns = boottime.tv_sec * 1_000_000_000 + boottime.tv_nsec;
        let line = format!("{} {} {word} {boottime_ns}\n", self.job, self.attempt);
        // One write with O_APPEND: lines of several processes do not mix.
        let written = self.file.write(line.as_bytes())?;
        if written < line.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Err(error) = self.say("end") {
            tracing::error!(job = %self.job, %error, "cannot write the end to the witness file");
        }
    }
}
