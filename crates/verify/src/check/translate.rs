//! What was recorded of a run in the form that promises are judged by. An acceptance run sees what clients asked, what the witness
//! saw, which faults there were and what the system lists in the end. It sees no commits, so it does not know what became
//! of a job with each attempt, or why an attempt was not started.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_core::attempt::{Ending, Failure, Outcome};
use punctual_core::retry::{FailureClasses, RetryPolicy};
use punctual_core::task::{self, OnLost};
use punctual_core::{AttemptNo, JobState, Span, Timestamp};
use punctual_promises::{
    Acknowledgement, AtEnd, Command, Counter, EndKind, Execution, Failures, Faults, JobHistory, JobRules, Limits,
    Listing, Moment, Order, RecordedEnd, RecordedStart, Reply, Report, Reports, Request, Reread, RunHistory,
    StartRecord, Submission, Worker,
};

use crate::clock;
use crate::history::{Answer, Call, CallKind, DeliveryMode, FaultEvent, FinalAttempt, FinalJob, History, Rules};
use crate::witness::{Ended, Seen, WitnessLine};

/// A job that killed so many workers is set aside.
const QUARANTINE_AFTER: u16 = 3;

const LIMITS: Limits = Limits {
    // Up to 500 parts in a million of the time since an owner last looked. The simulator allows as much.
    clock_lag: Span::from_millis(20),
    // Servers stamp starts by their measure of the store's clock.
    start_error: Span::from_millis(100),
    late_max: Some(Span::from_secs(5)),
    reports: Reports::OfExecutions,
};

pub(super) fn run_history(history: &History) -> RunHistory {
    RunHistory {
        jobs: jobs(history),
        requests: requests(history),
        listing: listing(history),
        faults: Some(faults(history)),
        commits_lost_at: commits_lost_at(history),
        pauses: Vec::new(),
        limits: LIMITS,
    }
}

fn time(us: i64) -> Timestamp {
    Timestamp::saturating_from_micros(us)
}

pub(super) fn moment(at: clock::Moment) -> Moment {
    Moment { steady: time(at.boot_us), wall: time(at.real_us) }
}

pub(super) fn worker(pid: u32) -> Worker {
    Worker(pid.to_string())
}

fn commits_lost_at(history: &History) -> Option<Timestamp> {
    let losses = history.faults.iter().filter(|fault| fault.what == FaultEvent::WentBack);
    losses.map(|fault| time(fault.at.real_us)).next_back()
}

fn faults(history: &History) -> Faults {
    let mut faults = Faults::default();
    for fault in &history.faults {
        let at = moment(fault.at);
        match fault.what {
            FaultEvent::WorkerDied { pid } => _ = faults.died.insert(worker(pid), at),
            FaultEvent::WorkerOutOfReach { pid } => _ = faults.unreachable.entry(worker(pid)).or_insert(at),
            FaultEvent::Healed { within_ms } => faults.recovered = Some(moment(fault.at.plus_ms(within_ms))),
            FaultEvent::WorkerLeft { .. }
            | FaultEvent::WorkerInReach { .. }
            | FaultEvent::Begin
            | FaultEvent::End
            | FaultEvent::WentBack => {}
        }
        if !matches!(fault.what, FaultEvent::Healed { .. }) {
            faults.first.get_or_insert(at);
        }
    }
    faults
}

/// A job counts once for each key, however often the client was told of it.
fn requests(history: &History) -> Vec<Request> {
    let answered = history.calls.iter().filter_map(|call| match (&call.asked, &call.answer) {
        (CallKind::Submit { key, .. }, Answer::Ok { job, .. }) => Some((key, job)),
        _ => None,
    });
    let made: BTreeSet<_> = answered.chain(history.jobs.iter().map(|job| (&job.key, &job.id))).collect();
    let request = |(key, job): (&String, &String)| Request { key: key.clone(), job_count: 1, made: vec![job.clone()] };
    made.into_iter().map(request).collect()
}

fn listing(history: &History) -> Listing {
    let counter = |(name, counted): (&String, &u64)| {
        let is_of_it = |job: &&FinalJob| name == "submitted" || job.state == *name;
        Counter { name: name.clone(), counted: *counted, listed: history.jobs.iter().filter(is_of_it).count() as u64 }
    };
    Listing::Jobs {
        ids: history.jobs.iter().map(|job| job.id.clone()).collect(),
        begun: history.witness.iter().map(|line| line.job.clone()).collect(),
        counters: history.counted.iter().flatten().map(counter).collect(),
    }
}

/// What was recorded about the job that a key stands for, source by source.
#[derive(Default)]
struct Sources<'a> {
    submits: Vec<&'a Call>,
    orders: Vec<Order>,
    listed: Option<&'a FinalJob>,
    witness: Vec<&'a WitnessLine>,
}

/// One job for each key that a client used.
fn jobs(history: &History) -> Vec<JobHistory> {
    let mut jobs: BTreeMap<&str, Sources<'_>> = BTreeMap::new();
    let mut key_of: HashMap<&str, &str> = HashMap::new();
    for call in &history.calls {
        let CallKind::Submit { key, .. } = &call.asked else { continue };
        jobs.entry(key).or_default().submits.push(call);
        if let Answer::Ok { job, .. } = &call.answer {
            key_of.insert(job, key);
        }
    }
    for job in &history.jobs {
        // A job that nobody submitted is found by the conservation of jobs.
        if let Some(sources) = jobs.get_mut(job.key.as_str()) {
            sources.listed = Some(job);
            key_of.insert(&job.id, &job.key);
        }
    }
    for call in &history.calls {
        let (command, job) = match &call.asked {
            CallKind::Submit { .. } => continue,
            CallKind::Delete { job } => (Command::Delete, job),
            CallKind::Cancel { job } => (Command::Cancel, job),
        };
        if let Some(sources) = key_of.get(job.as_str()).and_then(|key| jobs.get_mut(key)) {
            sources.orders.push(order(call, command));
        }
    }
    for line in &history.witness {
        if let Some(sources) = key_of.get(line.job.as_str()).and_then(|key| jobs.get_mut(key)) {
            sources.witness.push(line);
        }
    }
    let (pids, reread) = (pids(history), reread(history));
    let job = |(key, sources): (&str, Sources<'_>)| {
        let mut job = job_history(key, sources, history, &pids);
        job.reread = reread.as_ref().map(|reread| reread.get(job.name.as_str()).copied().unwrap_or(Reread::Absent));
        job
    };
    jobs.into_iter().map(job).collect()
}

fn job_history(key: &str, sources: Sources<'_>, history: &History, pids: &HashMap<&str, u32>) -> JobHistory {
    let Sources { submits, orders, listed, witness } = sources;
    let CallKind::Submit { task, run_at_us, fail_first, .. } = &submits[0].asked else {
        unreachable!("only submissions are among the submits")
    };
    let acknowledged = submits.iter().find_map(|call| match call.answer {
        Answer::Ok { due_us, .. } => Some(Acknowledgement { at: moment(call.returned?), due_at: time(due_us?) }),
        _ => None,
    });
    let due_at = acknowledged.map(|acknowledged| acknowledged.due_at).max(run_at_us.map(time));
    let attempts: &[FinalAttempt] = listed.map_or(&[], |job| &job.attempts);
    let (executions, reports) = executions(&witness, attempts, due_at);
    let lost_at = commits_lost_at(history);
    let start = |record: &FinalAttempt| RecordedStart {
        attempt: AttemptNo(record.attempt),
        at: time(record.started_us),
        survived_loss: lost_at.is_some_and(|lost_at| time(record.started_us) < lost_at),
    };
    JobHistory {
        key: key.to_owned(),
        name: listed.map_or(key, |job| &job.id).to_owned(),
        rules: rules(&history.tasks[task], *fail_first),
        queue: None,
        submission: Submission {
            asked_at: moment(submits[0].invoked),
            acknowledged,
            was_refused: submits.iter().all(|call| matches!(call.answer, Answer::Fail { .. })),
            by_schedule: false,
        },
        orders,
        executions,
        reports,
        starts: attempts.iter().map(start).collect(),
        ends: attempts.iter().filter_map(|record| end(record, pids)).collect(),
        moves: Vec::new(),
        at_end: listed.map_or(AtEnd::Absent, at_end),
        reread: None,
    }
}

fn rules(rules: &Rules, fail_first: u32) -> JobRules {
    let retry = RetryPolicy {
        max: rules.retry_max as u16,
        initial: Span::from_millis(rules.retry_initial_ms),
        factor: rules.retry_factor,
        cap: Span::MAX,
        jitter: rules.retry_jitter,
        except: FailureClasses::NONE,
    };
    JobRules {
        delivery: match rules.delivery {
            DeliveryMode::AtLeastOnce => task::DeliveryMode::AtLeastOnce,
            DeliveryMode::AtMostOnce => task::DeliveryMode::AtMostOnce,
            DeliveryMode::ExactlyOnce => task::DeliveryMode::ExactlyOnce,
        },
        on_lost: OnLost::Hold,
        retry,
        // Its waits are not judged: nobody sees when a worker is given up.
        node_retry: RetryPolicy { max: rules.node_retry_max as u16, ..retry },
        start_retry: None,
        timeout: None,
        queue_timeout: None,
        start_timeout: None,
        quarantine_after: QUARANTINE_AFTER,
        failures: Failures::FirstAttempts(fail_first),
    }
}

fn order(call: &Call, command: Command) -> Order {
    let reply = match &call.answer {
        Answer::Ok { pending: true, .. } => Some(Reply::Requested),
        Answer::Ok { .. } if command == Command::Delete => Some(Reply::Done(JobState::Deleted)),
        Answer::Ok { .. } => Some(Reply::Done(JobState::Cancelled)),
        Answer::Fail { why } if why == "job_not_found" => Some(Reply::NotFound),
        Answer::Fail { .. } => Some(Reply::Refused),
        Answer::Unknown { .. } => None,
    };
    let reply = call.returned.map(moment).zip(reply);
    Order { command, asked_at: moment(call.invoked), reply }
}

/// What the witness saw. A worker that stopped waiting for its handler had been asked to.
fn executions(
    witness: &[&WitnessLine],
    attempts: &[FinalAttempt],
    due_at: Option<Timestamp>,
) -> (Vec<Execution>, Vec<Report>) {
    let (mut executions, mut reports): (Vec<Execution>, Vec<Report>) = (Vec::new(), Vec::new());
    for line in witness {
        let (attempt, worker, at) = (AttemptNo(line.attempt), worker(line.pid), moment(line.at));
        match line.seen {
            Seen::Begin => {
                let is_on_record = attempts.iter().any(|record| record.attempt == line.attempt);
                let start = if is_on_record { StartRecord::Durable } else { StartRecord::Missing };
                executions.push(Execution { attempt, rerun: 0, worker, start, due_at, begin: at, end: None });
            }
            Seen::End(ended) => {
                let mut open = executions.iter_mut().rev().filter(|execution| execution.end.is_none());
                let Some(execution) = open.find(|open| open.attempt == attempt && open.worker == worker) else {
                    continue;
                };
                execution.end = Some(at);
                let outcome = match ended {
                    Ended::Ok => Outcome::Succeeded { output: None },
                    Ended::Failed => Outcome::Failed(failure()),
                    Ended::Cancelled | Ended::Dropped => Outcome::Cancelled,
                };
                reports.push(Report { attempt, at, outcome });
            }
        }
    }
    (executions, reports)
}

/// The handler always knows that it ran, so no failure of it excuses a second begin.
fn failure() -> Failure {
    Failure::new("the handler failed")
}

/// `None` for an attempt that has not ended.
fn end(record: &FinalAttempt, pids: &HashMap<&str, u32>) -> Option<RecordedEnd> {
    let finished_at = time(record.finished_us?);
    let ending = Ending::parse(&record.state).expect("an attempt ends in a way that the core knows");
    Some(RecordedEnd {
        attempt: AttemptNo(record.attempt),
        rerun: 0,
        ending,
        started_at: time(record.started_us),
        finished_at,
        worker: pids.get(record.worker.as_str()).map(|pid| worker(*pid)),
        committed_at: None,
        failure: (ending == Ending::Failed).then(failure),
        not_started: None,
        consequence: None,
        kind: EndKind::First,
    })
}

/// A run waits until every job has ended, so one that has not is overdue.
fn at_end(job: &FinalJob) -> AtEnd {
    match state(job) {
        state @ (JobState::Scheduled | JobState::Running) => AtEnd::Open { state, is_overdue: true },
        state => AtEnd::Finished { state, has_reason: None },
    }
}

fn state(job: &FinalJob) -> JobState {
    JobState::parse(&job.state).expect("a job is in a state that the core knows")
}

/// What another server said of each job later, if one was asked.
fn reread(history: &History) -> Option<HashMap<&str, Reread>> {
    let first: HashMap<&str, &FinalJob> = history.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    let compare = |job: &FinalJob| match first.get(job.id.as_str()) {
        Some(first) if *first == job => Reread::Same,
        Some(_) | None => Reread::Different { state: state(job) },
    };
    let again = || history.again.iter().map(|job| (job.id.as_str(), compare(job)));
    (!history.again.is_empty()).then(|| again().collect())
}

/// The process of each worker that began anything.
fn pids(history: &History) -> HashMap<&str, u32> {
    let ran: HashMap<(&str, u32), u32> =
        history.witness.iter().map(|seen| ((seen.job.as_str(), seen.attempt), seen.pid)).collect();
    let mut pids = HashMap::new();
    for job in &history.jobs {
        for record in &job.attempts {
            if let Some(pid) = ran.get(&(job.id.as_str(), record.attempt)) {
                pids.insert(record.worker.as_str(), *pid);
            }
        }
    }
    pids
}
