//! What cases about notices and backfills are made of.

use punctual_core::attempt::Ending;
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::schedule::{Source, SourceKind};
use punctual_core::shard::write::{Decision, JobWrite, ResolveLost, Settle, Write};
use punctual_core::{AttemptNo, BackfillId, JobId, JobState, NamespaceId, ScheduleId, ShardId};
use punctual_store::{
    Ailing, BackfillProgress, BackfillRow, BackfillRun, BackfillState, BackfillStep, DeliveryRow, Dispatch, Dispatched,
    NewJob, RuleChange, RuleRow, RuleUpdate, Store,
};

use crate::fixture::{at, job_id, new_job, original, settled, task_id};
use crate::schedule_fixture::{by, schedule_id};

/// Something that happened in a shard at that second.
pub fn notice(kind: NoticeKind, secs: i64, shard: u16) -> Notice {
    Notice {
        at: at(secs),
        kind,
        shard: ShardId(shard),
        task: Some(task_id(1)),
        job: None,
        planned: None,
        count: 1,
        lateness: None,
    }
}

/// A write that adds a notice and nothing else.
pub fn tell(notice: &Notice) -> Write {
    Write::Notice(Box::new(notice.clone()))
}

/// Attempt 1 ended the job so, and people may want to know.
pub fn ended_with(job: &NewJob, state: JobState, notice: &Notice) -> Write {
    let ending = if state == JobState::Lost { Ending::WorkerLost } else { Ending::Failed };
    Write::Job(JobWrite::Settle(Settle {
        notice: Some(Box::new(notice.clone())),
        ..settled(original(job), 1, state, ending)
    }))
}

/// The result of attempt 1, which was lost, is here.
pub fn resolved_with(job: &NewJob, state: JobState, notice: &Notice) -> Write {
    Write::Job(JobWrite::ResolveLost(ResolveLost {
        id: job.id,
        attempt: AttemptNo(1),
        state,
        finished_at: at(900),
        reason: None,
        output: None,
        details: None,
        notice: Some(Box::new(notice.clone())),
    }))
}

/// Adds a notice to a decision.
pub fn noticed(decision: Decision, notice: &Notice) -> Decision {
    Decision { notice: Some(Box::new(notice.clone())), ..decision }
}

/// The notices that wait, in order. Their numbers grow.
pub async fn waiting(store: &dyn Store) -> Vec<Notice> {
    let waiting = store.waiting_notices(1000).await.unwrap();
    assert!(waiting.is_sorted_by(|one, next| one.seq < next.seq), "{waiting:?}");
    waiting.into_iter().map(|waiting| waiting.notice).collect()
}

pub async fn numbers(store: &dyn Store) -> Vec<i64> {
    store.waiting_notices(1000).await.unwrap().into_iter().map(|waiting| waiting.seq).collect()
}

/// A notification rule that was just created.
pub fn new_rule(name: &str) -> RuleRow {
    RuleRow {
        namespace: NamespaceId::DEFAULT,
        name: name.to_owned(),
        spec: format!(r#"{{"slack":"{name}"}}"#),
        revision: 1,
        created: by("ada", 1),
        changed: by("ada", 1),
        state: None,
        version: 0,
    }
}

pub async fn with_rule(store: &dyn Store, name: &str) -> RuleRow {
    let row = new_rule(name);
    assert_eq!(store.put_rule(row.clone(), Some(0)).await.unwrap(), RuleChange::Done { revision: 1 });
    row
}

pub fn update(name: &str, version: u64, state: &str) -> RuleUpdate {
    RuleUpdate { namespace: NamespaceId::DEFAULT, name: name.to_owned(), version, state: Some(state.to_owned()) }
}

pub fn ailing(task: u64, since: i64, last: i64) -> Ailing {
    Ailing { task: task_id(task), since: at(since), last: at(last), failures: 2 }
}

pub fn delivery(rule: &str, secs: i64, job: JobId) -> DeliveryRow {
    DeliveryRow {
        namespace: NamespaceId::DEFAULT,
        rule: rule.to_owned(),
        at: at(secs),
        job,
        events: 3,
        summary: format!("{rule} at {secs}"),
    }
}

pub async fn dispatched(store: &dyn Store, dispatch: Dispatch) {
    assert_eq!(store.dispatch(dispatch).await.unwrap(), Dispatched::Done);
}

/// The number decides how old it is.
pub fn backfill_id(n: u64) -> BackfillId {
    BackfillId::new(at(n as i64), 7)
}

pub const RUNNING: BackfillProgress = BackfillProgress {
    state: BackfillState::Running,
    reached: None,
    total: 10,
    made: 0,
    passed_over: 0,
    succeeded: 0,
    failed: 0,
    cancelled: 0,
    ended: None,
    note: None,
};

pub fn ended_at(secs: i64) -> BackfillProgress {
    BackfillProgress { state: BackfillState::Done, ended: Some(by("ada", secs)), ..RUNNING }
}

/// Of the first schedule of shard 1, which need not be there.
pub fn new_backfill(n: u64) -> BackfillRow {
    BackfillRow {
        namespace: NamespaceId::DEFAULT,
        id: backfill_id(n),
        schedule: schedule_id(1, 1),
        schedule_name: "backup".to_owned(),
        spec: r#"{"from":"monday"}"#.to_owned(),
        created: by("ada", 1),
        version: 0,
        progress: RUNNING,
    }
}

pub async fn with_backfill(store: &dyn Store, n: u64) -> BackfillRow {
    let row = new_backfill(n);
    assert!(store.add_backfill(row.clone()).await.unwrap());
    row
}

/// Nothing is new, but for the version.
pub fn step(n: u64, version: u64) -> BackfillStep {
    BackfillStep { id: backfill_id(n), version, progress: RUNNING, made: Vec::new(), ended: Vec::new() }
}

/// Job `n`, due now, for a past time of a schedule.
pub fn backfill_job(n: u64, schedule: ScheduleId, secs: i64) -> NewJob {
    let source = Source { schedule, at: at(secs), kind: SourceKind::Backfill, is_tracked: false };
    NewJob { source: Some(source), ..new_job(n, 1000, schedule.shard().0) }
}

/// Times of the schedule of [`new_backfill`], each with job `1000 + secs`.
pub fn step_making(n: u64, version: u64, times: &[i64]) -> BackfillStep {
    let job = |secs: i64| backfill_job(made_job(secs), schedule_id(1, 1), secs);
    BackfillStep { made: times.iter().map(|secs| (at(*secs), job(*secs))).collect(), ..step(n, version) }
}

fn made_job(secs: i64) -> u64 {
    1000 + secs as u64
}

/// The run of a backfill that [`step_making`] makes.
pub fn run_of(secs: i64, state: Option<JobState>) -> BackfillRun {
    BackfillRun { at: at(secs), job: job_id(made_job(secs), 1000, 1), state }
}
