//! The owner's reads and its one fenced write.

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::AttemptNo;
use punctual_core::shard::event::Load;
use punctual_core::shard::write::{Epoch, OpenStart, SharedBatch, StartsId, Void};
use punctual_core::{BatchId, Counters, JobId, JobKey, JobRow, JobState, RunId, ShardId};

use crate::Result;

/// What followed in runs from the ends of their jobs, in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunSteps {
    /// The jobs that were released, due at once. To know them saves the owner a read of each shard that has one.
    pub released: Vec<JobRow>,
    /// Runs that have ended, and whose jobs have not heard of it.
    pub ended: Vec<RunId>,
    /// Batches that are to be looked at.
    pub batches: Vec<BatchId>,
}

impl Applied {
    /// All of it, or all but what is in `void`, without a step of a run.
    pub fn done(void: Void) -> Self {
        Self::Done { void, steps: RunSteps::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Durable, but for what was to happen to the jobs in `void`. Of a waiting job: its row was
    /// not what [`JobWrite::expects_waiting`](punctual_core::shard::write::JobWrite::expects_waiting) says, because the owner was told of it too late.
    /// Of a finished one: it was not in history any more, or not as it had been read. Likewise schedules
    /// whose names were taken, and planned times that had their verdicts.
    Done {
        void: Void,
        /// What followed in runs of workflows.
        steps: RunSteps,
    },
    /// These shards have another epoch by now. Nothing of the batch was applied.
    Fenced(Vec<ShardId>),
}

/// What a load shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadPage {
    pub rows: Vec<JobRow>,
    /// The row, shown or left out, at which a limit stopped it; `None` if it came to the end.
    pub stopped_at: Option<JobKey>,
}

/// What a takeover finds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OpenStarts {
    /// Starts without an end, with the job's row.
    pub running: Vec<(OpenStart, JobRow)>,
    /// Records all of whose jobs have ended; to be closed.
    pub spent: Vec<StartsId>,
    /// What was committed under an earlier epoch may be lost: the database has gone back in time since. A start from
    /// before may have ended although it is open here.
    pub whole_since: Epoch,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FoundRow {
    Hot(JobRow),
    Finished { state: JobState, attempt: Option<AttemptNo>, counters: Counters },
    Absent,
}

#[async_trait]
pub trait Transitions: Send + Sync + 'static {
    /// Applies a batch in one transaction in which every fence is checked under a lock.
    /// Calls of one server are applied in the order in which they were made.
    ///
    /// Crash before: nothing happened, and the next owner sees the old rows. Crash after,
    /// before the answer: the next owner sees the new rows; a start among them waits for its
    /// worker to report it.
    ///
    /// A write about a waiting job (a start, or an end or a move without an attempt) is left
    /// out if the job's row is not what it expects; so is a `Rerun` of a job that is not in
    /// history, and a `ResolveLost` of one that is not there as lost in that attempt, because
    /// retention may come between the owner's look and its write; so is a schedule whose name is taken, a
    /// verdict on a time that has one, and the release of one that is not queued, with the jobs that they would
    /// make. If the start of a member of a gang is left out, so are those of all other members in the batch.
    /// [`Applied::Done`] names them. Any other write that does not fit the rows (an attempt that ends twice) is
    /// `Inconsistent`, and nothing of the batch is applied.
    async fn apply(&self, batch: SharedBatch) -> Result<Applied>;

    /// Rows of one shard in order of (due time, id): after `load.after`, due no later than
    /// `load.until`, at most `load.limit`. `Sweep::Urgent` shows only rows with a priority
    /// above zero. Jobs of `load.skip` are left out; no more than `load.look_at_max()` rows are
    /// looked at. Inputs longer than `Input::INLINE_MAX` are left in the store.
    async fn load(&self, load: Load) -> Result<LoadPage>;

    /// One job, wherever it is.
    async fn find(&self, id: JobId) -> Result<FoundRow>;

    /// The full inputs of hot jobs, in the order asked for; `None` where there is none.
    async fn inputs(&self, keys: Vec<JobKey>) -> Result<Vec<Option<Bytes>>>;

    /// What former owners of the shard started and did not end.
    async fn open_starts(&self, shard: ShardId) -> Result<OpenStarts>;
}
