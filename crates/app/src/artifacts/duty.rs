//! What one server does for all artifacts, now and then: looks for files that have arrived, and
//! removes what nobody needs.

use std::sync::Weak;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use punctual_blobs::Key;
use punctual_core::{ArtifactId, Timestamp};
use punctual_engine::{ARTIFACTS, RETENTION};
use punctual_store::ArtifactState;
use tokio::time::Instant;

use crate::{App, Inner, Result};

/// So long after its file has arrived a task becomes eligible, without anybody asking.
const LOOK_EVERY: Duration = Duration::from_secs(3);
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Lists all files there are.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);

/// Pending artifacts that are looked at in one round; the next round goes on with the next.
const LOOKED_AT_MAX: usize = 200;
/// Files that are read at a time.
const LOOKS_AT_ONCE: usize = 4;
/// Artifacts that go in one transaction.
const PRUNE_BATCH: usize = 100;
/// Keys in one page.
const SWEEP_PAGE: usize = 1000;

/// Until the app is gone.
pub(crate) async fn keep(app: Weak<Inner>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut duty = Duty { place: None, prune_at: Instant::now(), sweep_at: Instant::now() + PRUNE_EVERY };
    loop {
        ticks.tick().await;
        let Some(inner) = app.upgrade() else { return };
        duty.tick(&App(inner)).await;
    }
}

struct Duty {
    /// The pending artifact that was looked at last.
    place: Option<ArtifactId>,
    prune_at: Instant,
    sweep_at: Instant,
}

impl Duty {
    async fn tick(&mut self, app: &App) {
        if app.0.engine.holds(ARTIFACTS)
            && let Err(error) = app.look_for_arrivals(&mut self.place).await
        {
            tracing::debug!(%error, "pending artifacts were not looked at; trying again");
        }
        let now = Instant::now();
        if !app.0.engine.holds(RETENTION) {
            return;
        }
        if now >= self.prune_at {
            self.prune_at = now + PRUNE_EVERY;
            match app.prune_artifacts().await {
                Ok(0) => {}
                Ok(artifacts) => tracing::info!(artifacts, "artifacts that nobody needs were removed"),
                Err(error) => tracing::warn!(%error, "old artifacts were not removed; trying again"),
            }
        }
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP_EVERY;
            match app.sweep_files().await {
                Ok(0) => {}
                Ok(files) => tracing::info!(files, "files that belong to nobody were removed"),
                Err(error) => tracing::warn!(%error, "the storage was not swept; trying again later"),
            }
        }
    }
}

impl App {
    /// One round over pending artifacts, from `place` on.
    async fn look_for_arrivals(&self, place: &mut Option<ArtifactId>) -> Result<()> {
        let now = self.now();
        let pending = self.0.store.pending_artifacts(*place, LOOKED_AT_MAX).await?;
        *place = pending.last().filter(|_| pending.len() == LOOKED_AT_MAX).map(|artifact| artifact.id);
        // An upload that began in time may end a while later.
        let may_come = pending.into_iter().filter(|artifact| match artifact.state {
            ArtifactState::Pending { until } => now < until + super::UPLOAD_WITHIN,
            ArtifactState::Ready { .. } | ArtifactState::Refused { .. } => false,
        });
        let looks = stream::iter(may_come.map(|artifact| self.look(artifact)));
        let results: Vec<Result<()>> = looks.buffer_unordered(LOOKS_AT_ONCE).collect().await;
        results.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }

    /// Removes artifacts that no task has needed for the retention; answers how many.
    pub async fn prune_artifacts(&self) -> Result<usize> {
        let mut total = 0;
        loop {
            let now: Timestamp = self.now();
            let gone = self.0.store.prune_artifacts(now - self.0.settings.retention, now, PRUNE_BATCH).await?;
            for id in &gone {
                self.remove_files(*id).await;
            }
            total += gone.len();
            if gone.len() < PRUNE_BATCH {
                return Ok(total);
            }
        }
    }

    /// Removes what crashes have left behind: files without an artifact, uploads that are not
    /// awaited, copies that nobody checks. Answers how many.
    pub async fn sweep_files(&self) -> Result<usize> {
        let mut swept = self.0.blobs.sweep().await?;
        for folder in ["artifacts", "uploads", "checks"] {
            let folder_key = Key::new(folder).expect("a word is a key");
            let mut after: Option<Key> = None;
            loop {
                let page = self.0.blobs.list(&folder_key, after.as_ref(), SWEEP_PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.key.clone());
                for found in page {
                    if self.is_orphan(folder, &found.key).await? {
                        self.0.blobs.delete(&found.key).await?;
                        swept += 1;
                    }
                }
            }
        }
        Ok(swept + self.sweep_logs().await?)
    }

    async fn is_orphan(&self, folder: &str, key: &Key) -> Result<bool> {
        // A copy that is checked has a number after the id.
        let name = key.name().split('-').next().unwrap_or_default();
        // What is not ours is left alone.
        let Ok(id) = name.parse::<ArtifactId>() else { return Ok(false) };
        let state = self.0.store.artifact(id).await?.map(|artifact| artifact.state);
        Ok(match state {
            None | Some(ArtifactState::Refused { .. }) => true,
            Some(ArtifactState::Ready { .. }) => folder != "artifacts",
            Some(ArtifactState::Pending { .. }) => false,
        })
    }
}
