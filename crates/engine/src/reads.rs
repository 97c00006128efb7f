//! The owner's reads. Each is repeated until it succeeds: the owner waits for the
//! answer, and a store that is away comes back.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::shard::event::{AssignedInput, Assignment, Event, Found, Load, ScheduleLoad, StreamId, Token};
use punctual_core::{JobId, JobKey, WorkerId};
use punctual_store::{FoundRow, Result, Store, Throttle};

use crate::inbox::{Inbox, Input};
use crate::plans::Plans;
use crate::tasks::TaskCache;

/// 16 inputs of 256 KiB are 4 MiB on their way.
const INPUTS_AT_ONCE: usize = 16;

/// All shards read at the same time, and an outage fails all of them again and again.
static FAILURES: Throttle = Throttle::new(Duration::from_secs(10));

const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Repeats `read` until it succeeds, more slowly each time.
pub(crate) async fn retry<T, F, R>(what: &'static str, mut read: F) -> T
where
    F: FnMut() -> R,
    R: Future<Output = Result<T>>,
{
    let mut wait = RETRY_MIN;
    loop {
        match read().await {
            Ok(value) => return value,
            Err(error) => {
                if let Some(left_out) = FAILURES.pass() {
                    tracing::warn!(what, %error, left_out, "a read from the store failed; retrying");
                }
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

pub(crate) struct Reads {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tasks: Arc<TaskCache>,
    pub(crate) plans: Arc<Plans>,
    pub(crate) inbox: Inbox,
}

impl Reads {
    pub(crate) fn load(&self, load: Load) {
        let (store, tasks, inbox) = (Arc::clone(&self.store), Arc::clone(&self.tasks), self.inbox.clone());
        tokio::spawn(async move {
            let read = retry("load", || async {
                let page = store.load(load.clone()).await?;
                Ok((tasks.join(&*store, page.rows).await?, page.stopped_at))
            });
            let (jobs, stopped_at) = read.await;
            inbox.send(Input::Event(Event::Page { load, jobs, stopped_at }));
        });
    }

    /// Reads schedules and works out what they mean, which takes longer than the driver can wait.
    pub(crate) fn schedules(&self, load: ScheduleLoad) {
        let (store, tasks, inbox) = (Arc::clone(&self.store), Arc::clone(&self.tasks), self.inbox.clone());
        let plans = Arc::clone(&self.plans);
        tokio::spawn(async move {
            let read = retry("load schedules", || async {
                plans.refresh(&*store).await?;
                let calendars = plans.revision();
                let rows = store.load_schedules(load.shard, load.after, load.limit).await?;
                let next = rows.last().map(|row| row.id).filter(|_| rows.len() >= load.limit);
                Ok((plans.join(&*store, &tasks, rows).await?, next, calendars))
            });
            let (rows, next, calendars) = read.await;
            inbox.send(Input::Event(Event::Schedules { load, rows, next, calendars }));
        });
    }

    /// Reads large inputs, a few at a time, so that many of them do not fill the memory; and schedules that the owner
    /// does not have in memory, because it has just taken them over or they are gone.
    pub(crate) fn inputs(&self, worker: WorkerId, stream: StreamId, assignments: Vec<Assignment>) {
        let (store, inbox, plans) = (Arc::clone(&self.store), self.inbox.clone(), Arc::clone(&self.plans));
        tokio::spawn(async move {
            let mut assignments = assignments.into_iter().peekable();
            while assignments.peek().is_some() {
                let mut part: Vec<Assignment> = assignments.by_ref().take(INPUTS_AT_ONCE).collect();
                for origin in part.iter_mut().filter_map(|assignment| assignment.origin.as_deref_mut()) {
                    let found = retry("read a schedule", || plans.find(&*store, origin)).await;
                    origin.schedule = found;
                }
                let is_stored = |assignment: &&Assignment| matches!(assignment.input, AssignedInput::Stored);
                let keys: Vec<JobKey> = part.iter().filter(is_stored).map(|assignment| assignment.key).collect();
                let mut inputs = Vec::new();
                if !keys.is_empty() {
                    inputs = retry("read inputs", || store.inputs(keys.clone())).await;
                }
                let mut inputs = inputs.into_iter();
                for assignment in part.iter_mut().filter(|assignment| is_stored(&&**assignment)) {
                    assignment.input = inputs.next().flatten().map_or(AssignedInput::None, AssignedInput::Inline);
                }
                inbox.send(Input::InputsRead { worker, stream, assignments: part });
            }
        });
    }

    pub(crate) fn find(&self, token: Token, id: JobId) {
        let (store, tasks, inbox) = (Arc::clone(&self.store), Arc::clone(&self.tasks), self.inbox.clone());
        tokio::spawn(async move {
            let found = retry("find", || async {
                Ok(match store.find(id).await? {
                    FoundRow::Hot(row) => match tasks.join(&*store, vec![row]).await?.pop() {
                        Some(job) => Found::Waiting(job),
                        None => Found::Absent,
                    },
                    FoundRow::Finished { state, attempt, counters } => Found::Finished { state, attempt, counters },
                    FoundRow::Absent => Found::Absent,
                })
            });
            let found = found.await;
            inbox.send(Input::Event(Event::Found { token, id, found }));
        });
    }
}
