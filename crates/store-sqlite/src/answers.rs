//! Answers the callers of a transaction once it is committed.
//!
//! A thread that wakes a task of the runtime takes a lock for it, and the writer would do that for each of the callers that
//! share a commit, while the next transaction waits. So it hands all of them to one task, whose wake-ups stay within the
//! runtime's own thread.

use punctual_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::writer::Operation;

/// So few answers are given by the writer itself: one more task in between would only delay them.
const OWN_ANSWERS_MAX: usize = 2;

/// Groups that wait for the task. Beyond it the writer answers by itself, and never waits for a busy runtime.
const GROUPS_MAX: usize = 16;

/// The operations of one transaction, and why it did not commit, if it did not.
struct Group {
    operations: Vec<Box<dyn Operation>>,
    failed: Option<StoreError>,
}

impl Group {
    fn answer(self) {
        for operation in self.operations {
            operation.answer(self.failed.as_ref());
        }
    }
}

pub(crate) struct Answers {
    /// `None` outside of a runtime: the writer answers by itself.
    task: Option<mpsc::Sender<Group>>,
}

impl Answers {
    /// The task ends with the last group after the writer is gone.
    pub(crate) fn start() -> Self {
        let task = Handle::try_current().ok().map(|runtime| {
            let (sender, mut groups) = mpsc::channel::<Group>(GROUPS_MAX);
            runtime.spawn(async move {
                while let Some(group) = groups.recv().await {
                    group.answer();
                }
            });
            sender
        });
        Self { task }
    }

    /// Gives all operations their answer. Called by the writer's thread.
    pub(crate) fn give(&self, operations: &mut Vec<Box<dyn Operation>>, failed: Option<StoreError>) {
        if let Some(task) = self.task.as_ref().filter(|_| operations.len() > OWN_ANSWERS_MAX) {
            let group = Group { operations: std::mem::take(operations), failed };
            match task.try_send(group) {
                Ok(()) => {}
                // Closed: the task's runtime has ended, and callers in another one may still wait.
                Err(TrySendError::Full(group) | TrySendError::Closed(group)) => group.answer(),
            }
            return;
        }
        for operation in operations.drain(..) {
            operation.answer(failed.as_ref());
        }
    }
}
