//! Queries of the owner's memory and of what this server knows, for people and peers.

use std::collections::BTreeSet;

use punctual_core::shard::write::Epoch;
use punctual_core::shard::{GangKey, LiveView, Owner};
use punctual_core::{JobId, ShardId, TaskId};
use punctual_store::MemberStatus;

use crate::handle::{Engine, EngineError};

pub(crate) fn status_of(owner: &Owner) -> MemberStatus {
    let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let counts = owner.counts();
    MemberStatus { workers: count(counts.workers), running: count(counts.running), lag: owner.lag() }
}

/// What runs, by one owner's memory at one moment.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    pub attempts: Vec<LiveView>,
    /// Jobs of these shards run only if they are listed. Of others nothing is said.
    pub owned: BTreeSet<ShardId>,
}

impl Engine {
    /// Under which epoch this server owns the shard, if it believes so.
    pub async fn epoch_of(&self, shard: ShardId) -> Result<Option<Epoch>, EngineError> {
        if !self.0.lease.is_current() {
            return Ok(None);
        }
        let is_it = move |(owned, epoch): (ShardId, Epoch)| (owned == shard).then_some(epoch);
        self.query(move |owner| owner.owned_shards().into_iter().find_map(is_it)).await
    }

    /// Those of `ids` that run; for no ids, all that runs.
    pub async fn runs(&self, ids: Vec<JobId>) -> Result<Runs, EngineError> {
        if !self.0.lease.is_current() {
            // Others may own the shards by now.
            return Ok(Runs::default());
        }
        let look = move |owner: &Owner| {
            let attempts = match &ids[..] {
                [] => owner.all_shown_running(),
                ids => owner.shown_running(ids),
            };
            Runs { attempts, owned: owner.owned_shards().into_iter().map(|(shard, _)| shard).collect() }
        };
        self.query(look).await
    }

    /// The oldest gangs of this server that are due.
    pub async fn oldest_gangs(&self, limit: usize) -> Result<Vec<GangKey>, EngineError> {
        self.query(move |owner| owner.oldest_gangs(limit)).await
    }

    /// How this server is doing now.
    pub async fn status(&self) -> Result<MemberStatus, EngineError> {
        self.query(status_of).await
    }

    /// Whether this server does what one does for all, such as [`crate::RETENTION`].
    pub fn holds(&self, duty: &str) -> bool {
        self.0.duties.holds(duty)
    }

    /// Tasks of jobs in memory that wait for their file, with the revisions that are known.
    pub async fn tasks_that_wait(&self) -> Result<Vec<(TaskId, u32)>, EngineError> {
        self.query(Owner::tasks_that_wait).await
    }

    /// The named tasks whose definition is at hand, with its revision.
    pub fn cached_named_tasks(&self) -> Vec<(TaskId, u32)> {
        self.0.tasks.named()
    }
}
