use std::collections::BTreeSet;
use std::fmt::Debug;

use bytes::Bytes;
use punctual_core::schedule::StoredCalendar;
use punctual_core::shard::event::Load;
use punctual_core::shard::write::SharedBatch;
use punctual_core::task::Task;
use punctual_core::{ArtifactId, AttemptNo, JobId, JobKey, ScheduleId, ServerId, ShardId, Span, TaskId, Timestamp};
use punctual_store::{
    Applied, Archiving, Filter, LogChunk, NewArtifact, OccurrenceFilter, Order, Position, Result, ScheduleFilter,
    Store, StoreError, Submission,
};

/// One call of the port.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Submit(Submission),
    Apply(SharedBatch),
    Acquire(ServerId, Span, usize),
    TakeOver(ServerId, Vec<ShardId>, Span),
    Renew(ServerId, Span),
    Release(ServerId),
    CreateTask(Task),
    UpdateTask(Task),
    DeleteTask(TaskId),
    InternTasks(Vec<(Task, [u8; 32])>),
    TaskByName(String),
    TasksById(Vec<TaskId>),
    ListTasks(Option<String>, usize),
    CreateArtifact(NewArtifact),
    Artifact(ArtifactId),
    ListArtifacts(Option<ArtifactId>, usize),
    PendingArtifacts(Option<ArtifactId>, usize),
    ArtifactArrived(ArtifactId, Timestamp),
    RefuseArtifact(ArtifactId, Timestamp),
    DeleteArtifact(ArtifactId),
    PruneArtifacts(Timestamp, Timestamp, usize),
    AppendLogs(Vec<LogChunk>),
    ReadLog(JobId, u64, usize),
    KeptLogs(usize),
    AssembleLog(JobId, usize),
    ArchiveLogs(Vec<Archiving>),
    DroppedLogs(usize),
    ForgetDroppedLogs(Vec<String>),
    Prune(Timestamp, Timestamp, usize),
    Job(JobId),
    Find(JobId),
    Inputs(Vec<JobKey>),
    HotJobs(Vec<JobKey>),
    Load(Load),
    OpenStarts(ShardId),
    ListHot(Filter, Position),
    ListFinished(Filter, Position),
    ShardSchedules(ShardId),
    LoadSchedules(ShardId, Option<ScheduleId>, usize),
    Schedule(ScheduleId),
    ScheduleIds(Vec<String>),
    ListSchedules(ScheduleFilter, Option<String>, usize),
    SchedulesOfTask(TaskId, usize),
    ScheduleChanges(ScheduleId, usize),
    Occurrences(ScheduleId, OccurrenceFilter, Option<Timestamp>, Order, usize),
    PutCalendar(StoredCalendar),
    DeleteCalendar(String),
    Calendars,
    CalendarsRevision,
    SchedulesWithCalendars(Vec<String>, Option<ScheduleId>, usize),
}

impl Operation {
    /// The answer as text; what an error says in detail is the store's own affair.
    pub(super) async fn run(&self, store: &dyn Store) -> String {
        match self.clone() {
            Self::Submit(submission) => shown(store.submit(submission).await),
            Self::Apply(batch) => shown(store.apply(batch).await.map(in_order)),
            Self::Acquire(server, ttl, limit) => shown(store.acquire(server, ttl, limit).await),
            Self::TakeOver(server, shards, ttl) => shown(store.take_over(server, shards, ttl).await),
            Self::Renew(server, ttl) => shown(store.renew(server, ttl).await),
            Self::Release(server) => shown(store.release(server).await),
            Self::CreateTask(task) => shown(store.create_task(task).await),
            Self::UpdateTask(task) => shown(store.update_task(task).await),
            Self::DeleteTask(id) => shown(store.delete_task(id).await),
            Self::InternTasks(tasks) => shown(store.intern_tasks(tasks).await),
            Self::TaskByName(name) => shown(store.task_by_name(&name).await),
            Self::TasksById(ids) => shown(store.tasks_by_id(ids).await),
            Self::ListTasks(after, limit) => shown(store.list_tasks(after, limit).await),
            Self::CreateArtifact(artifact) => shown(store.create_artifact(artifact).await),
            Self::Artifact(id) => shown(store.artifact(id).await),
            Self::ListArtifacts(after, limit) => shown(store.list_artifacts(after, limit).await),
            Self::PendingArtifacts(after, limit) => shown(store.pending_artifacts(after, limit).await),
            Self::ArtifactArrived(id, at) => shown(store.artifact_arrived(id, at, Some("x86_64".to_owned())).await),
            Self::RefuseArtifact(id, at) => shown(store.refuse_artifact(id, at, "it is a script".to_owned()).await),
            Self::DeleteArtifact(id) => shown(store.delete_artifact(id).await),
            Self::PruneArtifacts(before, now, limit) => shown(store.prune_artifacts(before, now, limit).await),
            Self::AppendLogs(chunks) => shown(store.append_logs(chunks).await),
            Self::ReadLog(job, offset, limit) => shown(store.read_log(job, AttemptNo::FIRST, offset, limit).await),
            Self::KeptLogs(limit) => shown(store.kept_logs(None, limit).await),
            Self::AssembleLog(job, limit) => {
                shown(store.assemble_log(job, AttemptNo::FIRST, Bytes::from_static(b"ab"), limit).await)
            }
            Self::ArchiveLogs(logs) => shown(store.archive_logs(logs).await),
            Self::DroppedLogs(limit) => shown(store.dropped_logs(limit).await),
            Self::ForgetDroppedLogs(paths) => shown(store.forget_dropped_logs(paths).await),
            Self::Prune(before, now, limit) => shown(store.prune(before, now, limit).await),
            Self::Job(id) => shown(store.job(id).await),
            Self::Find(id) => shown(store.find(id).await),
            Self::Inputs(keys) => shown(store.inputs(keys).await),
            Self::HotJobs(keys) => shown(store.hot_jobs(keys).await),
            Self::Load(load) => shown(store.load(load).await),
            Self::OpenStarts(shard) => shown(store.open_starts(shard).await),
            Self::ListHot(filter, position) => shown(store.list_hot(filter, position).await),
            Self::ListFinished(filter, position) => shown(store.list_finished(filter, position).await),
            Self::ShardSchedules(shard) => shown(store.shard_schedules(shard).await),
            Self::LoadSchedules(shard, after, limit) => shown(store.load_schedules(shard, after, limit).await),
            Self::Schedule(id) => shown(store.schedule(id).await),
            Self::ScheduleIds(names) => shown(store.schedule_ids(names).await.map(BTreeSet::from_iter)),
            Self::ListSchedules(filter, after, limit) => shown(store.list_schedules(filter, after, limit).await),
            Self::SchedulesOfTask(task, limit) => shown(store.schedules_of_task(task, limit).await),
            Self::ScheduleChanges(id, limit) => shown(store.schedule_changes(id, limit).await),
            Self::Occurrences(id, filter, after, order, limit) => {
                shown(store.occurrences(id, filter, after, order, limit).await)
            }
            Self::PutCalendar(calendar) => shown(store.put_calendar(calendar).await),
            Self::DeleteCalendar(name) => shown(store.delete_calendar(&name).await),
            Self::Calendars => shown(store.calendars().await),
            Self::CalendarsRevision => shown(store.calendars_revision().await),
            Self::SchedulesWithCalendars(names, after, limit) => {
                shown(store.schedules_with_calendars(names, after, limit).await)
            }
        }
    }
}

/// In which order a store names the schedules and times that it left out is its own affair.
fn in_order(applied: Applied) -> Applied {
    let Applied::Done { mut void } = applied else { return applied };
    void.schedules.sort_unstable();
    void.occurrences.sort_unstable();
    Applied::Done { void }
}

pub(super) fn shown<T: Debug>(result: Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(StoreError::Inconsistent(_)) => "inconsistent".to_owned(),
        Err(error) => panic!("a store in good health answered: {error}"),
    }
}
