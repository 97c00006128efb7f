//! What really happens, on record by the one who does it.
//!
//! The handler below is the work of every job of a run. It writes a line when it begins
//! and one when it ends, each in a single append, which the kernel keeps whole and which
//! survives the process. It reads no clock, id or file of the system under test; the only
//! things it is told are the job, the attempt and the job's input.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual_worker::{HandlerError, HandlerResult, JobContext};
use serde::{Deserialize, Serialize};

use crate::clock::Moment;

/// The name of the handler.
pub const HANDLER: &str = "witness";

/// What a job asks of its handler: the job's input.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Work {
    pub sleep_ms: u64,
    /// Attempts up to this number fail.
    pub fail_first: u32,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Ok,
    Failed,
    Cancelled,
    /// The worker stopped waiting for it: it was cancelled and too slow, or the worker left.
    Dropped,
}

impl Ended {
    const ALL: [Self; 4] = [Self::Ok, Self::Failed, Self::Cancelled, Self::Dropped];

    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Dropped => "dropped",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Begin,
    End(Ended),
}

/// One line of a witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessLine {
    pub job: String,
    pub attempt: u32,
    pub pid: u32,
    pub at: Moment,
    pub seen: Seen,
}

impl WitnessLine {
    fn line(&self) -> String {
        let Self { job, attempt, pid, at, seen } = self;
        let seen = match seen {
            Seen::Begin => "begin",
            Seen::End(ended) => ended.word(),
        };
        format!("{job} {attempt} {pid} {} {} {seen}\n", at.boot_us, at.real_us)
    }

    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let job = words.next()?.to_owned();
        let attempt = words.next()?.parse().ok()?;
        let pid = words.next()?.parse().ok()?;
        let at = Moment { boot_us: words.next()?.parse().ok()?, real_us: words.next()?.parse().ok()? };
        let seen = match words.next()? {
            "begin" => Seen::Begin,
            word => Seen::End(Ended::ALL.into_iter().find(|ended| ended.word() == word)?),
        };
        Some(Self { job, attempt, pid, at, seen })
    }
}

/// A file that many executions append to.
#[derive(Clone)]
pub struct Witness(Arc<File>);

impl Witness {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    fn tell(&self, job: &str, attempt: u32, seen: Seen) {
        let line = WitnessLine { job: job.to_owned(), attempt, pid: std::process::id(), at: Moment::now(), seen };
        // One write for the whole line. Without its witness a run is worth nothing.
        let line = line.line();
        let written = (&*self.0).write(line.as_bytes()).expect("the witness can write");
        assert_eq!(written, line.len(), "a line is written whole");
    }

    /// The handler.
    pub async fn run(self, job: JobContext) -> HandlerResult {
        let (id, attempt) = (job.job().to_string(), job.attempt().0);
        // First of all: whatever happens later, it has begun.
        self.tell(&id, attempt, Seen::Begin);
        let mut execution = Execution { witness: self, job: id, attempt, ended: Ended::Dropped };
        let work: Work = match job.input().map(|input| serde_json::from_slice(input)) {
            None => Work::default(),
            Some(Ok(work)) => work,
            Some(Err(error)) => {
                execution.ended = Ended::Failed;
                return Err(HandlerError::fatal(format!("the input is not for this handler: {error}")));
            }
        };
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(work.sleep_ms)) => {}
            () = job.cancelled() => {
                execution.ended = Ended::Cancelled;
                return Err(HandlerError::cancelled());
            }
        }
        if attempt <= work.fail_first {
            execution.ended = Ended::Failed;
            return Err(HandlerError::new("as it was told"));
        }
        execution.ended = Ended::Ok;
        Ok(None)
    }
}

/// Says how it ended when it is dropped: in every way there is but the end of the process.
struct Execution {
    witness: Witness,
    job: String,
    attempt: u32,
    ended: Ended,
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.witness.tell(&self.job, self.attempt, Seen::End(self.ended));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for seen in [Seen::Begin, Seen::End(Ended::Ok), Seen::End(Ended::Dropped)] {
            let at = Moment { boot_us: 17, real_us: 1_700_000_000_000_000 };
            let line = WitnessLine { job: "job_1".to_owned(), attempt: 2, pid: 77, at, seen };
            assert_eq!(WitnessLine::parse(line.line().trim_end()), Some(line));
        }
        assert_eq!(WitnessLine::parse("job_1 2 77 17"), None);
        assert_eq!(WitnessLine::parse("job_1 2 77 17 18 started"), None);
    }
}
