//! The history of a simulation in the form that promises are judged by. The simulator sees every commit and every report, and
//! has one clock; it does not say which workers were out of reach, and finds late jobs by an audit of its own.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::attempt::{AttemptRecord, Ending, Failure, Outcome};
use punctual_core::namespace::NamespaceId;
use punctual_core::shard::Config;
use punctual_core::shard::event::{self as shard, Token};
use punctual_core::shard::write::{ScheduleWrite, Write};
use punctual_core::task::TaskSpec;
use punctual_core::workflow::RunEvent;
use punctual_core::{AttemptNo, JobId, JobState, RunId, Span, Timestamp};
use punctual_promises::{
    Acknowledgement, AtEnd, Command, Consequence, EndKind, Execution, Failures, JobHistory, JobRules, Limits, Listing,
    Moment, NotStarted, Order, QueuePause, RecordedEnd, RecordedStart, Reply, Report, Reports, Request, RunHistory,
    Submission, Worker,
};
use punctual_store::JobRecord;

use super::job_facts::{JobFact, JobFacts, facts_by_job};
use super::lost_commits;
use super::schedules::taken;
use crate::conductor::Flows;
use crate::history::{ExecutionEnd, Fact, History, QueueChange, RequestNo};
use crate::plan::CLOCK_LAG_MAX_MS;

pub(super) fn run_history(history: &History) -> RunHistory {
    let lost_at = lost_commits::lost_at(history);
    let open: BTreeMap<JobId, AttemptNo> =
        lost_commits::find(history).map(|(_, open)| open.iter().copied().collect()).unwrap_or_default();
    let asked = asked_at(history);
    let scheduled: BTreeSet<JobId> = made_by_schedules(history).collect();
    let cancelled_runs = cancelled_runs(history);
    let start_timeouts = start_timeouts(history);
    let facts_by_job = facts_by_job(history);
    let jobs = facts_by_job.values().map(|job_facts| {
        let open_at_loss = open.get(&job_facts.id).copied().zip(lost_at);
        let (request, asked_at) = asked[&job_facts.id];
        let cancelled_runs = &cancelled_runs;
        let submission = Submission {
            asked_at: Moment::on_one_clock(asked_at),
            acknowledged: job_facts.acknowledged_at.map(|at| acknowledgement(job_facts.id, at)),
            was_refused: false,
            by_schedule: scheduled.contains(&job_facts.id),
        };
        let mut job = Translation::of(job_facts, request, submission, open_at_loss);
        if Flows::is_flow(&job_facts.task) {
            // To cancel the run of one of its attempts is to cancel the job.
            let run_of = |execution: &Execution| RunId::of_attempt(job_facts.id, execution.attempt.0);
            let cancelled = job.executions.iter().filter_map(|execution| cancelled_runs.get(&run_of(execution)));
            let orders = cancelled.map(|at| Order {
                command: Command::Cancel,
                asked_at: Moment::on_one_clock(*at),
                reply: None,
            });
            let orders: Vec<Order> = orders.collect();
            job.orders.extend(orders);
        }
        job.rules.start_timeout = start_timeouts.get(&job_facts.id).copied();
        job
    });
    let count = history.iter().find_map(|(_, fact)| match fact {
        Fact::JobCount(count) => Some(*count),
        _ => None,
    });
    RunHistory {
        jobs: jobs.collect(),
        requests: requests(history),
        listing: count.map_or(Listing::NotRead, Listing::Count),
        faults: None,
        commits_lost_at: lost_at,
        pauses: pauses(history, lost_at),
        limits: Limits {
            clock_lag: Span::from_millis(CLOCK_LAG_MAX_MS),
            start_error: Span::ZERO,
            late_max: None,
            reports: Reports::All,
        },
    }
}

/// Runs that people cancelled. A server cancels the run of a job in the name of the job.
fn cancelled_runs(history: &History) -> BTreeMap<RunId, Timestamp> {
    let cancelled = history.iter().filter_map(|(at, fact)| match fact {
        Fact::RunChanged { run, event: RunEvent::Cancel { by }, is_refused: false, .. } => {
            by.parse::<JobId>().is_err().then_some((*run, at))
        }
        _ => None,
    });
    cancelled.collect()
}

/// A pause that is stored again is in force again only when all have confirmed it. One that was stored before the database lost commits
/// may be among them, and then nobody knows of it any more, be it confirmed or not.
fn pauses(history: &History, lost_at: Option<Timestamp>) -> Vec<QueuePause> {
    let mut pauses: Vec<QueuePause> = Vec::new();
    let mut stored_at: BTreeMap<String, Timestamp> = BTreeMap::new();
    for (at, fact) in history.iter() {
        let Fact::Queue { queue: (namespace, queue), change } = fact else { continue };
        let queue = queue_name(*namespace, queue);
        let is_open = |pause: &&mut QueuePause| pause.queue == queue && pause.until.is_none_or(|until| at < until);
        if let Some(open) = pauses.iter_mut().find(is_open) {
            open.until = Some(at);
        }
        match change {
            QueueChange::Paused => _ = stored_at.insert(queue, at),
            QueueChange::InForce => {
                let lost_at = lost_at.filter(|lost_at| stored_at.get(&queue).is_none_or(|stored| stored <= lost_at));
                pauses.push(QueuePause { queue, from: at, until: lost_at });
            }
            QueueChange::Resumed => {}
        }
    }
    pauses
}

fn queue_name(namespace: NamespaceId, queue: &str) -> String {
    format!("queue {queue} of {namespace}")
}

/// The request for each job, and when it was sent first, whichever try made the job.
fn asked_at(history: &History) -> BTreeMap<JobId, (RequestNo, Timestamp)> {
    let (mut first, mut asked) = (BTreeMap::new(), BTreeMap::new());
    for (at, fact) in history.iter() {
        if let Fact::Submit { request, jobs, .. } = fact {
            let at = *first.entry(*request).or_insert(at);
            asked.extend(jobs.iter().map(|id| (*id, (*request, at))));
        }
    }
    asked
}

fn acknowledgement(id: JobId, at: Timestamp) -> Acknowledgement {
    Acknowledgement { at: Moment::on_one_clock(at), due_at: id.due_at() }
}

fn made_by_schedules(history: &History) -> impl Iterator<Item = JobId> {
    taken(history).filter_map(|(_, write)| match write {
        Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) => decision.occurrence.job,
        _ => None,
    })
}

/// Of jobs that start together with others.
fn start_timeouts(history: &History) -> BTreeMap<JobId, Span> {
    let mut timeouts = BTreeMap::new();
    for (_, fact) in history.iter() {
        if let Fact::BatchStored { row } = fact
            && let Some(timeout) = row.state.contract.start_timeout
        {
            timeouts.extend((0..).take(row.members.len()).map(|place| (row.member_job(place), timeout)));
        }
    }
    timeouts
}

fn requests(history: &History) -> Vec<Request> {
    let mut exists = BTreeMap::new();
    for (_, fact) in history.iter() {
        if let Fact::Final { id, record } = fact {
            exists.insert(*id, record.is_some());
        }
    }
    let tries = history.iter().filter_map(|(_, fact)| match fact {
        Fact::Submit { request, jobs, .. } => Some((request, jobs)),
        _ => None,
    });
    tries
        .map(|(request, jobs)| {
            let made = jobs.iter().filter(|id| exists.get(id) == Some(&true)).map(JobId::to_string);
            Request { key: format!("{request:?}"), job_count: jobs.len(), made: made.collect() }
        })
        .collect()
}

fn rules(spec: &TaskSpec) -> JobRules {
    JobRules {
        delivery: spec.delivery,
        on_lost: spec.on_lost,
        retry: spec.retry,
        node_retry: spec.node_retry,
        start_retry: Some(spec.start_retry),
        timeout: Some(spec.timeout),
        queue_timeout: spec.queue_timeout,
        start_timeout: None,
        quarantine_after: Config::default().quarantine_after,
        failures: Failures::Any,
    }
}

/// A job whose facts are being translated, and what is known of it by the current line.
struct Translation<'a> {
    job_facts: &'a JobFacts<'a>,
    job: JobHistory,
    /// The attempt that was open after commits were lost, and when that was.
    open_at_loss: Option<(AttemptNo, Timestamp)>,
    due_at: Timestamp,
    rerun: u32,
    /// The due time and the rerun of each attempt that was started.
    started: BTreeMap<AttemptNo, (Timestamp, u32)>,
    orders: BTreeMap<Token, usize>,
}

impl<'a> Translation<'a> {
    fn of(
        job_facts: &'a JobFacts<'a>,
        request: RequestNo,
        submission: Submission,
        open_at_loss: Option<(AttemptNo, Timestamp)>,
    ) -> JobHistory {
        let due_at = job_facts.id.due_at();
        let job = JobHistory {
            key: format!("{request:?}"),
            name: job_facts.id.to_string(),
            rules: rules(&job_facts.task.spec),
            queue: Some(queue_name(job_facts.task.namespace, &job_facts.task.spec.queue)),
            submission,
            orders: Vec::new(),
            executions: Vec::new(),
            reports: Vec::new(),
            starts: Vec::new(),
            ends: Vec::new(),
            moves: Vec::new(),
            at_end: AtEnd::NotRead,
            reread: None,
        };
        let (started, orders) = (BTreeMap::new(), BTreeMap::new());
        let mut translation = Self { job_facts, job, open_at_loss, due_at, rerun: 0, started, orders };
        for (at, line) in &job_facts.facts {
            translation.add(*at, line);
        }
        translation.job
    }

    fn add(&mut self, at: Timestamp, line: &JobFact<'_>) {
        match line {
            JobFact::Started(start) => {
                let attempt = start.attempt;
                self.started.insert(attempt, (self.due_at, self.rerun));
                let survived_loss = self.open_at_loss.is_some_and(|(open, lost_at)| open == attempt && at < lost_at);
                self.job.starts.push(RecordedStart { attempt, at, survived_loss });
            }
            JobFact::Settled(settle) => {
                if let Some(record) = &settle.attempt {
                    self.end(at, record, Consequence::Settled(settle.state));
                }
            }
            JobFact::Requeued(requeue) => {
                self.due_at = requeue.due_at;
                match &requeue.attempt {
                    Some(record) => self.end(at, record, Consequence::Again { due_at: requeue.due_at }),
                    None => self.job.moves.push(at),
                }
            }
            JobFact::Rerun(rerun) => {
                self.due_at = rerun.due_at;
                self.rerun += 1;
            }
            JobFact::Resolved(resolve) => {
                let ending = match resolve.state {
                    JobState::Succeeded => Ending::Succeeded,
                    JobState::Cancelled => Ending::Cancelled,
                    _ => Ending::Failed,
                };
                self.job.ends.push(RecordedEnd {
                    attempt: resolve.attempt,
                    rerun: self.rerun,
                    ending,
                    started_at: resolve.finished_at,
                    finished_at: resolve.finished_at,
                    worker: None,
                    committed_at: Some(at),
                    failure: None,
                    not_started: None,
                    consequence: Some(Consequence::Settled(resolve.state)),
                    kind: EndKind::LateResult,
                });
            }
            JobFact::Begin { attempt, worker, start } => {
                let (due_at, rerun) = self.started.get(attempt).copied().unwrap_or((self.due_at, self.rerun));
                self.job.executions.push(Execution {
                    attempt: *attempt,
                    rerun,
                    worker: Worker(worker.to_string()),
                    start: *start,
                    due_at: Some(due_at),
                    begin: Moment::on_one_clock(at),
                    end: None,
                });
            }
            JobFact::End { attempt, how } => {
                let at = Moment::on_one_clock(at);
                let mut open = self.job.executions.iter_mut().filter(|open| open.end.is_none());
                if let Some(execution) = open.find(|execution| execution.attempt == *attempt) {
                    execution.end = Some(at);
                }
                if let ExecutionEnd::Reported { outcome, .. } = how {
                    self.job.reports.push(Report { attempt: *attempt, at, outcome: outcome.clone() });
                }
            }
            JobFact::Asked { token, command } => {
                self.orders.insert(*token, self.job.orders.len());
                let asked_at = Moment::on_one_clock(at);
                self.job.orders.push(Order { command: command_of(*command), asked_at, reply: None });
            }
            JobFact::Answered { token, reply } => {
                let order = &mut self.job.orders[self.orders[token]];
                order.reply = Some((Moment::on_one_clock(at), reply_of(*reply)));
            }
            JobFact::Final(record) => self.job.at_end = self.at_end(*record),
            JobFact::CancelRequested | JobFact::Stale(_) | JobFact::Acked(_) => {}
        }
    }

    fn end(&mut self, at: Timestamp, record: &AttemptRecord, consequence: Consequence) {
        if self.open_at_loss.is_some_and(|(_, lost_at)| at < lost_at) {
            // It was among the commits that were lost.
            return;
        }
        let is_never_received = record.reason.as_ref().is_some_and(|reason| reason.contains("never received"));
        let not_started = if is_never_received { NotStarted::NeverReceived } else { NotStarted::GivenBack };
        self.job.ends.push(RecordedEnd {
            attempt: record.attempt,
            rerun: self.rerun,
            ending: record.ending,
            started_at: record.started_at,
            finished_at: record.finished_at,
            worker: Some(Worker(record.worker.to_string())),
            committed_at: Some(at),
            failure: recorded_failure(self.job_facts, record),
            not_started: (record.ending == Ending::NotStarted).then_some(not_started),
            consequence: Some(consequence),
            kind: EndKind::First,
        });
    }

    fn at_end(&self, record: Option<&JobRecord>) -> AtEnd {
        match record {
            None => AtEnd::Absent,
            Some(JobRecord::Hot { job, .. }) => {
                let is_running = self.job.starts.iter().any(|start| self.job.end(start.attempt).is_none());
                let state = if is_running { JobState::Running } else { JobState::Scheduled };
                AtEnd::Open { state, is_overdue: job.key.due_at <= self.job_facts.end }
            }
            Some(JobRecord::Finished { job, .. }) => {
                AtEnd::Finished { state: job.state, has_reason: Some(job.reason.is_some()) }
            }
        }
    }
}

/// The failure that the record is of. An attempt that did not end in time was ended by the owner, whatever its worker said
/// later.
fn recorded_failure(job_facts: &JobFacts<'_>, record: &AttemptRecord) -> Option<Failure> {
    let failure = match job_facts.reported(record.attempt)?.1 {
        Outcome::Failed(failure) => failure.clone(),
        Outcome::Cancelled => Failure::unrequested_cancel(),
        Outcome::Succeeded { .. } | Outcome::NotStarted { .. } => return None,
    };
    (record.reason.as_ref() == Some(&failure.reason)).then_some(failure)
}

fn command_of(command: shard::Command) -> Command {
    match command {
        shard::Command::Delete => Command::Delete,
        shard::Command::Cancel => Command::Cancel,
        shard::Command::RunNow => Command::RunNow,
        shard::Command::Rerun | shard::Command::RerunOnce(_) => Command::Rerun,
    }
}

fn reply_of(reply: shard::Reply) -> Reply {
    match reply {
        shard::Reply::Done(state) => Reply::Done(state),
        shard::Reply::Asked => Reply::Requested,
        shard::Reply::Refused(..) => Reply::Refused,
        shard::Reply::NotFound => Reply::NotFound,
    }
}
