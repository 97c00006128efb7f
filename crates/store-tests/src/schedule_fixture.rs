//! What cases about schedules are made of.

use std::sync::Arc;

use punctual_core::schedule::{
    By, ChangeKind, Marks, OccurrenceRow, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState, Source, SourceKind,
    Verdict,
};
use punctual_core::shard::write::{Decision, FiredJob, ScheduleWrite, Void, Write};
use punctual_core::task::Priority;
use punctual_core::{JobId, JobKey, NamespaceId, ScheduleId, ShardId};
use punctual_store::{Applied, OccurrenceFilter, Order, Store};

use crate::fixture::{Owner, at, job_id, task_id};

pub fn schedule_id(n: u64, shard: u16) -> ScheduleId {
    ScheduleId::new(at(0), ShardId(shard), n)
}

pub fn by(who: &str, secs: i64) -> By {
    By { at: at(secs), who: who.to_owned() }
}

/// Stores take the text as it is.
pub fn spec(minutes: u32) -> Arc<str> {
    format!(r#"{{"when":{{"every":"{minutes}m"}}}}"#).into()
}

/// Of the task that [`with_task`](crate::fixture::with_task) stores.
pub fn edit(minutes: u32) -> ScheduleEdit {
    ScheduleEdit { task: task_id(1), spec: spec(minutes), calendars: Vec::new(), priority: None, input: None }
}

pub fn new_schedule(n: u64, name: &str, shard: u16) -> ScheduleRow {
    ScheduleRow {
        namespace: NamespaceId::DEFAULT,
        id: schedule_id(n, shard),
        name: name.to_owned(),
        edit: edit(1),
        state: ScheduleState::new(at(1)),
        created: by("ada", 1),
        changed: by("ada", 1),
    }
}

pub fn add(row: &ScheduleRow) -> Write {
    Write::Schedule(ScheduleWrite::Add(Arc::new(row.clone())))
}

pub fn change(kind: ChangeKind, secs: i64) -> ScheduleChange {
    ScheduleChange { by: by("bob", secs), kind, note: None, former_spec: None }
}

/// The schedule's next revision.
pub fn edit_to(row: &ScheduleRow, edit: ScheduleEdit, secs: i64) -> Write {
    let state = ScheduleState { revision: row.state.revision + 1, ..row.state.clone() };
    Write::Schedule(ScheduleWrite::Edit {
        id: row.id,
        edit: Arc::new(edit),
        state,
        change: change(ChangeKind::Edited, secs),
    })
}

pub fn drop_it(id: ScheduleId, secs: i64) -> Write {
    Write::Schedule(ScheduleWrite::Drop { id, change: change(ChangeKind::Deleted, secs) })
}

pub fn occurrence(schedule: ScheduleId, secs: i64, verdict: Verdict) -> OccurrenceRow {
    OccurrenceRow {
        schedule,
        at: at(secs),
        slot: at(secs),
        verdict,
        decided_at: at(secs + 1),
        marks: Marks::NONE,
        count: 1,
        job: None,
        started_at: None,
        reason: None,
        requested_by: None,
    }
}

/// A decision that makes no job.
pub fn unfired(schedule: ScheduleId, secs: i64, verdict: Verdict) -> Decision {
    Decision { occurrence: occurrence(schedule, secs, verdict), job: None, notice: None }
}

/// A decision that makes job `n`, due at the planned time.
pub fn fired(schedule: ScheduleId, secs: i64, n: u64) -> Decision {
    let id = job_id(n, secs, schedule.shard().0);
    let source = Source { schedule, at: at(secs), kind: SourceKind::Planned, is_tracked: false };
    Decision {
        occurrence: OccurrenceRow { job: Some(id), ..occurrence(schedule, secs, Verdict::Fired) },
        job: Some(FiredJob {
            id,
            task: task_id(1),
            priority: Priority::default(),
            source,
            has_input: false,
            is_counted: false,
        }),
        notice: None,
    }
}

/// The decision with a job whose end the owner has to know.
pub fn tracked(decision: Decision) -> Decision {
    let track = |job: FiredJob| FiredJob { source: Source { is_tracked: true, ..job.source }, ..job };
    Decision { job: decision.job.map(track), ..decision }
}

/// The decision with a job that gets the schedule's input.
pub fn with_input(decision: Decision) -> Decision {
    Decision { job: decision.job.map(|job| FiredJob { has_input: true, ..job }), ..decision }
}

/// Makes the decision count towards the runs that the schedule is limited to.
pub fn counted(decision: Decision) -> Decision {
    Decision { job: decision.job.map(|job| FiredJob { is_counted: true, ..job }), ..decision }
}

pub fn decide(decision: &Decision) -> Write {
    Write::Schedule(ScheduleWrite::Decide(Box::new(decision.clone())))
}

pub fn release(decision: &Decision) -> Write {
    Write::Schedule(ScheduleWrite::Release(Box::new(decision.clone())))
}

pub fn watermark(shard: u16, secs: i64) -> Write {
    Write::Schedule(ScheduleWrite::Watermark { shard: ShardId(shard), at: at(secs) })
}

/// Where the job of a decision waits at first.
pub fn key_of(decision: &Decision) -> JobKey {
    JobKey::original(job_of(decision))
}

pub fn job_of(decision: &Decision) -> JobId {
    decision.job.as_ref().expect("it fires").id
}

/// Everything that the ledger has of a schedule.
pub async fn ledger(store: &dyn Store, schedule: ScheduleId) -> Vec<OccurrenceRow> {
    let page = store.occurrences(schedule, OccurrenceFilter::default(), None, Order::Ascending, 1000).await;
    let (rows, next) = page.unwrap();
    assert_eq!(next, None);
    rows
}

impl Owner<'_> {
    /// Applies a batch of which this is left out, and only this.
    pub async fn all_but(&mut self, writes: Vec<Write>, mut left_out: Void) {
        let Applied::Done { mut void, .. } = self.apply(writes).await.unwrap() else { panic!("it is fenced") };
        for void in [&mut void, &mut left_out] {
            void.schedules.sort_unstable();
            void.occurrences.sort_unstable();
        }
        assert_eq!(void, left_out);
    }

    /// Applies a batch in which these planned times are decided in vain.
    pub async fn but_verdicts(&mut self, writes: Vec<Write>, in_vain: &[&Decision]) {
        let keys = in_vain.iter().map(|decision| (decision.occurrence.schedule, decision.occurrence.at));
        self.all_but(writes, Void { occurrences: keys.collect(), ..Void::default() }).await;
    }
}
