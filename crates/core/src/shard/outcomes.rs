//! Ends of attempts: reports of workers, losses and timeouts.

use crate::attempt::{AttemptNo, AttemptRecord, Ending, Outcome, Ran};
use crate::id::{JobId, WorkerId};
use crate::job::Counters;
use crate::lifecycle::{self, JobEvent, JobState, Next};
use crate::notice::{Notice, NoticeKind};
use crate::shard::event::{Found, Report, Send};
use crate::shard::judge::{Case, Consequence, End, details_of, judge, queue_timeout_reason};
use crate::shard::live::Stage;
use crate::shard::lookups::Lookup;
use crate::shard::write::{CancelMark, JobWrite, Requeue, ResolveLost, Settle, StaleOutcome};
use crate::shard::{Owner, planted};
use crate::time::{Span, Timestamp};

impl Owner {
    /// A worker reports how an attempt went. The first report of the current attempt
    /// counts; any other is answered and changes nothing.
    pub(super) fn report(&mut self, worker: WorkerId, report: Report) {
        let accepts_any = planted!(self.config, StaleOutcomeAccepted);
        self.fleet.reported(worker, (report.id, report.attempt));
        let Some(shard) = self.shard(report.id.shard()) else { return };
        if shard.busy.contains(&report.id) {
            // A write of this job is under way. The worker repeats what is not acknowledged.
            return;
        }
        let Some(live) = shard.jobs.get(&report.id) else {
            self.look_up(report.id, Lookup::LateReport { worker, report });
            return;
        };
        match live.stage {
            Stage::Running(run) if run.attempt == report.attempt || accepts_any => {
                // From the spool of another run: it is this worker that waits for the answer.
                if run.worker != worker {
                    self.answers.set_late_reporter(report.id, worker);
                }
                let Report { id, outcome, timed_out, details, .. } = report;
                self.end_attempt(id, End::Reported { outcome, timed_out, details });
            }
            // A repetition; the acknowledgement comes with the commit.
            Stage::Ending { run: Some(run) } if run.attempt == report.attempt => {}
            Stage::Waiting | Stage::Ready | Stage::Starting(_) | Stage::Running(_) | Stage::Ending { .. } => {
                self.stale(worker, &report);
            }
        }
    }

    fn stale(&mut self, worker: WorkerId, report: &Report) {
        let outcome = match &report.outcome {
            Outcome::Succeeded { .. } => "succeeded".to_owned(),
            Outcome::Failed(failure) => format!("failed: {}", failure.reason),
            Outcome::Cancelled => "cancelled".to_owned(),
            Outcome::NotStarted { reason } => format!("not started: {reason}"),
        };
        let (id, attempt, at) = (report.id, report.attempt, self.now);
        self.counts.stale += 1;
        // Acknowledged when it is durable: it may be us who are out of date, and then the
        // fence says so.
        self.push(JobWrite::Stale(StaleOutcome { id, attempt, worker, at, outcome }));
    }

    pub(super) fn ack(&mut self, worker: WorkerId, id: JobId, attempt: AttemptNo) {
        self.send(worker, Send::Ack { id, attempt });
    }

    /// The report is of a job that is not in memory: it has ended, or waits far ahead.
    pub(super) fn late_report(&mut self, worker: WorkerId, mut report: Report, found: Found) {
        let Found::Finished { state, attempt, .. } = found else {
            self.stale(worker, &report);
            return;
        };
        // A job whose cancel was requested has ended as cancelled, or by an outcome of another kind.
        if state != JobState::Cancelled && worker != WorkerId::WORKFLOWS {
            report.outcome = report.outcome.unrequested();
        }
        if attempt != Some(report.attempt) {
            self.stale(worker, &report);
            return;
        }
        let tells_nothing = matches!(&report.outcome, Outcome::Failed(failure) if failure.ran == Ran::Unknown);
        if state == JobState::Lost && tells_nothing {
            // It is as much in doubt as before.
            self.stale(worker, &report);
            return;
        }
        let (event, reason, output) = match report.outcome.clone() {
            Outcome::Succeeded { output } => (JobEvent::Succeed, None, output),
            Outcome::Failed(failure) => (JobEvent::Fail, Some(failure.reason), None),
            Outcome::Cancelled => (JobEvent::EndCancelled, None, None),
            Outcome::NotStarted { reason } => (JobEvent::TakeBack, Some(reason), None),
        };
        match lifecycle::next(state, event) {
            Next::To(to) => {
                let (id, attempt) = (report.id, report.attempt);
                self.set_busy(id);
                self.answers.set_late_reporter(id, worker);
                self.push(JobWrite::ResolveLost(ResolveLost {
                    id,
                    attempt,
                    state: to,
                    finished_at: self.now,
                    reason,
                    output,
                    details: details_of(&report.outcome, report.details.as_deref()),
                    notice: notice_of_late_result(id, to, self.now),
                }));
            }
            // The acknowledgement got lost and the worker repeats itself: the outcome is on record.
            Next::Stale if lifecycle::next(JobState::Running, event) == Next::To(state) => {
                self.ack(worker, report.id, report.attempt);
            }
            Next::Stale | Next::Ask | Next::Refused => self.stale(worker, &report),
        }
    }

    /// Ends the running attempt of a job in memory, and decides what becomes of the job.
    pub(super) fn end_attempt(&mut self, id: JobId, end: End) {
        let chance = self.chance.fraction();
        let (now, server) = (self.now, self.server);
        let reuses_number = planted!(self.config, AttemptReused) && matches!(end, End::NeverReceived);
        let live = self.shards.live_mut(id).expect("a running job is in memory");
        let Stage::Running(run) = live.stage else { unreachable!("only a running attempt ends") };
        let number = if reuses_number { run.attempt } else { run.attempt.next() };
        let counters = Counters { next_attempt: number, ..live.counters };
        let spec = &live.task.spec;
        let cancel_requested = run.cancel == CancelMark::Recorded;
        // A run of a workflow can be cancelled by itself, and ends its job as cancelled.
        let end = if cancel_requested || run.worker == WorkerId::WORKFLOWS { end } else { end.unrequested() };
        let due_at = live.key.due_at;
        let give_backs = live.give_backs.as_deref();
        let case = Case { spec, counters, give_backs, due_at, cancel_requested, now, chance, config: &self.config };
        let details = end.details();
        let ruling = judge(&case, end);
        let details = ruling.details(details);
        let attempt = AttemptRecord {
            attempt: run.attempt,
            worker: run.worker,
            server,
            due_at: live.key.due_at,
            picked_up_at: live.picked_up_at,
            started_at: run.started_at,
            finished_at: now.max(run.started_at),
            ending: ruling.ending,
            reason: ruling.reason,
            details,
            log: None,
        };
        let key = live.key;
        live.stage = Stage::Ending { run: Some(run) };
        let ending = attempt.ending;
        let mut write = match ruling.consequence {
            Consequence::Settle { state, counters } => {
                live.counters = counters;
                JobWrite::Settle(Settle {
                    key,
                    state,
                    finished_at: attempt.finished_at,
                    counters,
                    attempt: Some(attempt),
                    reason: None,
                    output: ruling.output,
                    cancel: run.cancel,
                    notice: None,
                    success_of: live.success_of(state),
                    node: live.node.clone(),
                    member: live.member.clone(),
                })
            }
            Consequence::Requeue { due_at, counters, give_backs } => {
                live.counters = counters;
                // The key must differ from the one it had, whatever the clock does.
                let due_at = due_at.max(key.due_at + Span::from_micros(1));
                let attempt = Some(attempt);
                JobWrite::Requeue(Requeue { key, due_at, counters, give_backs, attempt, cancel: run.cancel })
            }
        };
        self.notice_run(id, &run, ending);
        if !self.answers.is_ended_by_agent(id) {
            self.fleet.release(run.worker, id);
        }
        // In place: a write is large, and each job that ends moves one.
        if let JobWrite::Settle(settle) = &mut write {
            settle.notice = self.notice_of_end(id, settle.state);
        }
        self.push(write);
    }

    /// Ends attempts that outlived their timeout and jobs that waited too long for a worker.
    pub(super) fn end_overdue(&mut self) {
        let now = self.now;
        let grace = self.config.timeout_grace;
        let mut overrun: Vec<JobId> = Vec::new();
        let mut unserved: Vec<JobId> = Vec::new();
        for live in self.shards.all_live() {
            match live.stage {
                Stage::Running(run) if now > run.deadline + grace => {
                    overrun.push(live.key.id);
                }
                // One that waits after it was given back has been due since before that.
                Stage::Ready | Stage::Waiting => {
                    let limit = live.task.spec.queue_timeout;
                    if limit.is_some_and(|limit| now > live.due_since() + limit) {
                        unserved.push(live.key.id);
                    }
                }
                Stage::Starting(_) | Stage::Running(_) | Stage::Ending { .. } => {}
            }
        }
        overrun.sort_unstable();
        for id in overrun {
            self.end_attempt(id, End::Overdue);
        }
        unserved.sort_unstable();
        for id in unserved {
            let live = self.shards.live(id);
            let Some((live, limit)) = live.and_then(|live| Some((live, live.task.spec.queue_timeout?))) else {
                continue;
            };
            let reason = match (live.task.waits_for, live.given_back()) {
                (Some(artifact), _) => format!("{artifact} did not arrive in time"),
                (None, Some(last)) => queue_timeout_reason(&last.reason, limit),
                (None, None) => self.not_taken(&live.task, limit),
            };
            self.settle_waiting(id, JobEvent::Fail, Some(reason));
        }
    }

    /// Ends a job in memory that has no attempt under way.
    pub(super) fn settle_waiting(&mut self, id: JobId, event: JobEvent, reason: Option<String>) -> JobState {
        let Next::To(state) = lifecycle::next(JobState::Scheduled, event) else {
            unreachable!("{event:?} ends a scheduled job in the transition table")
        };
        self.dequeue(id);
        let now = self.now;
        let shard = self.shard_mut(id.shard()).expect("the job's shard is owned");
        let live = shard.jobs.get_mut(&id).expect("the job is in memory");
        live.stage = Stage::MOVING;
        let (key, counters) = (live.key, live.counters);
        let (node, member) = (live.node.clone(), live.member.clone());
        let cancel = CancelMark::None;
        let notice = self.notice_of_end(id, state);
        self.push(JobWrite::Settle(Settle {
            key,
            state,
            finished_at: now,
            counters,
            attempt: None,
            reason,
            output: None,
            cancel,
            notice,
            success_of: None,
            node,
            member,
        }));
        state
    }
}

/// The result of a lost job arrived after all.
fn notice_of_late_result(id: JobId, state: JobState, now: Timestamp) -> Option<Box<Notice>> {
    let kind = match state {
        JobState::Succeeded => NoticeKind::Recovered,
        state => NoticeKind::of_end(state)?,
    };
    Some(Box::new(Notice::of_job(kind, id, None, None, now)))
}

/// An ending that consumed no try of the job.
pub(super) fn is_taken_back(record: Option<&AttemptRecord>) -> bool {
    record.is_none_or(|record| record.ending == Ending::NotStarted)
}
