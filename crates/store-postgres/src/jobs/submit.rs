//! Group commit: whoever submits while a commit is under way shares the next one, so no timer
//! is needed and an idle store adds no wait. A submission that is refused leaves its
//! neighbours alone.

use std::sync::{Arc, Mutex, PoisonError};

use punctual_store::{Result, StoreError, Submission, Submitted};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::group;
use crate::link::Link;
use crate::tasks::KnownTasks;

/// More submissions in one transaction would keep the first of them waiting.
const GROUP_SUBMISSIONS_MAX: usize = 2_000;
/// A group ends once it has so many jobs, for the same reason.
const GROUP_JOBS_MAX: usize = 10_000;
/// Or once their inputs are so long: all of a statement is in memory at both ends.
const GROUP_BYTES_MAX: usize = 16 << 20;
/// What waits beyond this waits in its caller.
const INBOX_MAX: usize = 4_000;

/// What the submitter works with.
pub(crate) struct Submitting {
    pub(crate) link: Link,
    pub(crate) known_tasks: Arc<KnownTasks>,
    pub(crate) shard_count: u16,
}

pub(super) struct Call {
    pub(super) submission: Submission,
    reply: oneshot::Sender<Result<Submitted>>,
}

impl Call {
    pub(super) fn answer(self, answer: Result<Submitted>) {
        // A caller that stopped waiting does not want the answer.
        let _ = self.reply.send(answer);
    }
}

pub(crate) struct Submitter {
    inbox: Mutex<Option<mpsc::Sender<Call>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Submitter {
    pub(crate) fn start(with: Submitting) -> Self {
        let (inbox, calls) = mpsc::channel(INBOX_MAX);
        let task = tokio::spawn(submit_until_closed(with, calls));
        Self { inbox: Mutex::new(Some(inbox)), task: Mutex::new(Some(task)) }
    }

    pub(crate) async fn submit(&self, submission: Submission) -> Result<Submitted> {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        inbox.send(Call { submission, reply }).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Answers what is queued.
    pub(crate) async fn close(&self) {
        drop(self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take());
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A panic was reported when it happened.
            let _ = task.await;
        }
    }
}

async fn submit_until_closed(with: Submitting, mut calls: mpsc::Receiver<Call>) {
    let mut received = Vec::with_capacity(GROUP_SUBMISSIONS_MAX);
    // Zero: every sender is gone, and so is everything that was queued.
    while calls.recv_many(&mut received, GROUP_SUBMISSIONS_MAX).await > 0 {
        let mut group = Vec::new();
        let (mut jobs, mut bytes) = (0, 0);
        for call in received.drain(..) {
            jobs += call.submission.jobs.len();
            bytes += call
                .submission
                .jobs
                .iter()
                .filter_map(|job| job.input.as_ref())
                .map(|input| input.len())
                .sum::<usize>();
            group.push(call);
            if jobs >= GROUP_JOBS_MAX || bytes >= GROUP_BYTES_MAX {
                (jobs, bytes) = (0, 0);
                group::commit(&with, std::mem::take(&mut group)).await;
            }
        }
        group::commit(&with, group).await;
    }
}
