//! What people do to batches, and what no transaction of an owner does for them.

use futures_util::future::{join_all, try_join_all};
use punctual_api::{BatchView, ErrorKind};
use punctual_core::batch::{BatchEvent, BatchStatus, Unplaceable};
use punctual_core::shard::GangKey;
use punctual_core::shard::event::Command;
use punctual_core::{BatchId, JobId};
use punctual_store::{BatchChange, BatchRow, DueBatch, StoreError};

use crate::principal::By;
use crate::principal::permission::ControlJobs;
use crate::route::Live;
use crate::{App, AppError, Result};

/// Jobs that are cancelled at a time.
const CANCELS_AT_ONCE: usize = 64;
/// Batches that are looked at at a time.
const BATCHES_AT_ONCE: usize = 8;
/// A page of due batches.
const DUE_MAX: usize = 200;
/// Gangs that are compared with the fleet. Each asks all servers for their workers.
const GANGS_JUDGED_MAX: usize = 4;
/// Pages of one look.
const DUE_PAGES_MAX: usize = 10;

/// Looks at the batches in the shards of this server.
pub struct BatchKeeper {
    app: App,
    /// How far the look at due batches has come.
    looked: Option<DueBatch>,
    /// What the owner was told last.
    unplaceable: Vec<GangKey>,
}

impl BatchKeeper {
    pub fn new(app: App) -> Self {
        Self { app, looked: None, unplaceable: Vec::new() }
    }

    /// Resolves when a member has ended and its batch is to be looked at.
    pub async fn wake(&self) {
        self.app.0.engine.batch_pressing().await;
    }

    /// Cancels the jobs of batches that stop, stores compensations, and ends batches that cannot start.
    pub async fn tick(&mut self) -> Result<()> {
        let app = &self.app;
        let owned = app.0.cluster.owned_here();
        if !app.0.settings.roles.scheduler || owned.is_empty() {
            return Ok(());
        }
        for _ in 0..DUE_PAGES_MAX {
            let due = app.0.store.due_batches(app.now(), self.looked, DUE_MAX).await?;
            let mine: Vec<BatchId> = due.iter().map(|due| due.id).filter(|id| owned.contains(&id.shard())).collect();
            for part in mine.chunks(BATCHES_AT_ONCE) {
                try_join_all(part.iter().map(|id| app.look_at_batch(*id))).await?;
            }
            self.looked = due.last().copied().filter(|_| due.len() == DUE_MAX);
            if self.looked.is_none() {
                break;
            }
        }
        self.judge_gangs().await
    }

    /// Tells the owner which gangs the fleet could not start if all of it were idle: nobody is to hold back for those.
    async fn judge_gangs(&mut self) -> Result<()> {
        let app = &self.app;
        let mut unplaceable = Vec::new();
        for gang in app.0.engine.oldest_gangs(GANGS_JUDGED_MAX).await? {
            if let Some(row) = app.0.store.batch(gang.batch).await?
                && app.batch_lacks(&row).await?.is_some()
            {
                unplaceable.push(gang);
            }
        }
        if unplaceable != self.unplaceable {
            app.0.engine.set_unplaceable_gangs(unplaceable.clone());
            self.unplaceable = unplaceable;
        }
        Ok(())
    }
}

impl App {
    /// Ends a batch: nothing more of it starts, and its jobs are cancelled. What succeeded of one that is all or nothing is undone.
    pub async fn cancel_batch(&self, by: &By<ControlJobs>, id: BatchId) -> Result<BatchView> {
        self.read_batch(by.namespace(), id).await?;
        let event = BatchEvent::Cancel { who: by.who().to_owned() };
        let changed = self.0.store.change_batch(id, event, self.now()).await?;
        let BatchChange { row, is_refused, .. } =
            changed.ok_or_else(|| AppError::new(ErrorKind::BatchNotFound, format!("there is no batch {id}")))?;
        if is_refused {
            let error = AppError::new(ErrorKind::BatchRefused, format!("the batch has {}", row.status.as_str()));
            return Err(error.hint("a batch that has ended cannot be cancelled"));
        }
        self.batch_view(&row).await
    }

    async fn look_at_batch(&self, id: BatchId) -> Result<()> {
        let Some(row) = self.0.store.batch(id).await? else { return Ok(()) };
        let event = match self.cannot_start(&row).await? {
            Some(reason) => BatchEvent::CannotStart { reason },
            None => BatchEvent::Tick,
        };
        match self.0.store.change_batch(id, event, self.now()).await {
            Ok(None) => Ok(()),
            Ok(Some(BatchChange { jobs, cancels, .. })) => {
                self.tell_of_jobs(&jobs).await;
                self.cancel_members(&cancels).await;
                Ok(())
            }
            // It must not keep others from going on.
            Err(StoreError::Inconsistent(error)) => {
                tracing::error!(batch = %id, error, "a batch was not advanced");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Why a batch that is due and has not started is to fail.
    async fn cannot_start(&self, row: &BatchRow) -> Result<Option<String>> {
        let is_checked = row.state.contract.unplaceable == Unplaceable::Fail && row.status == BatchStatus::Active;
        if !is_checked || !matches!(self.live(row.member_job(0)).await?, Live::Waiting) {
            return Ok(None);
        }
        Ok(self.batch_surely_lacks(row).await?.map(|lack| format!("it could not start: it {lack}")))
    }

    /// What is not answered is asked again: the batch is looked at until its jobs have ended.
    async fn cancel_members(&self, jobs: &[JobId]) {
        for part in jobs.chunks(CANCELS_AT_ONCE) {
            for answer in join_all(part.iter().map(|job| self.command(*job, Command::Cancel))).await {
                if let Err(error) = answer
                    && !matches!(error.kind, ErrorKind::JobAlreadyFinished | ErrorKind::JobNotFound)
                {
                    tracing::debug!(%error.detail, "a member of a batch could not be cancelled, and is tried again");
                }
            }
        }
    }
}
