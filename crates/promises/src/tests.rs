//! A good history, and one way to break each promise. A promise that nothing here breaks promises nothing.

use std::collections::BTreeSet;

use punctual_core::attempt::{Ending, Failure, FailureClass, Outcome};
use punctual_core::retry::{FailureClasses, RetryPolicy};
use punctual_core::schedule::{SourceKind, Verdict};
use punctual_core::task::{DeliveryMode, OnLost};
use punctual_core::{AttemptNo, JobState, Span, Timestamp};

use super::*;

fn at(secs: i64) -> Timestamp {
    Timestamp::saturating_from_micros(1_700_000_000_000_000) + Span::from_secs(secs)
}

fn moment(secs: i64) -> Moment {
    Moment::on_one_clock(at(secs))
}

fn worker() -> Worker {
    Worker("worker_1".to_owned())
}

fn execution(attempt: u32, begin: i64) -> Execution {
    Execution {
        attempt: AttemptNo(attempt),
        rerun: 0,
        worker: worker(),
        start: StartRecord::Durable,
        due_at: Some(at(begin)),
        begin: moment(begin),
        end: Some(moment(begin + 1)),
    }
}

fn end(attempt: u32, ended: i64, ending: Ending, consequence: Consequence) -> RecordedEnd {
    RecordedEnd {
        attempt: AttemptNo(attempt),
        rerun: 0,
        ending,
        started_at: at(ended - 1),
        finished_at: at(ended),
        worker: Some(worker()),
        committed_at: Some(at(ended)),
        failure: (ending == Ending::Failed).then(|| Failure::new("exit code 1")),
        not_started: None,
        consequence: Some(consequence),
        kind: EndKind::First,
    }
}

/// A job that is due at 1, fails at 2, is tried again at 4, and succeeds at 5.
fn good() -> RunHistory {
    let retry = RetryPolicy {
        max: 3,
        initial: Span::from_secs(2),
        factor: 2.0,
        cap: Span::from_secs(60),
        jitter: 0.0,
        except: FailureClasses::NONE,
    };
    let start = |attempt, secs| RecordedStart { attempt: AttemptNo(attempt), at: at(secs), survived_loss: false };
    let report = |attempt, secs, outcome| Report { attempt: AttemptNo(attempt), at: moment(secs), outcome };
    let job = JobHistory {
        key: "key".to_owned(),
        name: "job_1".to_owned(),
        rules: JobRules {
            delivery: DeliveryMode::AtLeastOnce,
            on_lost: OnLost::Hold,
            retry,
            node_retry: retry,
            start_retry: Some(retry),
            timeout: None,
            queue_timeout: None,
            start_timeout: None,
            quarantine_after: 3,
            failures: Failures::FirstAttempts(1),
        },
        queue: Some("mail".to_owned()),
        submission: Submission {
            asked_at: moment(0),
            acknowledged: Some(Acknowledgement { at: moment(0), due_at: at(1) }),
            was_refused: false,
            by_schedule: false,
        },
        orders: Vec::new(),
        executions: vec![execution(1, 1), execution(2, 4)],
        reports: vec![
            report(1, 2, Outcome::Failed(Failure::new("exit code 1"))),
            report(2, 5, Outcome::Succeeded { output: None }),
        ],
        starts: vec![start(1, 1), start(2, 4)],
        ends: vec![
            end(1, 2, Ending::Failed, Consequence::Again { due_at: at(4) }),
            end(2, 5, Ending::Succeeded, Consequence::Settled(JobState::Succeeded)),
        ],
        moves: Vec::new(),
        at_end: AtEnd::Finished { state: JobState::Succeeded, has_reason: Some(false) },
        reread: Some(Reread::Same),
    };
    RunHistory {
        jobs: vec![job],
        requests: vec![request()],
        listing: Listing::Jobs { ids: vec!["job_1".to_owned()], begun: BTreeSet::new(), counters: Vec::new() },
        faults: Some(Faults::default()),
        commits_lost_at: None,
        // Another queue stays paused, and its own was resumed before.
        pauses: vec![
            QueuePause { queue: "mail".to_owned(), from: at(-9), until: Some(at(0)) },
            QueuePause { queue: "web".to_owned(), from: at(-9), until: None },
        ],
        limits: Limits {
            clock_lag: Span::ZERO,
            start_error: Span::ZERO,
            late_max: Some(Span::from_secs(5)),
            reports: Reports::All,
        },
    }
}

fn request() -> Request {
    Request { key: "key".to_owned(), job_count: 1, made: vec!["job_1".to_owned()] }
}

fn ordered(command: Command, reply: Reply) -> Order {
    Order { command, asked_at: moment(0), reply: Some((moment(0), reply)) }
}

fn later(moment: &mut Moment, secs: i64) {
    (moment.steady, moment.wall) = (moment.steady + Span::from_secs(secs), moment.wall + Span::from_secs(secs));
}

type Spoil = fn(&mut RunHistory);

const SPOILS: [(&str, Spoil); 25] = [
    ("no acknowledged job is lost", |run| run.jobs[0].at_end = AtEnd::Absent),
    ("an attempt begins at most once", |run| run.jobs[0].executions.push(execution(1, 6))),
    ("nothing begins before its start is durable", |run| run.jobs[0].executions[0].start = StartRecord::Missing),
    ("nothing begins early", |run| run.jobs[0].executions[0].due_at = Some(at(3))),
    ("strict modes begin once", |run| run.jobs[0].rules.delivery = DeliveryMode::AtMostOnce),
    ("what is taken back never began", |run| run.jobs[0].ends[0].ending = Ending::NotStarted),
    ("attempts do not overlap", |run| run.jobs[0].executions[0].end = None),
    ("attempt numbers grow", |run| run.jobs[0].starts[1].attempt = AttemptNo(3)),
    ("nothing starts while its queue is paused", |run| run.pauses[0].until = None),
    ("deleted means never", |run| {
        run.jobs[0].orders.push(ordered(Command::Delete, Reply::Done(JobState::Deleted)));
    }),
    ("cancelled means no more", |run| {
        run.jobs[0].orders.push(ordered(Command::Cancel, Reply::Done(JobState::Cancelled)));
    }),
    ("a cancel request is kept", |run| run.jobs[0].orders.push(ordered(Command::Cancel, Reply::Requested))),
    ("retries are counted", |run| run.jobs[0].rules.failures = Failures::FirstAttempts(0)),
    ("losses are counted", |run| {
        run.jobs[0].ends[0].ending = Ending::WorkerLost;
        run.jobs[0].rules.quarantine_after = 0;
    }),
    ("give-backs are counted", |run| {
        let end = &mut run.jobs[0].ends[0];
        (end.ending, end.not_started) = (Ending::NotStarted, Some(NotStarted::GivenBack));
        end.consequence = Some(Consequence::Settled(JobState::Failed));
    }),
    ("waits are kept", |run| run.jobs[0].ends[0].consequence = Some(Consequence::Again { due_at: at(3) })),
    ("what is excepted is final", |run| {
        run.jobs[0].rules.retry.except = FailureClasses::from(vec![FailureClass::Task]);
    }),
    ("an attempt ends once", |run| {
        let again = run.jobs[0].ends[1].clone();
        run.jobs[0].ends.push(again);
    }),
    ("endings are true", |run| run.jobs[0].reports.clear()),
    ("no worker is given up without cause", |run| run.jobs[0].ends[0].ending = Ending::WorkerLost),
    ("what has ended stays as it is", |run| run.jobs[0].reread = Some(Reread::Absent)),
    ("what is due begins in time", |run| later(&mut run.jobs[0].executions[0].begin, 6)),
    ("retries begin in time", |run| later(&mut run.jobs[0].executions[1].begin, 6)),
    ("one request makes one set of jobs", |run| run.requests.push(request())),
    ("jobs are conserved", |run| run.listing = Listing::Count(2)),
];

fn broken(violations: &[Violation]) -> BTreeSet<&'static str> {
    violations.iter().map(|violation| violation.promise).collect()
}

#[test]
fn every_promise_about_jobs_can_be_broken() {
    assert_eq!(broken(&check(&good())), BTreeSet::new());
    for (promise, spoil) in SPOILS {
        let mut run = good();
        spoil(&mut run);
        assert!(broken(&check(&run)).contains(promise), "{promise}: {:?}", check(&run));
    }
    let promised: BTreeSet<_> =
        OF_JOB.iter().map(|(name, _)| *name).chain(OF_RUN.iter().map(|(name, _)| *name)).collect();
    assert_eq!(promised, SPOILS.iter().map(|(name, _)| *name).collect());
}

#[test]
fn what_a_source_does_not_know_is_not_judged() {
    let spoilt = |promise: &str, hide: Spoil| {
        let (name, spoil) = SPOILS.into_iter().find(|(name, _)| *name == promise).unwrap();
        let mut run = good();
        spoil(&mut run);
        hide(&mut run);
        assert!(!broken(&check(&run)).contains(name), "{name}");
    };
    spoilt("no worker is given up without cause", |run| run.faults = None);
    spoilt("what is due begins in time", |run| run.limits.late_max = None);
    spoilt("retries begin in time", |run| run.faults = None);
    spoilt("give-backs are counted", |run| run.jobs[0].ends[0].not_started = None);
    spoilt("what has ended stays as it is", |run| run.jobs[0].reread = None);
    spoilt("what is excepted is final", |run| run.jobs[0].ends[0].consequence = None);
    spoilt("jobs are conserved", |run| run.listing = Listing::NotRead);
    spoilt("no acknowledged job is lost", |run| run.jobs[0].at_end = AtEnd::NotRead);
}

#[test]
fn without_sight_of_due_times_the_witness_says_how_long_a_retry_waited() {
    let waited = |begin| {
        let mut run = good();
        run.jobs[0].ends[0].consequence = None;
        run.jobs[0].executions[1] = execution(2, begin);
        broken(&check(&run)).contains("waits are kept")
    };
    assert!(!waited(4));
    assert!(waited(3));
}

#[test]
fn after_a_loss_of_commits_only_starts_that_survived_it_are_judged() {
    let lost = |survived_loss| {
        let mut run = good();
        run.commits_lost_at = Some(at(3));
        run.jobs[0].rules.delivery = DeliveryMode::ExactlyOnce;
        run.jobs[0].starts[0].survived_loss = survived_loss;
        broken(&check(&run))
    };
    assert_eq!(lost(false), BTreeSet::new());
    assert_eq!(lost(true), BTreeSet::from(["strict modes begin once"]));
    let mut new = good();
    new.commits_lost_at = Some(at(0));
    new.jobs[0].submission.asked_at = moment(1);
    new.jobs[0].at_end = AtEnd::Absent;
    assert!(broken(&check(&new)).contains("no acknowledged job is lost"));
}

/// Two times that were planned and fired, a minute apart.
fn good_schedule() -> ScheduleHistory {
    let planned =
        |secs| PlannedTime { definition: 0, at: at(secs), start: at(secs), line: NeedOfLine::Required, count: Some(1) };
    let line = |secs, job: &str| LedgerLine {
        at: at(secs),
        start: at(secs),
        verdict: Verdict::Fired,
        job: Some(job.to_owned()),
        kind: SourceKind::Planned,
        is_stretch: false,
        count: 1,
        may_wait: false,
    };
    let job = |secs, id: &str| ScheduledJob {
        id: id.to_owned(),
        at: at(secs),
        kind: SourceKind::Planned,
        due_at: at(secs),
        exists: true,
    };
    let run = |secs, job: &str| ScheduledRun {
        job: job.to_owned(),
        from: at(secs),
        to: Some(at(secs + 1)),
        may_join: false,
        is_lost: false,
    };
    ScheduleHistory {
        name: "schedule_1".to_owned(),
        planned: vec![planned(0), planned(60)],
        lines: vec![line(0, "job_1"), line(60, "job_2")],
        jobs: vec![job(0, "job_1"), job(60, "job_2")],
        runs: vec![run(0, "job_1"), run(60, "job_2")],
    }
}

type SpoilSchedule = fn(&mut ScheduleHistory);

const SCHEDULE_SPOILS: [(&str, SpoilSchedule); 11] = [
    ("every planned time has one line", |schedule| drop(schedule.lines.pop())),
    ("every planned time has one line", |schedule| {
        let again = schedule.lines[0].clone();
        schedule.lines.push(again);
    }),
    ("nothing else has a line", |schedule| schedule.planned.truncate(1)),
    ("nothing else has a line", |schedule| schedule.lines[0].count = 2),
    ("nothing waits at the end", |schedule| schedule.lines[0].verdict = Verdict::Queued),
    ("a time makes one job", |schedule| schedule.jobs[1].at = at(0)),
    ("lines and jobs agree", |schedule| schedule.jobs[1].exists = false),
    ("lines and jobs agree", |schedule| schedule.lines[1].job = None),
    ("lines and jobs agree", |schedule| schedule.jobs[1].due_at = at(59)),
    ("runs of a schedule do not overlap", |schedule| schedule.runs[0].to = None),
    ("runs of a schedule do not overlap", |schedule| schedule.runs[0].to = Some(at(61))),
];

#[test]
fn every_promise_about_schedules_can_be_broken() {
    assert_eq!(broken(&check_schedules(&[good_schedule()])), BTreeSet::new());
    for (promise, spoil) in SCHEDULE_SPOILS {
        let mut schedule = good_schedule();
        spoil(&mut schedule);
        let found = check_schedules(&[schedule]);
        assert!(broken(&found).contains(promise), "{promise}: {found:?}");
    }
    let promised: BTreeSet<_> = schedules::OF_SCHEDULE.iter().map(|(name, _)| *name).collect();
    assert_eq!(promised, SCHEDULE_SPOILS.iter().map(|(name, _)| *name).collect());
}

#[test]
fn runs_that_may_join_or_are_lost_may_overlap() {
    let overlapping = |excuse: SpoilSchedule| {
        let mut schedule = good_schedule();
        schedule.runs[0].to = None;
        excuse(&mut schedule);
        broken(&check_schedules(&[schedule]))
    };
    assert_eq!(overlapping(|schedule| schedule.runs[1].may_join = true), BTreeSet::new());
    assert_eq!(overlapping(|schedule| schedule.runs[0].is_lost = true), BTreeSet::new());
    assert_eq!(overlapping(|schedule| schedule.runs[0].may_join = true).len(), 1);
}
