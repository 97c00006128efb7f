//! Lists of jobs, in the order of their due times, page by page.

use std::cmp::Ordering;

use punctual_api::{JobList, JobSummary, ListQuery, limits};
use punctual_core::task::{Run, Task};
use punctual_core::{JobId, JobKey, JobState, TaskId, Timestamp};
use punctual_store::{Filter, FinishedJob, HotJob, Order, Page, Position};

use crate::jobs::task_ref;
use crate::route::Live;
use crate::schedules::job_schedule;
use crate::{App, AppError, Result, cursor, validate};

/// Running jobs that are looked at for one page: one read of some milliseconds.
const RUNNING_EXAMINED_MAX: usize = 2 * limits::PAGE_LEN_MAX;

enum Row {
    Hot(HotJob, JobState),
    Finished(FinishedJob),
}

impl Row {
    fn key(&self) -> JobKey {
        match self {
            Self::Hot(job, _) => job.key,
            Self::Finished(job) => JobKey::original(job.id),
        }
    }

    fn task(&self) -> TaskId {
        match self {
            Self::Hot(job, _) => job.task,
            Self::Finished(job) => job.task,
        }
    }
}

struct Wanted {
    filter: Filter,
    position: Position,
    scheduled: bool,
    running: bool,
    finished: bool,
}

impl App {
    pub async fn list_jobs(&self, query: ListQuery) -> Result<JobList> {
        let wanted = self.read_query(query).await?;
        let (hot, uncertain) = match (wanted.scheduled, wanted.running) {
            (false, false) => (Page { rows: Vec::new(), next: None }, false),
            (false, true) => self.running_page(&wanted).await?,
            (true, _) => self.hot_page(&wanted).await?,
        };
        let finished = if wanted.finished {
            let page = self.0.store.list_finished(wanted.filter.clone(), wanted.position).await?;
            Page { rows: page.rows.into_iter().map(Row::Finished).collect(), next: page.next }
        } else {
            Page { rows: Vec::new(), next: None }
        };
        let page = merge(hot, finished, wanted.position);
        Ok(JobList { uncertain, ..self.summarize(page).await? })
    }

    /// Also whether some owner could not be asked.
    async fn hot_page(&self, wanted: &Wanted) -> Result<(Page<Row>, bool)> {
        let page = self.0.store.list_hot(wanted.filter.clone(), wanted.position).await?;
        let ids: Vec<JobId> = page.rows.iter().map(|job| job.key.id).collect();
        let lives = self.lives(&ids).await?;
        let uncertain = lives.iter().any(|live| matches!(live, Live::Unknown));
        let rows = page.rows.into_iter().zip(lives).map(|(job, live)| {
            let state = if matches!(live, Live::Running { .. }) { JobState::Running } else { JobState::Scheduled };
            Row::Hot(job, state)
        });
        let rows = rows.filter(|row| !matches!(row, Row::Hot(_, JobState::Running)) || wanted.running);
        Ok((Page { rows: rows.collect(), next: page.next }, uncertain))
    }

    /// What runs is known to its owner; only the rows of this page are read.
    async fn running_page(&self, wanted: &Wanted) -> Result<(Page<Row>, bool)> {
        let (runs, unknown) = self.all_runs().await?;
        let mut keys: Vec<JobKey> = runs.iter().map(|view| view.key).collect();
        if wanted.position.order == Order::Descending {
            keys.reverse();
        }
        let (filter, Position { after, order, limit }) = (&wanted.filter, wanted.position);
        keys.retain(|key| {
            after.is_none_or(|after| compare(*key, after, order) == Ordering::Greater)
                && filter.due_from.is_none_or(|from| key.due_at >= from)
                && filter.due_before.is_none_or(|before| key.due_at < before)
        });
        let is_examined_in_part = keys.len() > RUNNING_EXAMINED_MAX;
        keys.truncate(RUNNING_EXAMINED_MAX);
        let examined_to = keys.last().copied().filter(|_| is_examined_in_part);
        let mut jobs = self.0.store.hot_jobs(keys).await?;
        let tasks = self.tasks_by_id(jobs.iter().map(|job| job.task)).await?;
        jobs.retain(|job| fits(filter, job.task, tasks.get(&job.task).map(|task| &**task)));
        let is_full = jobs.len() > limit;
        jobs.truncate(limit);
        let next = if is_full { jobs.last().map(|job| job.key) } else { examined_to };
        let rows = jobs.into_iter().map(|job| Row::Hot(job, JobState::Running)).collect();
        Ok((Page { rows, next }, !unknown.is_empty()))
    }

    async fn summarize(&self, page: Page<Row>) -> Result<JobList> {
        let tasks = self.tasks_by_id(page.rows.iter().map(Row::task)).await?;
        let summarize = |row: Row| {
            let task = task_ref(row.task(), tasks.get(&row.task()).map(|task| &**task));
            match row {
                Row::Hot(job, state) => JobSummary {
                    id: job.key.id,
                    task,
                    state: state.as_str().to_owned(),
                    priority: job.priority,
                    submitted_at: job.submitted_at,
                    due_at: job.key.due_at,
                    finished_at: None,
                    attempts: job.counters.next_attempt.0 - u32::from(state == JobState::Scheduled),
                    // Why it waits, if workers gave it back.
                    reason: job
                        .give_backs
                        .filter(|_| state == JobState::Scheduled)
                        .and_then(|all| Some(all.last?.reason)),
                    schedule: job.source.map(job_schedule),
                    tracing_id: job.tracing_id,
                },
                Row::Finished(job) => JobSummary {
                    id: job.id,
                    task,
                    state: job.state.as_str().to_owned(),
                    priority: job.priority,
                    submitted_at: job.submitted_at,
                    due_at: job.due_at,
                    finished_at: Some(job.finished_at),
                    attempts: job.counters.next_attempt.0.saturating_sub(1),
                    reason: job.reason,
                    schedule: job.source.map(job_schedule),
                    tracing_id: job.tracing_id,
                },
            }
        };
        let jobs = page.rows.into_iter().map(summarize).collect();
        Ok(JobList { jobs, next_cursor: page.next.map(cursor::write), uncertain: false })
    }

    async fn read_query(&self, query: ListQuery) -> Result<Wanted> {
        let states = parse_states(query.state.as_deref())?;
        let includes = |state: JobState| states.is_empty() || states.contains(&state);
        let finished_states: Vec<JobState> = states.iter().copied().filter(|state| state.is_final()).collect();
        let task = match &query.task {
            Some(name) => {
                validate::name("task", name)?;
                Some(self.task_named(name).await?.id)
            }
            None => None,
        };
        if let Some(kind) = query.kind.as_deref().filter(|kind| !Run::KINDS.contains(kind)) {
            let shown: String = kind.chars().take(64).collect();
            return Err(AppError::field("kind", format!("{shown} is not one of {}", Run::KINDS.join(", "))));
        }
        if let Some(queue) = &query.queue {
            validate::name("queue", queue)?;
        }
        let filter = Filter {
            task,
            kind: query.kind,
            queue: query.queue,
            due_from: parse_time("due_from", query.due_from.as_deref())?,
            due_before: parse_time("due_before", query.due_before.as_deref())?,
            states: finished_states.clone(),
        };
        let order = match query.order.as_deref() {
            None | Some("desc") => Order::Descending,
            Some("asc") => Order::Ascending,
            Some(_) => return Err(AppError::field("order", "must be asc or desc")),
        };
        let after = query.cursor.as_deref().map(cursor::read).transpose()?;
        let limit = parse_limit(query.limit.as_deref())?;
        Ok(Wanted {
            filter,
            position: Position { after, order, limit },
            scheduled: includes(JobState::Scheduled),
            running: includes(JobState::Running),
            finished: states.is_empty() || !finished_states.is_empty(),
        })
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

pub fn parse_limit(text: Option<&str>) -> Result<usize> {
    let Some(text) = text else { return Ok(limits::PAGE_LEN_DEFAULT) };
    match text.parse::<usize>() {
        Ok(limit) if (1..=limits::PAGE_LEN_MAX).contains(&limit) => Ok(limit),
        _ => Err(AppError::field("limit", format!("must be a number from 1 to {}", limits::PAGE_LEN_MAX))),
    }
}

fn parse_states(text: Option<&str>) -> Result<Vec<JobState>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let parse = |word: &str| {
        JobState::parse(word.trim()).ok_or_else(|| {
            let all: Vec<_> = JobState::ALL.iter().map(|state| state.as_str()).collect();
            let shown: String = word.chars().take(64).collect();
            AppError::field("state", format!("{shown} is not one of {}", all.join(", ")))
        })
    };
    let mut states: Vec<JobState> = text.split(',').map(parse).collect::<Result<_>>()?;
    states.sort_unstable();
    states.dedup();
    Ok(states)
}

fn parse_time(field: &str, text: Option<&str>) -> Result<Option<Timestamp>> {
    text.map(|text| Timestamp::parse(text).map_err(|error| AppError::field(field, error.to_string()))).transpose()
}

fn compare(a: JobKey, b: JobKey, order: Order) -> Ordering {
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
    rows.retain(|row| boundary.is_none_or(|end| compare(row.key(), end, order) != Ordering::Greater));
    rows.sort_by(|a, b| compare(a.key(), b.key(), order));
    if rows.len() > position.limit {
        rows.truncate(position.limit);
        let next = rows.last().map(Row::key);
        return Page { rows, next };
    }
    Page { rows, next: boundary }
}
