use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use bytes::Bytes;
use punctual_core::notice::Notice;
use punctual_core::schedule::StoredCalendar;
use punctual_core::shard::event::Load;
use punctual_core::shard::write::SharedBatch;
use punctual_core::task::Task;
use punctual_core::{
    ArtifactId, AttemptNo, BackfillId, JobId, JobKey, NamespaceId, ScheduleId, ServerId, ShardId, Span, TaskId,
    Timestamp,
};
use punctual_store::{
    Ailing, Applied, Archiving, BackfillRow, BackfillStep, Dispatch, Dispatched, DueWindow, Filter, LogChunk,
    NewArtifact, OccurrenceFilter, Order, Position, Result, RuleRow, ScheduleFilter, Store, StoreError, Submission,
    WaitingNotice,
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
    DeleteTask(TaskId, Option<u32>),
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
    FinishedJobs(Vec<JobId>),
    ListJobs(Filter, Position),
    ListDue(DueWindow, usize),
    GivenBack(Option<JobKey>, Timestamp, usize),
    ShardSchedules(ShardId),
    LoadSchedules(ShardId, Option<ScheduleId>, usize),
    Schedule(ScheduleId),
    ScheduleIds(Vec<String>),
    ListSchedules(ScheduleFilter, Option<String>, usize),
    SchedulesOfTask(TaskId, usize),
    ScheduleChanges(ScheduleId, usize),
    Occurrences(ScheduleId, OccurrenceFilter, Option<Timestamp>, Order, usize),
    PutCalendar(StoredCalendar, Option<u32>),
    DeleteCalendar(NamespaceId, String, Option<u32>),
    Calendars,
    CalendarsRevision,
    SchedulesWithCalendars(Vec<String>, Option<ScheduleId>, usize),
    Watermarks,
    PutRule(RuleRow, Option<u32>),
    DeleteRule(NamespaceId, String, Option<u32>),
    Rule(String),
    Rules,
    WaitingNotices(usize),
    /// Takes those at these places among what waits; which numbers they have is the store's own affair.
    Dispatch(Vec<usize>, Dispatch),
    AilingOf(Vec<TaskId>),
    Ailing(usize),
    Deliveries(Option<String>, Option<(Timestamp, JobId)>, usize),
    AddBackfill(BackfillRow),
    Backfill(BackfillId),
    ListBackfills(Option<ScheduleId>, Option<BackfillId>, usize),
    RunningBackfills,
    StepBackfill(BackfillStep),
    OpenRuns(BackfillId, usize),
    BackfillRuns(BackfillId, Option<Timestamp>, usize),
    Backfilled(ScheduleId, Timestamp, Timestamp, usize),
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
            Self::DeleteTask(id, expected) => shown(store.delete_task(id, expected).await),
            Self::InternTasks(tasks) => shown(store.intern_tasks(tasks).await),
            Self::TaskByName(name) => in_each(async |namespace| store.task_by_name(namespace, &name).await).await,
            Self::TasksById(ids) => shown(store.tasks_by_id(ids).await),
            Self::ListTasks(after, limit) => {
                in_each(async |namespace| store.list_tasks(namespace, after.clone(), limit).await).await
            }
            Self::CreateArtifact(artifact) => shown(store.create_artifact(artifact).await),
            Self::Artifact(id) => shown(store.artifact(id).await),
            Self::ListArtifacts(after, limit) => {
                in_each(async |namespace| store.list_artifacts(namespace, after, limit).await).await
            }
            Self::PendingArtifacts(after, limit) => shown(store.pending_artifacts(after, limit).await),
            Self::ArtifactArrived(id, at) => shown(store.artifact_arrived(id, at, Some("x86_64".to_owned())).await),
            Self::RefuseArtifact(id, at) => shown(store.refuse_artifact(id, at, "it is a script".to_owned()).await),
            Self::DeleteArtifact(id) => shown(store.delete_artifact(id, Vec::new()).await),
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
            Self::FinishedJobs(ids) => {
                let jobs = store.finished_jobs(ids).await;
                shown(jobs.map(|jobs| jobs.into_iter().map(|job| (job.id, job)).collect::<BTreeMap<_, _>>()))
            }
            Self::ListJobs(filter, position) => shown(store.list_jobs(filter, position).await),
            Self::ListDue(window, limit) => shown(store.list_due(window, limit).await),
            Self::GivenBack(after, until, limit) => shown(store.given_back(None, after, until, limit).await),
            Self::ShardSchedules(shard) => shown(store.shard_schedules(shard).await),
            Self::LoadSchedules(shard, after, limit) => shown(store.load_schedules(shard, after, limit).await),
            Self::Schedule(id) => shown(store.schedule(id).await),
            Self::ScheduleIds(names) => {
                let ids = async |namespace| store.schedule_ids(namespace, names.clone()).await.map(BTreeSet::from_iter);
                in_each(ids).await
            }
            Self::ListSchedules(filter, after, limit) => shown(store.list_schedules(filter, after, limit).await),
            Self::SchedulesOfTask(task, limit) => shown(store.schedules_of_task(task, limit).await),
            Self::ScheduleChanges(id, limit) => shown(store.schedule_changes(id, limit).await),
            Self::Occurrences(id, filter, after, order, limit) => {
                shown(store.occurrences(id, filter, after, order, limit).await)
            }
            Self::PutCalendar(calendar, expected) => shown(store.put_calendar(calendar, expected).await),
            Self::DeleteCalendar(namespace, name, expected) => {
                shown(store.delete_calendar(namespace, &name, expected).await)
            }
            Self::Calendars => shown(store.calendars(None).await),
            Self::CalendarsRevision => shown(store.calendars_revision().await),
            Self::SchedulesWithCalendars(names, after, limit) => {
                let names = names.into_iter().enumerate().map(|(place, name)| (NAMESPACES[place % 2], name)).collect();
                shown(store.schedules_with_calendars(names, after, limit).await)
            }
            Self::Watermarks => shown(store.watermarks().await),
            Self::PutRule(row, expected) => shown(store.put_rule(row, expected).await),
            Self::DeleteRule(namespace, name, expected) => shown(store.delete_rule(namespace, &name, expected).await),
            Self::Rule(name) => in_each(async |namespace| store.rule(namespace, &name).await).await,
            Self::Rules => shown(store.rules(None).await),
            Self::WaitingNotices(limit) => shown(store.waiting_notices(limit).await.map(without_numbers)),
            Self::Dispatch(places, dispatch) => {
                format!("dispatch {}", shown(take_places(store, &places, dispatch).await))
            }
            Self::AilingOf(tasks) => shown(store.ailing_of(tasks).await.map(by_task)),
            Self::Ailing(limit) => {
                let all = shown(store.ailing(None, limit).await);
                all + &in_each(async |namespace| store.ailing(Some(namespace), limit).await).await
            }
            Self::Deliveries(rule, before, limit) => {
                in_each(async |namespace| store.deliveries(namespace, rule.clone(), before, limit).await).await
            }
            Self::AddBackfill(row) => shown(store.add_backfill(row).await),
            Self::Backfill(id) => shown(store.backfill(id).await),
            Self::ListBackfills(schedule, before, limit) => {
                in_each(async |namespace| store.list_backfills(namespace, schedule, before, limit).await).await
            }
            Self::RunningBackfills => shown(store.running_backfills().await),
            Self::StepBackfill(step) => format!("step {}", shown(store.step_backfill(step).await)),
            Self::OpenRuns(id, limit) => shown(store.open_runs(id, limit).await),
            Self::BackfillRuns(id, after, limit) => shown(store.backfill_runs(id, after, limit).await),
            Self::Backfilled(id, from, until, limit) => shown(store.backfilled(id, from, until, limit).await),
        }
    }
}

/// The namespaces of a plan.
pub(super) const NAMESPACES: [NamespaceId; 2] = [NamespaceId::DEFAULT, NamespaceId(1)];

/// What is answered in each namespace.
async fn in_each<T: Debug>(ask: impl AsyncFn(NamespaceId) -> Result<T>) -> String {
    format!("{} and {}", shown(ask(NAMESPACES[0]).await), shown(ask(NAMESPACES[1]).await))
}

async fn take_places(store: &dyn Store, places: &[usize], dispatch: Dispatch) -> Result<Dispatched> {
    let waiting = store.waiting_notices(1000).await?;
    let numbers = places.iter().map(|place| waiting[*place].seq);
    let taken = numbers.chain(dispatch.taken.iter().copied()).collect();
    store.dispatch(Dispatch { taken, ..dispatch }).await
}

fn without_numbers(waiting: Vec<WaitingNotice>) -> Vec<Notice> {
    waiting.into_iter().map(|waiting| waiting.notice).collect()
}

fn by_task(mut ailing: Vec<Ailing>) -> Vec<Ailing> {
    ailing.sort_by_key(|ailing| ailing.task);
    ailing
}

/// In which order a store names the schedules and times that it left out is its own affair.
fn in_order(applied: Applied) -> Applied {
    let Applied::Done { mut void, steps } = applied else { return applied };
    void.schedules.sort_unstable();
    void.occurrences.sort_unstable();
    Applied::Done { void, steps }
}

pub(super) fn shown<T: Debug>(result: Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(StoreError::Inconsistent(_)) => "inconsistent".to_owned(),
        Err(error) => panic!("a store in good health answered: {error}"),
    }
}
