//! What is told of one job beside its row and its attempts: what it is called, what it runs, who ran it, and what came
//! too late to count.

use std::collections::HashMap;

use punctual_api::{JobAction, JobNotification, JobSchedule, LateOutcome, RequestedBy, RetryCount, TaskDefinition};
use punctual_core::attempt::AttemptRecord;
use punctual_core::namespace::NamespaceId;
use punctual_core::task::Task;
use punctual_core::{JobId, Span, WorkerId};
use punctual_store::{JobRecord, LateOutcome as LateRow, SeenWorker};

use crate::notify::delivered_rule;
use crate::route::Live;
use crate::schedules::job_schedule;
use crate::title::Titled;
use crate::{App, Result, definition, jobs};

/// More of one job are a defect of its workers, and tell nothing new.
const LATE_OUTCOMES_MAX: usize = 100;
/// Messages of one rule and moment that are looked through for one job.
const DELIVERIES_EXAMINED_MAX: usize = 50;

pub(crate) struct Facts {
    pub(crate) title: String,
    pub(crate) schedule: Option<JobSchedule>,
    pub(crate) definition: Option<TaskDefinition>,
    pub(crate) retries: Option<RetryCount>,
    pub(crate) node_retries: Option<RetryCount>,
    pub(crate) notification: Option<JobNotification>,
    pub(crate) late_outcomes: Vec<LateOutcome>,
    /// Those that ran its attempts.
    pub(crate) workers: HashMap<WorkerId, SeenWorker>,
    pub(crate) submitted_by: Option<RequestedBy>,
    pub(crate) actions: Vec<JobAction>,
}

impl App {
    pub(crate) async fn job_facts(
        &self,
        id: JobId,
        record: &JobRecord,
        task: Option<&Task>,
        live: &Live,
    ) -> Result<Facts> {
        let (task_id, source, tracing_id, counters, attempts) = match record {
            JobRecord::Hot { job, attempts, .. } => (job.task, job.source, &job.tracing_id, job.counters, attempts),
            JobRecord::Finished { job, attempts, .. } => {
                (job.task, job.source, &job.tracing_id, job.counters, attempts)
            }
        };
        let running = match live {
            Live::Running { view, .. } => Some(view),
            Live::Waiting | Live::Unknown => None,
        };
        let titles = self.titles(task.into_iter(), source.map(|source| source.schedule).into_iter()).await;
        let tracing_id = tracing_id.as_deref();
        let title = titles.of(Titled { id: task_id, task, source, tracing_id });
        let last_start = running.map(|view| view.started_at).or(attempts.last().map(|last| last.started_at));
        let last = match record {
            JobRecord::Hot { .. } => None,
            JobRecord::Finished { job, .. } => {
                attempts.last().map(|last| definition::LastAttempt { state: job.state, ending: last.ending })
            }
        };
        let retries = task.map(|task| definition::retries(&task.spec, counters, last));
        let late = if attempts.is_empty() && running.is_none() {
            Vec::new()
        } else {
            self.0.store.late_outcomes(id, LATE_OUTCOMES_MAX).await?
        };
        let of_attempts = attempts.iter().map(|attempt| attempt.worker);
        let of_late = late.iter().map(|late| late.worker);
        let workers = self.workers_known(of_attempts.chain(of_late).chain(running.map(|view| view.worker))).await;
        let rule = task.and_then(|task| delivered_rule(tracing_id, task));
        let (submitted_by, actions) = self.people_of_job(id, record, source, rule, &titles).await?;
        Ok(Facts {
            title,
            schedule: source.map(|source| job_schedule(source, &titles)),
            definition: task.map(|task| definition::view(task, last_start)),
            retries: retries.map(|(retries, _)| retries),
            node_retries: retries.map(|(_, node_retries)| node_retries),
            notification: match rule {
                Some(rule) => Some(self.notification_of(jobs::namespace_of(record), id, rule).await?),
                None => None,
            },
            late_outcomes: late
                .into_iter()
                .filter(|late| !is_repetition(late, attempts))
                .map(|late| late_view(late, &workers))
                .collect(),
            workers,
            submitted_by,
            actions,
        })
    }

    async fn notification_of(&self, namespace: NamespaceId, id: JobId, rule: &str) -> Result<JobNotification> {
        // A delivery is recorded at the moment for which its job is made.
        let after = id.due_at() + Span::from_micros(1);
        let before = Some((after, JobId::first_at(after)));
        let rows = self.0.store.deliveries(namespace, Some(rule.to_owned()), before, DELIVERIES_EXAMINED_MAX).await?;
        let summary = rows.into_iter().find(|row| row.job == id).map(|row| row.summary);
        Ok(JobNotification { rule: rule.to_owned(), summary })
    }
}

/// The worker said again what had counted the first time.
fn is_repetition(late: &LateRow, attempts: &[AttemptRecord]) -> bool {
    let said = late.outcome.split(':').next().unwrap_or_default().replace(' ', "_");
    attempts.iter().any(|attempt| {
        attempt.attempt == late.attempt && attempt.worker == late.worker && attempt.ending.as_str() == said
    })
}

fn late_view(late: LateRow, workers: &HashMap<WorkerId, SeenWorker>) -> LateOutcome {
    LateOutcome {
        attempt: late.attempt.0,
        worker: late.worker,
        worker_name: workers.get(&late.worker).map(|worker| worker.name.clone()),
        at: late.at,
        outcome: late.outcome,
    }
}
