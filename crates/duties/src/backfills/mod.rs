//! Drives the backfills of the schedules whose shards this server owns.
//!
//! A tick makes one step of each backfill that may have something to do. The duty wakes when one of their jobs ends, and when
//! somebody makes or aborts a backfill at this server; it also ticks by itself, because such news may be lost and peers make
//! backfills, too.

mod decided_past;
mod expired;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_app::{AbortedJobs, App, BackfillAdvance};
use punctual_core::{BackfillId, JobId, ScheduleId, Timestamp};
use punctual_engine::{Changes, Engine};
use punctual_store::{BackfillRow, Store};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::{Context, Duty, Next, TickError};
use decided_past::DecidedPast;
use expired::expired;

/// How often running backfills are read while this server drives some.
const EVERY: Duration = Duration::from_secs(1);
/// How often they are read while it drives none.
const IDLE_EVERY: Duration = Duration::from_secs(5);
/// How often the jobs of a backfill are read without news of them.
const JOBS_EVERY: Duration = Duration::from_secs(5);
/// How soon they are read after news was lost.
const AFTER_LOST_NEWS: Duration = Duration::from_millis(500);

/// Makes the jobs of backfills.
pub struct Backfills {
    app: App,
    store: Arc<dyn Store>,
    engine: Engine,
    requested: Arc<Notify>,
    driven: BTreeMap<BackfillId, DrivenBackfill>,
    /// Jobs whose ends are waited for.
    jobs: HashMap<JobId, BackfillId>,
    /// Subscribed only while there is something to drive: every change of every job costs a little.
    changes: Option<Changes>,
}

/// A running backfill of a schedule of this server.
struct DrivenBackfill {
    past: DecidedPast,
    /// `None` before the first step, and after one that failed.
    version: Option<u64>,
    step_at: Instant,
    open: Vec<JobId>,
}

#[async_trait]
impl Duty for Backfills {
    fn name(&self) -> &'static str {
        "backfills"
    }

    /// The owner of a schedule's shard drives its backfills.
    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        let owned = self.engine.owned();
        let mut rows = if owned.is_empty() { Vec::new() } else { self.store.running_backfills().await? };
        let expired = expired(&rows, self.app.now());
        rows.retain(|row| owned.contains(&row.schedule.shard()));
        self.forget_others(&rows);
        if rows.is_empty() {
            self.changes = None;
            return Ok(Next::After(IDLE_EVERY));
        }
        if self.changes.is_none() {
            // Before the first read of jobs, or an end in between would be missed.
            self.changes = Some(self.engine.changes());
        }
        let mut has_more = false;
        for row in rows {
            let jobs = if expired.contains(&row.id) { AbortedJobs::Left } else { AbortedJobs::Awaited };
            has_more |= self.step(row, jobs).await;
        }
        Ok(if has_more { Next::AtOnce } else { Next::After(EVERY) })
    }

    async fn wake(&mut self) {
        let now = Instant::now();
        if self.driven.values().any(|backfill| backfill.step_at <= now) {
            return;
        }
        let requested = Arc::clone(&self.requested);
        loop {
            let change = async {
                match &mut self.changes {
                    Some(changes) => changes.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = requested.notified() => return,
                change = change => match change {
                    Ok(change) => {
                        if change.state.is_final() && self.job_ended(change.id) {
                            return;
                        }
                    }
                    Err(RecvError::Lagged(_)) => self.news_lost(),
                    // The server is stopping.
                    Err(RecvError::Closed) => self.changes = None,
                },
            }
        }
    }
}

impl Backfills {
    pub fn new(context: &Context) -> Self {
        Self {
            app: context.app.clone(),
            store: Arc::clone(&context.store),
            engine: context.engine.clone(),
            requested: context.app.backfill_requests(),
            driven: BTreeMap::new(),
            jobs: HashMap::new(),
            changes: None,
        }
    }

    fn forget_others(&mut self, rows: &[BackfillRow]) {
        self.driven.retain(|id, backfill| {
            let is_there = rows.iter().any(|row| row.id == *id);
            if !is_there {
                backfill.open.iter().for_each(|job| _ = self.jobs.remove(job));
            }
            is_there
        });
    }

    /// Whether there may be more to do at once. A backfill that fails does not hold up the others.
    async fn step(&mut self, row: BackfillRow, jobs: AbortedJobs) -> bool {
        let (id, now) = (row.id, Instant::now());
        let new = || DrivenBackfill { past: DecidedPast::new(now), version: None, step_at: now, open: Vec::new() };
        let backfill = self.driven.entry(id).or_insert_with(new);
        if now < backfill.step_at && backfill.version.is_none_or(|version| version == row.version) {
            return false;
        }
        match advance(&self.app, &*self.store, row, &mut backfill.past, jobs, now).await {
            Ok(BackfillAdvance { has_more, version, open, is_held }) => {
                backfill.version = Some(version);
                backfill.step_at = match (has_more, is_held) {
                    (true, _) => now,
                    (false, true) => now + EVERY,
                    (false, false) => now + JOBS_EVERY,
                };
                let former = std::mem::replace(&mut backfill.open, open);
                former.iter().for_each(|job| _ = self.jobs.remove(job));
                self.jobs.extend(backfill.open.iter().map(|job| (*job, id)));
                has_more
            }
            Err(error) => {
                tracing::warn!(%error, backfill = %id, "a backfill did not advance; retrying");
                backfill.step_at = now + JOBS_EVERY;
                backfill.version = None;
                false
            }
        }
    }

    /// Whether the job that has ended belongs to a backfill of this server.
    fn job_ended(&mut self, job: JobId) -> bool {
        let backfill = self.jobs.remove(&job).and_then(|id| self.driven.get_mut(&id));
        let Some(backfill) = backfill else { return false };
        backfill.step_at = Instant::now();
        true
    }

    fn news_lost(&mut self) {
        let soon = Instant::now() + AFTER_LOST_NEWS;
        for backfill in self.driven.values_mut() {
            backfill.step_at = backfill.step_at.min(soon);
        }
    }
}

async fn advance(
    app: &App,
    store: &dyn Store,
    row: BackfillRow,
    past: &mut DecidedPast,
    jobs: AbortedJobs,
    now: Instant,
) -> Result<BackfillAdvance, TickError> {
    // Read before the verdicts: the times that it covers have them.
    let watermark = watermark_of(store, row.schedule).await?;
    Ok(app.advance_backfill(row, past.decided_until(watermark, now), jobs).await?)
}

/// Up to where every planned time of the schedule's shard has its verdict.
async fn watermark_of(store: &dyn Store, schedule: ScheduleId) -> Result<Timestamp, TickError> {
    let watermarks = store.watermarks().await?;
    let found = watermarks.into_iter().find(|(shard, _)| *shard == schedule.shard());
    Ok(found.map_or(Timestamp::EPOCH, |(_, watermark)| watermark))
}
