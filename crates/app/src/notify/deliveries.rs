//! The record of what was sent.

use futures_util::future::try_join_all;
use punctual_api::{DeliveryList, DeliveryQuery, DeliveryView};
use punctual_core::attempt::AttemptRecord;
use punctual_core::{JobKey, JobState, TaskId};
use punctual_store::{DeliveryRow, JobRecord};

use super::rules::not_found;
use crate::principal::By;
use crate::principal::permission::ViewNotifications;
use crate::route::Live;
use crate::{App, AppError, Checked, Faults, Result, cursor, cut, parameters, validate};

/// Jobs that are read at a time.
const READS_AT_ONCE: usize = 32;

impl App {
    /// Of one rule, or of all; also of rules that are gone, as long as there is something on record.
    pub async fn deliveries(
        &self,
        by: &By<ViewNotifications>,
        rule: Option<&str>,
        query: DeliveryQuery,
    ) -> Result<DeliveryList> {
        let mut faults = Faults::default();
        faults.check(rule.map_or(Ok(()), |rule| validate::name("name", rule)));
        let page = parameters::page(query.limit.as_deref(), query.cursor.as_deref(), cursor::read);
        let (limit, before) = faults.value(page).unwrap_or_default();
        faults.finish()?;
        let before = before.map(|key| (key.due_at, key.id));
        let rows = self.0.store.deliveries(by.namespace(), rule.map(str::to_owned), before, limit).await?;
        if let Some(rule) = rule.filter(|_| rows.is_empty() && before.is_none())
            && self.0.store.rule(by.namespace(), rule).await?.is_none()
        {
            return Err(not_found(rule));
        }
        let last = rows.last().filter(|_| rows.len() == limit);
        let next_cursor = last.map(|row| cursor::write(JobKey { due_at: row.at, id: row.job }));
        let deliveries = self.view_deliveries(rows).await?;
        Ok(DeliveryList { deliveries: deliveries.into_iter().map(|row| cut::delivery(by, row)).collect(), next_cursor })
    }

    async fn view_deliveries(&self, rows: Vec<DeliveryRow>) -> Result<Vec<DeliveryView>> {
        let mut views = Vec::with_capacity(rows.len());
        for part in rows.chunks(READS_AT_ONCE) {
            // First what runs, then the rows: a job that ends in between is seen as ended.
            let ids: Vec<_> = part.iter().map(|row| row.job).collect();
            let lives = self.lives(&ids).await?;
            let read = ids.iter().map(async |id| Ok::<_, AppError>(self.0.store.job(*id).await?));
            let jobs = try_join_all(read).await?;
            let waiting = jobs.iter().zip(&lives).filter_map(|(job, live)| waiting_task(job.as_ref()?, live));
            let tasks = self.tasks_by_id(waiting).await?;
            let waiting =
                jobs.iter().zip(&lives).zip(&ids).filter_map(|((job, live), id)| {
                    Some((id.shard(), tasks.get(&waiting_task(job.as_ref()?, live)?)?))
                });
            let reasons = self.waiting_reasons(waiting).await;
            for (row, (live, job)) in part.iter().zip(lives.iter().zip(jobs)) {
                let task = job.as_ref().and_then(|job| waiting_task(job, live));
                let mut view = view(row, live, job);
                view.reason = view.reason.or_else(|| reasons.get(&(task?, row.job.shard())).cloned());
                views.push(view);
            }
        }
        Ok(views)
    }
}

impl Checked for DeliveryQuery {
    fn check(&self) -> Result<()> {
        parameters::page(self.limit.as_deref(), self.cursor.as_deref(), cursor::read).map(drop)
    }
}

/// The task of a job that no worker has taken yet.
fn waiting_task(job: &JobRecord, live: &Live) -> Option<TaskId> {
    match (job, live) {
        (JobRecord::Hot { job, attempts, .. }, Live::Waiting) if attempts.is_empty() => Some(job.task),
        _ => None,
    }
}

fn view(row: &DeliveryRow, live: &Live, job: Option<JobRecord>) -> DeliveryView {
    let (state, reason) = match job {
        None => (None, None),
        Some(JobRecord::Finished { job, .. }) => (Some(job.state), job.reason),
        Some(JobRecord::Hot { attempts, .. }) => {
            let is_running = matches!(live, Live::Running { .. });
            let state = if is_running { JobState::Running } else { JobState::Scheduled };
            (Some(state), attempts.last().and_then(|last: &AttemptRecord| last.reason.clone()))
        }
    };
    DeliveryView {
        rule: row.rule.clone(),
        at: row.at,
        job: row.job,
        events: row.events,
        summary: row.summary.clone(),
        state: state.map(|state| state.as_str().to_owned()),
        reason,
    }
}
