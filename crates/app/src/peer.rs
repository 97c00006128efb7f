//! What peers ask of this server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use punctual_core::shard::WorkerStatus;
use punctual_core::shard::event::{Command, Loaded, Reply};
use punctual_core::{JobId, JobRow, ServerId, TaskId};
use punctual_engine::{Runs, WorkerInfo};
use punctual_store::{FoundRow, MemberStatus};

use crate::{App, PeerKey, Pulse, Result};

/// A server that leaves does not wait long for others.
const GOODBYE: Duration = Duration::from_millis(200);

/// A peer asks again after this, in case the shard has moved meanwhile.
const AWAIT_MAX: Duration = Duration::from_secs(60);

impl App {
    pub fn server(&self) -> ServerId {
        self.0.engine.server()
    }

    pub fn peer_key(&self) -> &PeerKey {
        &self.0.key
    }

    /// Decided here or not at all: `NotOwner` if the shard is another's.
    pub async fn peer_command(&self, id: JobId, command: Command) -> Result<Reply> {
        if id.shard().0 >= self.0.store.shard_count() {
            return Ok(Reply::NotFound);
        }
        Ok(self.command_here(id, command).await?.unwrap_or(Reply::NotOwner))
    }

    /// Jobs that a peer has stored. Those of tasks that are not there any more are left out.
    pub async fn peer_hint(&self, rows: Vec<JobRow>) -> Result<()> {
        let tasks = self.tasks_by_id(rows.iter().map(|row| row.task)).await?;
        let load = |row: JobRow| tasks.get(&row.task).map(|task| Loaded { task: Arc::clone(task), row });
        self.0.engine.submitted(rows.into_iter().filter_map(load).collect());
        Ok(())
    }

    /// Those of `ids` that run here; for no ids, all that runs here.
    pub async fn runs_here(&self, ids: Vec<JobId>) -> Result<Runs> {
        Ok(self.0.engine.runs(ids).await?)
    }

    /// Whether the job has finished, now or within `limit`.
    pub async fn peer_await(&self, id: JobId, limit: Duration) -> Result<bool> {
        let finish = self.0.engine.finish_of(id);
        if matches!(self.0.store.find(id).await?, FoundRow::Finished { .. }) {
            return Ok(true);
        }
        Ok(tokio::time::timeout(limit.min(AWAIT_MAX), finish).await.is_ok_and(|finished| finished.is_ok()))
    }

    /// Changes of the jobs that this server owns.
    pub fn changes_here(&self) -> punctual_engine::Changes {
        self.0.engine.changes()
    }

    /// A peer changed or deleted a task.
    pub async fn peer_task_changed(&self, id: TaskId, name: &str) -> Result<()> {
        self.0.names.forget(name);
        for task in self.0.store.tasks_by_id(vec![id]).await? {
            self.0.engine.task_changed(Arc::new(task));
        }
        Ok(())
    }

    /// A peer has given up its shards.
    pub fn peer_leaving(&self) {
        self.0.engine.look_around();
    }

    /// Tells the others that this server has given up its shards. They find out by themselves, too.
    pub async fn say_goodbye(&self) {
        let peers = self.0.cluster.peers();
        let told = peers.iter().map(|peer| self.0.peers.leaving(peer));
        let _ = tokio::time::timeout(GOODBYE, join_all(told)).await;
    }

    pub async fn workers_here(&self) -> Result<Vec<(WorkerStatus, WorkerInfo)>> {
        Ok(self.0.engine.workers().await?)
    }

    pub async fn pulse_here(&self) -> Result<Pulse> {
        let MemberStatus { workers, running, lag } = self.0.engine.status().await?;
        let skew = self.0.engine.skew();
        let skew_us = skew.map(|skew| skew.server.as_micros() - skew.store.as_micros());
        Ok(Pulse { workers, running, lag, skew_us })
    }
}
