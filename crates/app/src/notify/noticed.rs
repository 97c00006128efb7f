//! Makes events of what owners have noticed, and says which tasks ail.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::{JobId, TaskId};
use punctual_store::{Dispatch, JobRecord, WaitingNotice};

use super::event::Event;
use super::health::Health;
use super::outages::{read_each, skip_unreadable};
use crate::{App, Result};

impl App {
    /// What there is to tell, in order of time; which tasks ail goes into the dispatch.
    pub(super) async fn events_of(&self, notices: Vec<WaitingNotice>, dispatch: &mut Dispatch) -> Result<Vec<Event>> {
        let mut notices: Vec<Notice> = self.with_tasks(notices).await?;
        notices.sort_by_key(|notice| notice.at);
        let tells_of_health = |notice: &&Notice| match notice.kind {
            NoticeKind::Failed | NoticeKind::Lost | NoticeKind::Quarantined | NoticeKind::Recovered => true,
            NoticeKind::Missed | NoticeKind::Late => false,
        };
        let tasks = notices.iter().filter(tells_of_health).filter_map(|notice| notice.task).collect();
        let mut health = self.health_of(tasks).await?;
        notices.retain(|notice| health.note(notice));
        (dispatch.ailing, dispatch.well) = health.into_changes();
        Ok(notices.iter().map(Event::new).collect())
    }

    async fn health_of(&self, tasks: BTreeSet<TaskId>) -> Result<Health> {
        if tasks.is_empty() {
            return Ok(Health::default());
        }
        let known = skip_unreadable(self.0.store.ailing_of(tasks.iter().copied().collect()).await)?;
        let there = self.readable_tasks(tasks).await?;
        let named = there.into_values().filter(|task| task.name.is_some()).map(|task| task.id);
        Ok(Health::new(known, named.collect()))
    }

    /// Some owners did not have the task at hand: the job says it. Those of quiet tasks are left out; those whose job is
    /// gone are told without a task.
    async fn with_tasks(&self, notices: Vec<WaitingNotice>) -> Result<Vec<Notice>> {
        let mut notices: Vec<Notice> = notices.into_iter().map(|waiting| waiting.notice).collect();
        let asked = notices.iter().filter(|notice| notice.task.is_none());
        let asked: BTreeSet<JobId> = asked.filter_map(|notice| notice.job).collect();
        let jobs = read_each(asked, |id| self.0.store.job(id)).await?.into_iter();
        let task_of: BTreeMap<JobId, TaskId> = jobs.map(|(id, record)| (id, task_of(&record))).collect();
        let tasks = self.readable_tasks(task_of.values().copied().collect()).await?;
        notices.retain_mut(|notice| {
            if notice.task.is_some() {
                return true;
            }
            notice.task = notice.job.and_then(|job| task_of.get(&job).copied());
            !notice.task.and_then(|task| tasks.get(&task)).is_some_and(|task| task.spec.quiet)
        });
        Ok(notices)
    }
}

fn task_of(record: &JobRecord) -> TaskId {
    match record {
        JobRecord::Hot { job, .. } => job.task,
        JobRecord::Finished { job, .. } => job.task,
    }
}
