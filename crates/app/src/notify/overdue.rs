//! On demand: what should have started and has not, and why.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use punctual_api::{AilingTask, ErrorKind, Overdue, OverdueJob, OverdueQuery, OverdueTime};
use punctual_core::namespace::NamespaceId;
use punctual_core::{ShardId, Span, Timestamp};
use punctual_store::HotJob;

use super::deliver::delivered_rule;
use super::late::Quiet;
use super::planned::OverduePlan;
use super::render::for_people;
use crate::cluster::Place;
use crate::jobs::task_ref;
use crate::principal::By;
use crate::principal::permission::ViewJobs;
use crate::shard_workers::ShardWorkers;
use crate::title::Titled;
use crate::{App, AppError, Checked, Result, explain};

const AFTER_DEFAULT: Span = Span::from_secs(60);
const AFTER_MAX: Span = Span::from_secs(7 * 86_400);
/// Rows that each list shows.
const SHOWN_MAX: usize = 100;
/// Jobs that are read at a time, and how often.
const PAGE: usize = 1000;
const PAGES_MAX: usize = 10;
/// Schedules that are looked at.
const SCHEDULES_MAX: usize = 2000;

fn read_after(query: &OverdueQuery) -> Result<Span> {
    let Some(text) = query.after.as_deref() else { return Ok(AFTER_DEFAULT) };
    let after = Span::parse(text).map_err(|error| AppError::time("after", &error))?;
    if after > AFTER_MAX {
        return Err(AppError::out_of_range("after", "must be at most 7d"));
    }
    Ok(after)
}

impl Checked for OverdueQuery {
    fn check(&self) -> Result<()> {
        read_after(self).map(drop)
    }
}

impl App {
    pub async fn overdue(&self, by: &By<ViewJobs>, query: OverdueQuery) -> Result<Overdue> {
        let after = read_after(&query)?;
        let _turn = self.0.overdue_looks.try_acquire().map_err(|_| {
            AppError::new(ErrorKind::TooManyRequests, "others look at what is overdue")
                .hint("try again in a few seconds")
        })?;
        let (now, namespace) = (self.now(), by.namespace());
        let (jobs, jobs_total, jobs_total_is_minimum) = self.overdue_jobs(namespace, now, now - after).await?;
        let (planned, planned_is_partial) = self.overdue_times(namespace, now, now - after).await?;
        Ok(Overdue {
            jobs,
            jobs_total,
            jobs_total_is_minimum,
            planned,
            planned_is_partial,
            shards_without_owner: self.shards_without_owner().into_iter().map(|shard| shard.0).collect(),
            ailing: self.ailing_tasks(namespace).await?,
        })
    }

    /// Some of them, how many there are, and whether there may be more.
    async fn overdue_jobs(
        &self,
        namespace: NamespaceId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<(Vec<OverdueJob>, u64, bool)> {
        let (mut first, mut total) = (Vec::new(), 0);
        let mut after = None;
        let mut is_minimum = true;
        for _ in 0..PAGES_MAX {
            let page = self.due_page(Some(namespace), Timestamp::EPOCH, until, after, PAGE).await?;
            let waiting = self.waiting_of(page.rows, Quiet::Shown).await?;
            total += waiting.len() as u64;
            let room = SHOWN_MAX - first.len();
            first.extend(waiting.into_iter().take(room));
            after = page.next;
            if after.is_none() {
                is_minimum = false;
                break;
            }
        }
        Ok((self.explain_jobs(first, now).await?, total, is_minimum))
    }

    async fn explain_jobs(&self, jobs: Vec<HotJob>, now: Timestamp) -> Result<Vec<OverdueJob>> {
        let tasks = self.tasks_by_id(jobs.iter().map(|job| job.task)).await?;
        let schedules = jobs.iter().filter_map(|job| Some(job.source?.schedule));
        let titles = self.titles(tasks.values().map(|task| &**task), schedules).await;
        let mut workers: BTreeMap<ShardId, ShardWorkers> = BTreeMap::new();
        let mut shown = Vec::with_capacity(jobs.len());
        for job in jobs {
            let shard = job.key.shard();
            let task = tasks.get(&job.task).map(|task| &**task);
            let (why, unserved) = match self.0.cluster.place(shard) {
                place @ Place::Nowhere => {
                    let unwritable = self.writable().await.err();
                    (explain::unknown(&job, &place, unwritable.as_ref(), now), false)
                }
                Place::Here | Place::At(_) => {
                    let workers = match workers.entry(shard) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(unknown) => unknown.insert(self.workers_of(shard).await),
                    };
                    workers.paused = task.and_then(|task| self.queue_paused(task));
                    let awaited = self.awaited(task).await?;
                    let program = self.0.settings.worker_program;
                    let why = explain::waiting(&job, &[], task, awaited.as_ref(), workers, program, now);
                    (why, task.is_some_and(|task| workers.is_unserved(task)))
                }
            };
            let why = match task.and_then(|task| delivered_rule(job.tracing_id.as_deref(), task)) {
                Some(rule) => format!("{why} It delivers a message of the notification rule {rule}."),
                None => why,
            };
            let titled = Titled { id: job.task, task, source: job.source, tracing_id: job.tracing_id.as_deref() };
            shown.push(OverdueJob {
                could_not_start: explain::could_not_start(&job),
                job: job.key.id,
                task: titles.of(titled),
                queue: task_ref(job.task, task).queue,
                due_at: job.due_since(),
                late_by: for_people(now.since(job.due_since())),
                why,
                unserved,
            });
        }
        Ok(shown)
    }

    async fn overdue_times(
        &self,
        namespace: NamespaceId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<(Vec<OverdueTime>, bool)> {
        let mut walk = self.begin_walk(until).await?;
        let mut overdue = self.walk(Some(namespace), &mut walk, until, SCHEDULES_MAX, SHOWN_MAX + 1).await?.overdue;
        let is_partial = !walk.is_over() || overdue.len() > SHOWN_MAX;
        overdue.sort_by_key(|plan| plan.slot);
        overdue.truncate(SHOWN_MAX);
        Ok((overdue.into_iter().map(|plan| self.explain_time(plan, now)).collect(), is_partial))
    }

    fn explain_time(&self, plan: OverduePlan, now: Timestamp) -> OverdueTime {
        let why = match self.0.cluster.place(plan.row.id.shard()) {
            Place::Nowhere => "No server owns its shard; it is decided about when one does.".to_owned(),
            Place::Here => "This server owns its shard and has not decided about it yet.".to_owned(),
            Place::At(peer) => format!("{} at {} owns its shard and has not decided yet.", peer.id, peer.address),
        };
        OverdueTime {
            schedule: plan.row.name,
            at: plan.at,
            local: plan.local,
            late_by: for_people(now.since(plan.slot)),
            why,
        }
    }

    async fn ailing_tasks(&self, namespace: NamespaceId) -> Result<Vec<AilingTask>> {
        let ailing = self.0.store.ailing(Some(namespace), SHOWN_MAX).await?;
        let tasks = self.tasks_by_id(ailing.iter().map(|ailing| ailing.task)).await?;
        let titles = self.titles(tasks.values().map(|task| &**task), std::iter::empty()).await;
        let name = |id| tasks.get(&id).map_or_else(|| id.to_string(), |task| titles.of_task(task));
        let view = |ailing: punctual_store::Ailing| AilingTask {
            task: name(ailing.task),
            since: ailing.since,
            last: ailing.last,
            failures: ailing.failures,
        };
        Ok(ailing.into_iter().map(view).collect())
    }
}
