//! Starts the runs of jobs of kind `workflow`, and ends those jobs with their runs.
//!
//! Each server is a worker of its own engine for that, under an id that all servers share. What such a worker holds is in
//! the store, so it is never silent: an owner that takes a shard over assigns to it what a former owner had started, and
//! starting a run twice starts it once.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use punctual_core::attempt::{AttemptNo, Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::shard::event::{Assignment, Report};
use punctual_core::workflow::{RunEvent, RunJob, RunStatus};
use punctual_core::{JobId, RunId};
use punctual_engine::{Outgoing, OutgoingReceiver, WorkerSession};
use punctual_store::{DueRun, RunRow};
use tokio::time::Instant;

use super::change::RUNS_AT_ONCE;
use crate::{App, Result};

/// Runs of schedules, jobs and nodes that are under way in the shards of one server. Each is a running job in memory.
const AT_ONCE_MAX: u32 = 20_000;
/// A connection ends at once while shards are being acquired, and is made again.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

type Attempt = (JobId, AttemptNo);

/// The runs of jobs in the shards of this server.
pub struct Conductor {
    app: App,
    connection: Option<(WorkerSession, OutgoingReceiver)>,
    connected_at: Option<Instant>,
    received: Vec<Outgoing>,
    /// Runs that could not be started yet, because the store did not answer.
    unstarted: Vec<Assignment>,
    /// Runs that cannot be started, until their jobs have ended.
    refused: HashMap<Attempt, Report>,
    /// Attempts that have not ended.
    under_way: HashSet<Attempt>,
    /// Attempts that are to end.
    cancelled: Vec<Attempt>,
    /// Attempts whose ends are durable.
    acknowledged: Vec<Attempt>,
    /// How far the look at due runs has come.
    looked: Option<DueRun>,
}

impl Conductor {
    pub fn new(app: App) -> Self {
        Self {
            app,
            connection: None,
            connected_at: None,
            received: Vec::new(),
            unstarted: Vec::new(),
            refused: HashMap::new(),
            under_way: HashSet::new(),
            cancelled: Vec::new(),
            acknowledged: Vec::new(),
            looked: None,
        }
    }

    /// Whether runs have to be looked at soon, because their jobs end with them, or because there are more.
    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty() || self.looked.is_some()
    }

    /// Resolves when the engine has something to say, or when a run has ended whose job is to hear of it.
    pub async fn wake(&mut self) {
        let Some((_, receiver)) = &mut self.connection else { return std::future::pending().await };
        let engine = &self.app.0.engine;
        let received = tokio::select! {
            received = receiver.recv() => received,
            () = engine.run_ended() => return,
        };
        match received {
            Some(outgoing) => self.received.push(outgoing),
            None => self.disconnect(),
        }
    }

    /// Starts what is to be started, and ends the jobs of runs that have ended.
    pub async fn tick(&mut self) -> Result<()> {
        if !self.app.0.settings.roles.scheduler {
            return Ok(());
        }
        self.connect().await?;
        for outgoing in std::mem::take(&mut self.received) {
            self.under_way.extend(outgoing.assignments.iter().map(|one| (one.key.id, one.attempt)));
            self.unstarted.extend(outgoing.assignments);
            self.acknowledged.extend(outgoing.acks);
            self.cancelled.extend(outgoing.cancels.into_iter().chain(outgoing.stops));
        }
        self.forget_others();
        self.start_all().await;
        self.cancel_all().await?;
        self.finish_all().await?;
        let ended = self.app.advance_runs(&mut self.looked).await?;
        if let Some((session, _)) = &self.connection {
            let reports: Vec<Report> = ended.iter().filter_map(report).chain(self.refused.values().cloned()).collect();
            if !reports.is_empty() {
                session.report(reports);
            }
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<()> {
        if self.connection.is_some() {
            return Ok(());
        }
        if let Some(before) = self.connected_at {
            tokio::time::sleep_until(before + CONNECT_PAUSE).await;
        }
        let engine = &self.app.0.engine;
        let greeting = engine.greeting().await?;
        self.connected_at = Some(Instant::now());
        self.connection = Some(engine.connect_workflows(&greeting, AT_ONCE_MAX));
        Ok(())
    }

    /// Everything that has not ended is assigned again on the next connection.
    fn disconnect(&mut self) {
        self.connection = None;
        self.received.clear();
        self.unstarted.clear();
        self.refused.clear();
        self.under_way.clear();
        self.cancelled.clear();
        self.acknowledged.clear();
    }

    /// Nobody here waits for attempts in shards that were given up.
    fn forget_others(&mut self) {
        let owned = self.app.0.cluster.owned_here();
        self.under_way.retain(|(job, _)| owned.contains(&job.shard()));
    }

    async fn start_all(&mut self) {
        let app = &self.app;
        for part in std::mem::take(&mut self.unstarted).chunks(RUNS_AT_ONCE) {
            let started = join_all(part.iter().map(|one| app.start_run_of(one))).await;
            for (assignment, started) in part.iter().zip(started) {
                let Err(error) = started else { continue };
                if error.kind.is_retryable() {
                    tracing::debug!(job = %assignment.key.id, %error.detail, "a run could not be started yet");
                    self.unstarted.push(assignment.clone());
                    continue;
                }
                let failure = Failure {
                    class: FailureClass::Environment,
                    last: Last::Yes,
                    ran: Ran::No,
                    ..Failure::new(format!("its run could not be started: {}", error.detail))
                };
                let outcome = Outcome::Failed(failure);
                let (id, attempt) = (assignment.key.id, assignment.attempt);
                self.refused.insert((id, attempt), Report { id, attempt, outcome, timed_out: false, details: None });
            }
        }
    }

    /// Writes down that these jobs have ended.
    async fn finish_all(&mut self) -> Result<()> {
        while !self.acknowledged.is_empty() {
            let from = self.acknowledged.len().saturating_sub(RUNS_AT_ONCE);
            let part = &self.acknowledged[from..];
            let reported =
                |(job, attempt): &Attempt| self.app.advance_run(RunId::of_attempt(*job, attempt.0), RunEvent::Reported);
            try_join_all(part.iter().map(reported)).await?;
            for attempt in self.acknowledged.drain(from..) {
                self.refused.remove(&attempt);
                self.under_way.remove(&attempt);
            }
        }
        Ok(())
    }

    /// A run that could not be started yet is cancelled once it was.
    async fn cancel_all(&mut self) -> Result<()> {
        let waits = |attempt: &Attempt| self.unstarted.iter().any(|one| (one.key.id, one.attempt) == *attempt);
        let (later, mut now): (Vec<Attempt>, Vec<Attempt>) = self.cancelled.iter().copied().partition(waits);
        while let Some(&(job, attempt)) = now.last() {
            let event = RunEvent::Cancel { by: job.to_string() };
            self.app.advance_run(RunId::of_attempt(job, attempt.0), event).await?;
            now.pop();
        }
        self.cancelled = later;
        Ok(())
    }
}

/// How the job of a run that has ended ends.
fn report(run: &RunRow) -> Option<Report> {
    let RunJob { job, attempt, .. } = run.state.job?;
    let id = run.id;
    let outcome = match run.status {
        RunStatus::Running => return None,
        RunStatus::Succeeded => {
            let output = run.state.output.as_ref().map(|output| output.to_string().into_bytes().into());
            Outcome::Succeeded { output }
        }
        RunStatus::Cancelled => Outcome::Cancelled,
        RunStatus::Failed => Outcome::Failed(Failure::new(match &run.state.broken {
            Some(reason) => format!("{id} failed: {reason}"),
            None if run.state.timed_out => format!("{id} timed out"),
            None => format!("{id} failed"),
        })),
    };
    Some(Report { id: job, attempt: AttemptNo(attempt), outcome, timed_out: false, details: None })
}
