//! Lists of jobs, by their first due times, page by page.
//!
//! The order is that of the ids, and an id never changes: a walk through all pages meets each job once, whatever happens to
//! the jobs meanwhile. The store reads both tables in one snapshot, so no page shows a job twice.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use punctual_api::{JobList, JobSummary, ListQuery, limits};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::Source;
use punctual_core::task::{Run, Task};
use punctual_core::{AttemptNo, JobId, JobKey, JobState, ScheduleId, Span, TaskId, Timestamp};
use punctual_store::{Filter, FinishedJob, HotJob, JobPages, JobRecord, Order, Page, Position, Tables};

use crate::jobs::{task_ref, waiting_late_by};
use crate::placement::job_waits_for;
use crate::principal::By;
use crate::principal::permission::ViewJobs;
use crate::route::Live;
use crate::schedules::job_schedule;
use crate::title::Titled;
use crate::{App, AppError, Checked, Faults, Result, cursor, cut, parameters, validate};

/// Running jobs that are looked at for one page: one read of some milliseconds.
const RUNNING_EXAMINED_MAX: usize = 2 * limits::PAGE_LEN_MAX;

/// Waiting retries of one page whose last attempts are read. Each is a read of its own.
const LAST_REASONS_MAX: usize = 50;
/// Of each of their reasons. The job shows all of it.
const LAST_REASON_BYTES_MAX: usize = 200;

enum Row {
    Hot(HotJob, JobState),
    Finished(FinishedJob),
}

impl Row {
    fn schedule(&self) -> Option<ScheduleId> {
        match self {
            Self::Hot(job, _) => job.source.map(|source| source.schedule),
            Self::Finished(job) => job.source.map(|source| source.schedule),
        }
    }

    fn titled<'a>(&'a self, task: Option<&'a Task>) -> Titled<'a> {
        let (source, tracing_id) = match self {
            Self::Hot(job, _) => (job.source, job.tracing_id.as_deref()),
            Self::Finished(job) => (job.source, job.tracing_id.as_deref()),
        };
        Titled { id: self.task(), task, source, tracing_id }
    }

    /// Whether it is due and has not started.
    fn waits(&self, now: Timestamp) -> bool {
        matches!(self, Self::Hot(job, JobState::Scheduled) if job.key.due_at <= now)
    }

    fn id(&self) -> JobId {
        match self {
            Self::Hot(job, _) => job.key.id,
            Self::Finished(job) => job.id,
        }
    }

    /// Its id, if it waits for its next try and workers did not give it back since the last one.
    fn retries(&self) -> Option<JobId> {
        match self {
            Self::Hot(job, JobState::Scheduled) if job.given_back().is_none() && job.counters.next_attempt.0 > 1 => {
                Some(job.key.id)
            }
            Self::Hot(..) | Self::Finished(_) => None,
        }
    }

    /// `of_task` is what due jobs of its task wait for.
    fn waiting_for(&self, of_task: Option<&String>, now: Timestamp) -> Option<String> {
        match self {
            Self::Hot(job, JobState::Scheduled) => job_waits_for(job, of_task.filter(|_| self.waits(now)).cloned()),
            Self::Hot(..) | Self::Finished(_) => None,
        }
    }

    /// How long it has been due, if it has not started.
    fn late_by(&self, now: Timestamp) -> Option<Span> {
        match self {
            Self::Hot(job, JobState::Scheduled) => waiting_late_by(job, now),
            Self::Hot(..) | Self::Finished(_) => None,
        }
    }

    fn task(&self) -> TaskId {
        match self {
            Self::Hot(job, _) => job.task,
            Self::Finished(job) => job.task,
        }
    }
}

struct JobQuery {
    filter: Filter,
    position: Position,
    scheduled: bool,
    running: bool,
    finished: bool,
}

impl JobQuery {
    fn has(&self, row: &Row) -> bool {
        match row {
            Row::Hot(_, JobState::Running) => self.running,
            Row::Hot(..) => self.scheduled,
            Row::Finished(job) => {
                self.finished && (self.filter.states.is_empty() || self.filter.states.contains(&job.state))
            }
        }
    }
}

impl App {
    pub async fn list_jobs(&self, by: &By<ViewJobs>, query: ListQuery) -> Result<JobList> {
        let query = self.read_query(by.namespace(), query).await?;
        let (page, uncertain) = match (query.scheduled, query.running) {
            (false, true) => self.page_without_waiting(&query).await?,
            (true, _) | (false, false) => self.page(&query).await?,
        };
        let list = self.summarize(page).await?;
        let jobs = list.jobs.into_iter().map(|job| cut::summary(by, job)).collect();
        Ok(JobList { jobs, uncertain, ..list })
    }

    /// Also whether some owner could not be asked.
    async fn page(&self, query: &JobQuery) -> Result<(Page<Row>, bool)> {
        let tables = match (query.scheduled || query.running, query.finished) {
            (true, true) => Tables::Both,
            (true, false) => Tables::Hot,
            (false, _) => Tables::Finished,
        };
        let filter = Filter { tables, ..query.filter.clone() };
        let JobPages { hot, finished } = self.0.store.list_jobs(filter, query.position).await?;
        let (rows, uncertain) = self.with_states(hot.rows).await?;
        let rows = rows.into_iter().filter(|row| query.has(row)).collect();
        let finished = Page { rows: finished.rows.into_iter().map(Row::Finished).collect(), next: finished.next };
        Ok((merge(Page { rows, next: hot.next }, finished, query.position), uncertain))
    }

    /// Whether these jobs wait or run is known to their owners, who are asked after the jobs were read. One that has ended
    /// since is neither, and is shown as it ended.
    async fn with_states(&self, jobs: Vec<HotJob>) -> Result<(Vec<Row>, bool)> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.key.id).collect();
        let lives = self.lives(&ids).await?;
        let uncertain = lives.iter().any(|live| matches!(live, Live::Unknown));
        let now = self.now();
        let maybe_ended =
            jobs.iter().zip(&lives).filter(|(job, live)| matches!(live, Live::Waiting) && job.key.due_at <= now);
        let keys: Vec<JobKey> = maybe_ended.map(|(job, _)| job.key).collect();
        let ended = self.ended_among(keys).await?;
        let row = |(mut job, live): (HotJob, Live)| match live {
            Live::Running { view, .. } => {
                // It may have been tried again since it was read.
                job.key = view.key;
                job.counters.next_attempt = view.attempt;
                Row::Hot(job, JobState::Running)
            }
            Live::Waiting | Live::Unknown => match ended.get(&job.key.id) {
                Some(ended) => Row::Finished(ended.clone()),
                None => Row::Hot(job, JobState::Scheduled),
            },
        };
        Ok((jobs.into_iter().zip(lives).map(row).collect(), uncertain))
    }

    async fn ended_among(&self, keys: Vec<JobKey>) -> Result<BTreeMap<JobId, FinishedJob>> {
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut gone: BTreeSet<JobId> = keys.iter().map(|key| key.id).collect();
        for job in self.0.store.hot_jobs(keys).await? {
            gone.remove(&job.key.id);
        }
        if gone.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ended = self.0.store.finished_jobs(gone.into_iter().collect()).await?;
        Ok(ended.into_iter().map(|job| (job.id, job)).collect())
    }

    /// Running jobs are few among those that wait, so their owners are asked first, and only their rows are read.
    ///
    /// No job is left out that runs or has finished all the while: one that ran when its owner was asked and is not hot in
    /// the next read has finished before that, and is in the last one. One that ends between the two reads is in both.
    async fn page_without_waiting(&self, query: &JobQuery) -> Result<(Page<Row>, bool)> {
        let (running, uncertain) = self.running_page(query).await?;
        let mut finished = Page::EMPTY;
        if query.finished {
            let filter = Filter { tables: Tables::Finished, ..query.filter.clone() };
            finished = self.0.store.list_jobs(filter, query.position).await?.finished;
        }
        let ended: BTreeSet<JobId> = finished.rows.iter().map(|job| job.id).collect();
        let hot = running.rows.into_iter().filter(|job| !ended.contains(&job.key.id));
        let hot = Page { rows: hot.map(|job| Row::Hot(job, JobState::Running)).collect(), next: running.next };
        let finished = Page { rows: finished.rows.into_iter().map(Row::Finished).collect(), next: finished.next };
        Ok((merge(hot, finished, query.position), uncertain))
    }

    async fn running_page(&self, query: &JobQuery) -> Result<(Page<HotJob>, bool)> {
        let (runs, unknown) = self.all_runs().await?;
        let (filter, Position { after, order, limit }) = (&query.filter, query.position);
        let mut runs: Vec<(JobKey, AttemptNo)> = runs.iter().map(|view| (view.key, view.attempt)).collect();
        runs.retain(|(key, _)| {
            let scheduled_at = key.id.due_at();
            after.is_none_or(|after| compare(key.id, after, order) == Ordering::Greater)
                && filter.scheduled_from.is_none_or(|from| scheduled_at >= from)
                && filter.scheduled_before.is_none_or(|before| scheduled_at < before)
        });
        runs.sort_unstable_by(|(a, _), (b, _)| compare(a.id, b.id, order));
        let is_examined_in_part = runs.len() > RUNNING_EXAMINED_MAX;
        runs.truncate(RUNNING_EXAMINED_MAX);
        let examined_to = runs.last().map(|(key, _)| key.id).filter(|_| is_examined_in_part);
        let attempts: BTreeMap<JobKey, AttemptNo> = runs.iter().copied().collect();
        let mut jobs = self.0.store.hot_jobs(runs.into_iter().map(|(key, _)| key).collect()).await?;
        // One whose attempt has ended waits for another.
        jobs.retain(|job| attempts.get(&job.key) == Some(&job.counters.next_attempt));
        let tasks = self.tasks_by_id(jobs.iter().map(|job| job.task)).await?;
        jobs.retain(|job| {
            let is_own = filter.namespace.is_none_or(|namespace| namespace == job.namespace);
            let traced = filter.tracing_id.is_none() || filter.tracing_id == job.tracing_id;
            is_own && traced && fits(filter, job.task, tasks.get(&job.task).map(|task| &**task))
        });
        let is_full = jobs.len() > limit;
        jobs.truncate(limit);
        let next = if is_full { jobs.last().map(|job| job.key.id) } else { examined_to };
        Ok((Page { rows: jobs, next }, !unknown.is_empty()))
    }

    /// Why the last attempts of jobs failed that wait for their next. Of those beyond [`LAST_REASONS_MAX`], the list says only
    /// that they are retried.
    async fn last_reasons(&self, jobs: impl Iterator<Item = JobId>) -> Result<BTreeMap<JobId, String>> {
        let jobs = jobs.take(LAST_REASONS_MAX).map(|id| async move { (id, self.0.store.job(id).await) });
        let mut reasons = BTreeMap::new();
        for (id, record) in join_all(jobs).await {
            if let Some(JobRecord::Hot { attempts, .. }) = record?
                && let Some(reason) = attempts.last().and_then(|last| last.reason.as_deref())
            {
                let end = reason.floor_char_boundary(LAST_REASON_BYTES_MAX);
                let more = if end < reason.len() { " …" } else { "" };
                reasons.insert(id, format!("{}{more}", &reason[..end]));
            }
        }
        Ok(reasons)
    }

    async fn summarize(&self, page: Page<Row>) -> Result<JobList> {
        let tasks = self.tasks_by_id(page.rows.iter().map(Row::task)).await?;
        let titles = self.titles(tasks.values().map(|task| &**task), page.rows.iter().filter_map(Row::schedule)).await;
        let now = self.now();
        let waiting = page.rows.iter().filter(|row| row.waits(now));
        let waiting = waiting.filter_map(|row| Some((row.id().shard(), tasks.get(&row.task())?)));
        let reasons = self.waiting_reasons(waiting).await;
        let last_reasons = self.last_reasons(page.rows.iter().filter_map(Row::retries)).await?;
        let summarize = |row: Row| {
            let known = tasks.get(&row.task()).map(|task| &**task);
            let last_reason = last_reasons.get(&row.id()).cloned();
            let (task, title) = (task_ref(row.task(), known), titles.of(row.titled(known)));
            let waiting_for = row.waiting_for(reasons.get(&(row.task(), row.id().shard())), now);
            let late_by = row.late_by(now);
            let schedule = |source: Source| job_schedule(source, &titles);
            match row {
                Row::Hot(job, state) => JobSummary {
                    id: job.key.id,
                    title,
                    waiting_for,
                    late_by,
                    task,
                    state: state.as_str().to_owned(),
                    priority: job.priority,
                    submitted_at: job.submitted_at,
                    scheduled_at: job.key.id.due_at(),
                    due_at: job.key.due_at,
                    finished_at: None,
                    attempt_count: job.counters.next_attempt.0 - u32::from(state == JobState::Scheduled),
                    // Why it has not started, if workers gave it back; one that is tried again may be given back again.
                    reason: job.give_backs.and_then(|all| Some(all.last?.reason)).or(last_reason),
                    schedule: job.source.map(schedule),
                    tracing_id: job.tracing_id,
                },
                Row::Finished(job) => JobSummary {
                    id: job.id,
                    title,
                    waiting_for,
                    late_by,
                    task,
                    state: job.state.as_str().to_owned(),
                    priority: job.priority,
                    submitted_at: job.submitted_at,
                    scheduled_at: job.id.due_at(),
                    due_at: job.due_at,
                    finished_at: Some(job.finished_at),
                    attempt_count: job.counters.next_attempt.0.saturating_sub(1),
                    reason: job.reason,
                    schedule: job.source.map(schedule),
                    tracing_id: job.tracing_id,
                },
            }
        };
        let jobs = page.rows.into_iter().map(summarize).collect();
        Ok(JobList { jobs, next_cursor: page.next.map(cursor::write_id), uncertain: false })
    }

    async fn read_query(&self, namespace: NamespaceId, query: ListQuery) -> Result<JobQuery> {
        let read = read(&query)?;
        let task = match &query.task {
            Some(name) => Some(self.task_named(namespace, name).await?.id),
            None => None,
        };
        let includes = |state: JobState| read.states.is_empty() || read.states.contains(&state);
        let finished_states: Vec<JobState> = read.states.iter().copied().filter(|state| state.is_final()).collect();
        Ok(JobQuery {
            position: read.position,
            scheduled: includes(JobState::Scheduled),
            running: includes(JobState::Running),
            finished: read.states.is_empty() || !finished_states.is_empty(),
            filter: Filter {
                tables: Tables::Both,
                namespace: Some(namespace),
                task,
                kind: query.kind,
                queue: query.queue,
                tracing_id: query.tracing_id,
                scheduled_from: read.scheduled_from,
                scheduled_before: read.scheduled_before,
                states: finished_states,
            },
        })
    }
}

/// What the parameters of a list mean by themselves.
struct ReadQuery {
    states: Vec<JobState>,
    position: Position,
    scheduled_from: Option<Timestamp>,
    scheduled_before: Option<Timestamp>,
}

fn read(query: &ListQuery) -> Result<ReadQuery> {
    let mut faults = Faults::default();
    let states = parameters::words("state", query.state.as_deref(), &JobState::ALL, JobState::as_str);
    let states = faults.value(states).unwrap_or_default();
    for (field, name) in [("task", &query.task), ("queue", &query.queue)] {
        faults.check(name.as_ref().map_or(Ok(()), |name| validate::name(field, name)));
    }
    if let Some(kind) = query.kind.as_deref().filter(|kind| !Run::KINDS.contains(kind)) {
        let shown: String = kind.chars().take(64).collect();
        faults.check(Err(AppError::field("kind", format!("{shown} is not one of {}", Run::KINDS.join(", ")))));
    }
    if let Some(tracing_id) = &query.tracing_id {
        faults.check(validate::argument("tracing_id", tracing_id, limits::TRACING_ID_CHARS_MAX));
    }
    let mut time = |field, text: &Option<String>| faults.value(parameters::time(field, text.as_deref())).flatten();
    let scheduled_from = time("scheduled_from", &query.scheduled_from);
    let scheduled_before = time("scheduled_before", &query.scheduled_before);
    let order = faults.value(parameters::order(query.order.as_deref())).unwrap_or_default();
    let page = parameters::page(query.limit.as_deref(), query.cursor.as_deref(), cursor::read_id);
    let (limit, after) = faults.value(page).unwrap_or_default();
    faults.finish()?;
    Ok(ReadQuery { states, position: Position { after, order, limit }, scheduled_from, scheduled_before })
}

impl Checked for ListQuery {
    fn check(&self) -> Result<()> {
        read(self).map(drop)
    }
}

/// What a filter says of a job's task.
fn fits(filter: &Filter, id: TaskId, task: Option<&Task>) -> bool {
    let kind = task.map(|task| task.spec.run.kind());
    let queue = task.map(|task| task.spec.queue.as_str());
    filter.task.is_none_or(|wanted| wanted == id)
        && filter.kind.as_deref().is_none_or(|wanted| Some(wanted) == kind)
        && filter.queue.as_deref().is_none_or(|wanted| Some(wanted) == queue)
}

fn compare(a: JobId, b: JobId, order: Order) -> Ordering {
    match order {
        Order::Ascending => a.cmp(&b),
        Order::Descending => b.cmp(&a),
    }
}

/// One page of two. Neither source was examined beyond its `next`, so nothing beyond
/// the nearer of the two may be shown yet.
fn merge(hot: Page<Row>, finished: Page<Row>, position: Position) -> Page<Row> {
    let order = position.order;
    let boundary = match (hot.next, finished.next) {
        (Some(a), Some(b)) => Some(if compare(a, b, order) == Ordering::Less { a } else { b }),
        (a, b) => a.or(b),
    };
    let mut rows: Vec<Row> = hot.rows.into_iter().chain(finished.rows).collect();
    rows.retain(|row| boundary.is_none_or(|end| compare(row.id(), end, order) != Ordering::Greater));
    rows.sort_by(|a, b| compare(a.id(), b.id(), order));
    if rows.len() > position.limit {
        rows.truncate(position.limit);
        let next = rows.last().map(Row::id);
        return Page { rows, next };
    }
    Page { rows, next: boundary }
}
