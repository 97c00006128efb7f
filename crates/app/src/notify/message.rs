//! Makes a message of what waits: names, attempts and links are read now, for the few samples that it shows. What is
//! gone by then, or cannot be read, is named by its id.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::tz::TimeZone;
use punctual_api::{MessageAttempt, MessageEvent, MessageSchedule, MessageTask, NotificationMessage};
use punctual_core::attempt::AttemptRecord;
use punctual_core::schedule::ScheduleRow;
use punctual_core::task::Task;
use punctual_core::{JobId, JobState, ScheduleId, TaskId, Timestamp, WorkerId};
use punctual_store::{JobRecord, SeenWorker};

use super::event::{Counts, Event, EventKind};
use super::outages::read_each;
use super::rule::OVERDUE_MAX;
use super::waiting::{SAMPLES_MAX, Waiting, in_order};
use super::{read_schedule_spec, render};
use crate::schedules::zone;
use crate::title::Titles;
use crate::{App, Result};

/// Tasks whose totals a message shows.
const TASKS_SHOWN: usize = 20;
/// Attempts of a job, the last ones.
const ATTEMPTS_SHOWN: usize = 5;
/// Of the reason of a failure.
const REASON_CHARS_MAX: usize = 300;

/// What is read for one message.
struct Facts {
    tasks: HashMap<TaskId, Arc<Task>>,
    /// Those that are still there.
    schedules: BTreeMap<ScheduleId, ScheduleRow>,
    jobs: BTreeMap<JobId, JobRecord>,
    /// Schedules that the rule names. The record of their deletion may be gone, too.
    named: BTreeMap<ScheduleId, String>,
    titles: Titles,
    /// Those that ran attempts of the jobs.
    workers: HashMap<WorkerId, SeenWorker>,
}

impl App {
    /// Without subject and text.
    pub(super) async fn message_of(
        &self,
        rule: &str,
        waiting: &Waiting,
        known: &BTreeMap<String, Vec<ScheduleId>>,
        now: Timestamp,
    ) -> Result<NotificationMessage> {
        let mut by_task: Vec<(&Option<TaskId>, &Counts)> = waiting.tasks.iter().collect();
        by_task.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.values().sum::<u64>()));
        let unshown = by_task.len().saturating_sub(TASKS_SHOWN) as u64 + u64::from(!waiting.others.is_empty());
        by_task.truncate(TASKS_SHOWN);
        let tasks = by_task.iter().filter_map(|(task, _)| **task).collect();
        let mut facts = self.facts(waiting, tasks).await?;
        facts.named = known.iter().flat_map(|(name, ids)| ids.iter().map(|id| (*id, name.clone()))).collect();
        let mut samples: Vec<&Event> = waiting.samples.iter().collect();
        samples.sort_by_key(|event| (event.kind, event.at));
        Ok(NotificationMessage {
            kind: NotificationMessage::TYPE.to_owned(),
            rule: rule.to_owned(),
            at: now,
            subject: String::new(),
            text: String::new(),
            since: waiting.first_at,
            until: waiting.last_at,
            counts: words(&waiting.counts),
            tasks: by_task
                .into_iter()
                .map(|(task, counts)| MessageTask {
                    task: facts.name_of(*task, &waiting.samples),
                    counts: words(counts),
                })
                .collect(),
            more_tasks: unshown,
            schedules: facts.totals_by_schedule(waiting),
            has_more_schedules: waiting.has_more_schedules,
            events: samples.into_iter().map(|event| self.show(event, waiting, &facts)).collect(),
        })
    }

    async fn facts(&self, waiting: &Waiting, mut tasks: BTreeSet<TaskId>) -> Result<Facts> {
        let samples = &waiting.samples;
        let ids: BTreeSet<JobId> = samples.iter().filter_map(|event| event.job).collect();
        let jobs: BTreeMap<JobId, JobRecord> = read_each(ids, |id| self.0.store.job(id)).await?.into_iter().collect();
        let of_job = |record: &JobRecord| match record {
            JobRecord::Hot { attempts, .. } | JobRecord::Finished { attempts, .. } => last_workers(attempts),
        };
        let workers = self.workers_known(jobs.values().flat_map(of_job)).await;
        let mut ids: BTreeSet<ScheduleId> = samples.iter().filter_map(|event| Some(event.planned?.0)).collect();
        ids.extend(waiting.schedules.keys());
        let schedules = read_each(ids.clone(), |id| self.0.store.schedule(id)).await?.into_iter().collect();
        tasks.extend(samples.iter().filter_map(|event| event.task));
        let tasks = self.readable_tasks(tasks).await?;
        let titles = self.titles(tasks.values().map(|task| &**task), ids.into_iter()).await;
        Ok(Facts { tasks, schedules, jobs, named: BTreeMap::new(), titles, workers })
    }

    fn show(&self, event: &Event, waiting: &Waiting, facts: &Facts) -> MessageEvent {
        let zone = event.planned.and_then(|(id, _)| zone_of(facts.schedules.get(&id)?));
        let planned_at = event.planned.map(|(_, at)| at);
        let job = event.job.and_then(|id| facts.jobs.get(&id));
        let (state, reason, attempts, tracing_id) = match job {
            Some(JobRecord::Finished { job, attempts, .. }) => {
                (Some(job.state), job.reason.clone(), &attempts[..], job.tracing_id.clone())
            }
            Some(JobRecord::Hot { job, attempts, .. }) => (None, None, &attempts[..], job.tracing_id.clone()),
            None => (None, None, &[][..], None),
        };
        let task = event.task.and_then(|id| facts.tasks.get(&id));
        // One that has started by now is in history, or runs although the queue was paused meanwhile.
        let is_waiting = event.is_waiting && matches!(job, Some(JobRecord::Hot { .. }));
        let paused = task.filter(|_| is_waiting).and_then(|task| self.queue_paused(task));
        let reason = why(event, waiting, paused).or(reason);
        let reason = reason.or_else(|| attempts.last().filter(|_| tells_of_end(event.kind))?.reason.clone());
        let earlier = attempts.len().saturating_sub(ATTEMPTS_SHOWN);
        MessageEvent {
            kind: event.kind.as_str().to_owned(),
            task: facts.name_of(event.task, std::slice::from_ref(event)),
            schedule: event.planned.map(|(id, _)| facts.schedule_name(id)),
            planned_at,
            planned_local: planned_at.zip(zone).and_then(|(at, zone)| render::local(at, &zone)),
            job: event.job,
            scheduled_at: event.job.map(JobId::due_at),
            state: state.map(|state: JobState| state.as_str().to_owned()),
            tracing_id: tracing_id.as_deref().map(one_line),
            at: event.at,
            count: u64::from(event.count),
            reason: reason.map(|reason| one_line(&reason)),
            attempts: attempts[earlier..].iter().map(|record| attempt(record, &facts.workers)).collect(),
            earlier_attempts: earlier as u64,
            late_by: event.lateness.map(render::for_people),
            link: event.job.map(|id| self.link_to(id)),
        }
    }

    pub(super) fn link_to(&self, job: JobId) -> String {
        format!("{}/v1/jobs/{job}", self.0.settings.public_url.trim_end_matches('/'))
    }
}

impl Facts {
    /// A task without a name is called by the schedules of its events, if they are of schedules, or by what it runs.
    fn name_of(&self, id: Option<TaskId>, events: &[Event]) -> String {
        let task = id.and_then(|id| self.tasks.get(&id));
        if let Some(name) = task.and_then(|task| task.name.clone()) {
            return name;
        }
        let of_task = events.iter().filter(|event| event.task == id);
        let schedules: BTreeSet<Option<ScheduleId>> = of_task.map(|event| Some(event.planned?.0)).collect();
        let named: Option<Vec<String>> = schedules.into_iter().map(|id| Some(self.schedule_name(id?))).collect();
        let mut named = named.unwrap_or_default();
        named.sort();
        // Beyond so many samples there may be more schedules than are known here.
        let at_least = if events.len() >= SAMPLES_MAX { "at least " } else { "" };
        match (&named[..], task, id) {
            ([only], _, _) => only.clone(),
            ([first, others @ ..], _, _) => format!("{first} and {at_least}{} more", others.len()),
            ([], Some(task), _) => self.titles.of_task(task),
            ([], None, Some(id)) => id.to_string(),
            ([], None, None) => "an unknown task".to_owned(),
        }
    }

    /// The ones with the most first.
    fn totals_by_schedule(&self, waiting: &Waiting) -> Vec<MessageSchedule> {
        let mut totals: Vec<(&ScheduleId, &Counts)> = waiting.schedules.iter().collect();
        totals.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.values().sum::<u64>()));
        let total = |(id, counts): (&ScheduleId, &Counts)| MessageSchedule {
            schedule: self.schedule_name(*id),
            counts: words(counts),
        };
        totals.into_iter().map(total).collect()
    }

    fn schedule_name(&self, id: ScheduleId) -> String {
        let row = self.schedules.get(&id).map(|row| row.name.clone());
        let name = row.or_else(|| self.titles.schedule(id)).or_else(|| self.named.get(&id).cloned());
        name.unwrap_or_else(|| id.to_string())
    }
}

/// What no job says of itself. `paused` says that its queue is paused, if it is.
fn why(event: &Event, waiting: &Waiting, paused: Option<String>) -> Option<String> {
    let words = match event.kind {
        EventKind::Missed => "Nobody was there in time.",
        EventKind::Overdue if waiting.is_more_overdue => {
            return Some(format!(
                "Nobody has decided about this time yet. At least {OVERDUE_MAX} schedules are overdue, more than are \
                 told one by one; `punctual overdue` shows what is overdue now."
            ));
        }
        EventKind::Overdue => "Nobody has decided about this time yet.",
        EventKind::Late if event.is_waiting => {
            return Some(paused.map_or_else(
                || "It has not started yet.".to_owned(),
                |paused| format!("It has not started yet: {paused}."),
            ));
        }
        EventKind::Late => "It has started by now.",
        EventKind::Quarantined | EventKind::Lost | EventKind::Failed | EventKind::Recovered => return None,
    };
    Some(words.to_owned())
}

/// Whether the last attempt's reason is why this happened.
fn tells_of_end(kind: EventKind) -> bool {
    match kind {
        EventKind::Quarantined | EventKind::Lost | EventKind::Failed => true,
        EventKind::Missed | EventKind::Overdue | EventKind::Late | EventKind::Recovered => false,
    }
}

fn zone_of(row: &ScheduleRow) -> Option<TimeZone> {
    read_schedule_spec(&row.edit.spec).map(|spec| zone::find(&spec.when.zone))
}

/// Who ran the attempts that a message shows.
fn last_workers(attempts: &[AttemptRecord]) -> Vec<WorkerId> {
    attempts.iter().rev().take(ATTEMPTS_SHOWN).map(|attempt| attempt.worker).collect()
}

fn attempt(record: &AttemptRecord, workers: &HashMap<WorkerId, SeenWorker>) -> MessageAttempt {
    let worker = workers.get(&record.worker);
    MessageAttempt {
        attempt: record.attempt.0,
        worker: record.worker.known().map_or_else(|| "unknown".to_owned(), |worker| worker.to_string()),
        worker_name: worker.map(|worker| one_line(&worker.name)),
        worker_host: worker.and_then(|worker| worker.host.as_deref()).map(one_line),
        started_at: record.started_at,
        took: Some(render::for_people(record.finished_at.since(record.started_at))),
        ending: record.ending.as_str().to_owned(),
        reason: record.reason.as_deref().map(one_line),
    }
}

/// What a program says of its end may be long and wild.
fn one_line(reason: &str) -> String {
    let calm: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    render::cut(calm.trim(), REASON_CHARS_MAX)
}

fn words(counts: &Counts) -> BTreeMap<String, u64> {
    in_order(counts).map(|(kind, count)| (kind.as_str().to_owned(), count)).collect()
}

#[cfg(test)]
mod tests {
    use punctual_core::ShardId;

    use super::*;

    #[test]
    fn a_task_without_a_name_is_called_by_its_schedules() {
        let at = Timestamp::EPOCH;
        let task = TaskId::new(at, 1);
        let id = |n: u64| ScheduleId::new(at, ShardId(0), n);
        let names = [(1, "alpha"), (2, "gamma"), (3, "beta")];
        let facts = Facts {
            tasks: HashMap::new(),
            schedules: BTreeMap::new(),
            jobs: BTreeMap::new(),
            named: names.map(|(n, name)| (id(n), name.to_owned())).into(),
            titles: Titles::default(),
            workers: HashMap::new(),
        };
        let event = |planned: Option<u64>| Event {
            kind: EventKind::Missed,
            at,
            task: Some(task),
            job: None,
            planned: planned.map(|n| (id(n), at)),
            count: 3,
            lateness: None,
            is_waiting: false,
        };
        let name_of = |events: &[Event]| facts.name_of(Some(task), events);
        assert_eq!(name_of(&[event(Some(2))]), "gamma");
        assert_eq!(name_of(&[1, 2, 3].map(|n| event(Some(n)))), "alpha and 2 more");
        assert_eq!(name_of(&[event(Some(1)), event(None)]), task.to_string());
    }
}
