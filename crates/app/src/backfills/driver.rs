//! Drives the backfills of the schedules whose shards this server owns.
//!
//! It is woken when a job of theirs ends and when somebody makes or aborts a backfill here, and looks by itself now
//! and then: what it hears may be lost, and peers make backfills, too.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use punctual_core::{BackfillId, JobId, ScheduleId, Timestamp};
use punctual_engine::Changes;
use punctual_store::BackfillRow;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep_until};

use super::overstayed::overstayed;
use super::settling::Settling;
use super::step::{Advanced, Patience};
use crate::{App, Inner, Result};

/// How often the store is asked for running backfills, while there are some here.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same while there are none.
const IDLE_LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often the jobs of a backfill are looked at of which nothing was heard.
const JOBS_EVERY: Duration = Duration::from_secs(5);
/// After news was lost, or the store did not answer.
const AGAIN: Duration = Duration::from_millis(500);

/// Until the app is gone.
pub(crate) async fn keep(app: Weak<Inner>) {
    let Some(wake) = app.upgrade().map(|inner| Arc::clone(&inner.backfill_asked)) else { return };
    let mut driver = Driver::default();
    loop {
        let Some(inner) = app.upgrade() else { return };
        let pause = driver.round(&App(inner)).await;
        driver.wait(pause, &wake).await;
    }
}

#[derive(Default)]
struct Driver {
    followed: BTreeMap<BackfillId, Followed>,
    /// Jobs whose ends are waited for.
    jobs: HashMap<JobId, BackfillId>,
    /// Only while there is something to follow: every change of every job costs a little.
    changes: Option<Changes>,
}

/// A running backfill.
struct Followed {
    settling: Settling,
    /// `None` before the first step, and after one that failed.
    version: Option<u64>,
    look_at: Instant,
    open: Vec<JobId>,
}

impl Driver {
    /// One step of each backfill that may have something to do. Answers how long there is nothing more to do.
    async fn round(&mut self, app: &App) -> Duration {
        let owned = app.0.engine.owned();
        let mut rows = Vec::new();
        if !owned.is_empty() {
            match app.0.store.running_backfills().await {
                Ok(read) => rows = read,
                Err(error) => {
                    tracing::debug!(%error, "running backfills were not read; trying again");
                    self.put_off(LOOK_EVERY);
                    return LOOK_EVERY;
                }
            }
        }
        let overstayed = overstayed(&rows, app.now());
        rows.retain(|row| owned.contains(&row.schedule.shard()));
        self.forget_others(&rows);
        if rows.is_empty() {
            self.changes = None;
            return IDLE_LOOK_EVERY;
        }
        if self.changes.is_none() {
            // Before the first look at jobs, or an end in between is not heard of.
            self.changes = Some(app.0.engine.changes());
        }
        let mut is_on = false;
        for row in rows {
            let patience = if overstayed.contains(&row.id) { Patience::Over } else { Patience::Left };
            is_on |= self.step(app, row, patience).await;
        }
        if is_on { Duration::ZERO } else { LOOK_EVERY }
    }

    fn forget_others(&mut self, rows: &[BackfillRow]) {
        self.followed.retain(|id, followed| {
            let is_there = rows.iter().any(|row| row.id == *id);
            if !is_there {
                followed.open.iter().for_each(|job| _ = self.jobs.remove(job));
            }
            is_there
        });
    }

    /// Whoever has something to do waits as well, or we would ask again at once.
    fn put_off(&mut self, pause: Duration) {
        let soonest = Instant::now() + pause;
        for followed in self.followed.values_mut() {
            followed.look_at = followed.look_at.max(soonest);
        }
    }

    /// Whether there may be more to do at once.
    async fn step(&mut self, app: &App, row: BackfillRow, patience: Patience) -> bool {
        let (id, now) = (row.id, Instant::now());
        let new = || Followed { settling: Settling::new(now), version: None, look_at: now, open: Vec::new() };
        let followed = self.followed.entry(id).or_insert_with(new);
        if now < followed.look_at && followed.version.is_none_or(|version| version == row.version) {
            return false;
        }
        match advance(app, row, &mut followed.settling, patience, now).await {
            Ok(Advanced { is_on, version, open, is_held }) => {
                followed.version = Some(version);
                followed.look_at = match (is_on, is_held) {
                    (true, _) => now,
                    (false, true) => now + LOOK_EVERY,
                    (false, false) => now + JOBS_EVERY,
                };
                let former = std::mem::replace(&mut followed.open, open);
                former.iter().for_each(|job| _ = self.jobs.remove(job));
                self.jobs.extend(followed.open.iter().map(|job| (*job, id)));
                is_on
            }
            Err(error) => {
                tracing::warn!(%error, backfill = %id, "a backfill did not come further; trying again");
                followed.look_at = now + JOBS_EVERY;
                followed.version = None;
                false
            }
        }
    }

    /// Returns when there is something to do, or when the time is over.
    async fn wait(&mut self, pause: Duration, wake: &Notify) {
        let until = Instant::now() + pause;
        while let Some(changes) = &mut self.changes {
            match changes.try_recv() {
                Ok(change) => _ = self.heard(change.state.is_final().then_some(change.id)),
                Err(TryRecvError::Lagged(_)) => self.missed(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let is_due = |followed: &Followed| followed.look_at <= Instant::now();
        if self.followed.values().any(is_due) {
            return;
        }
        loop {
            let change = async {
                match &mut self.changes {
                    Some(changes) => changes.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep_until(until) => return,
                () = wake.notified() => return,
                change = change => match change {
                    Ok(change) => {
                        if self.heard(change.state.is_final().then_some(change.id)) {
                            return;
                        }
                    }
                    Err(RecvError::Lagged(_)) => self.missed(),
                    // The server is stopping.
                    Err(RecvError::Closed) => self.changes = None,
                },
            }
        }
    }

    /// Whether the job that has ended is one of ours.
    fn heard(&mut self, ended: Option<JobId>) -> bool {
        let backfill = ended.and_then(|job| self.jobs.remove(&job));
        let Some(followed) = backfill.and_then(|id| self.followed.get_mut(&id)) else { return false };
        followed.look_at = Instant::now();
        true
    }

    fn missed(&mut self) {
        let soon = Instant::now() + AGAIN;
        for followed in self.followed.values_mut() {
            followed.look_at = followed.look_at.min(soon);
        }
    }
}

async fn advance(
    app: &App,
    row: BackfillRow,
    settling: &mut Settling,
    patience: Patience,
    now: Instant,
) -> Result<Advanced> {
    // Read before the verdicts: what it covers has them.
    let watermark = app.watermark_of(row.schedule).await?;
    app.advance(row, settling.decided_until(watermark, now), patience).await
}

impl App {
    /// Up to where every planned time of the schedule's shard has its verdict.
    async fn watermark_of(&self, schedule: ScheduleId) -> Result<Timestamp> {
        let watermarks = self.0.store.watermarks().await?;
        let found = watermarks.into_iter().find(|(shard, _)| *shard == schedule.shard());
        Ok(found.map_or(Timestamp::EPOCH, |(_, watermark)| watermark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn while_the_store_does_not_answer_nobody_is_asked_for_at_once() {
        let now = Instant::now();
        let due = Followed { settling: Settling::new(now), version: None, look_at: now, open: Vec::new() };
        let id = BackfillId::new(Timestamp::EPOCH, 1);
        let mut driver = Driver { followed: BTreeMap::from([(id, due)]), ..Driver::default() };
        let pause = Duration::from_millis(50);
        driver.wait(pause, &Notify::new()).await;
        assert!(now.elapsed() < pause, "there is something to do");
        let failed_at = Instant::now();
        driver.put_off(pause);
        driver.wait(pause, &Notify::new()).await;
        assert!(failed_at.elapsed() >= pause);
    }
}
