//! Keeps this server a member of its cluster: one task that renews leases, says that the
//! server lives, reads who else does, and lets [`LeaseDuty`] act on it, in this order.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::{ShardId, Span, Timestamp};
use punctual_store::{MemberStatus, Result, Store, StoreError};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::clock::{ClockWatch, Reading, StoreClock};
use crate::config::{EngineConfig, Takeover};
use crate::duties::Duties;
use crate::lease_state::LeaseState;
use crate::leases::LeaseDuty;
use crate::members::{Look, MemberDuty};

/// Every so many looks, everything is read.
const FULL_LOOK_EVERY: u32 = 4;

/// A watermark that is less ahead is that of a server whose clock is a little ahead of ours.
const WATERMARK_AHEAD_MIN: Span = Span::from_secs(1);

fn clock_went(back: Option<Span>) {
    if let Some(back) = back {
        tracing::warn!(
            %back,
            "the clock was set back: planned times that were decided before do not run again, so schedules may stand still \
             for as long"
        );
    }
}

pub(crate) struct Keeper {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: EngineConfig,
    /// `None` when this machine's clock decides.
    pub(crate) store_clock: Option<StoreClock>,
    pub(crate) clock_watch: ClockWatch,
    pub(crate) lease: Arc<LeaseState>,
    pub(crate) duties: Arc<Duties>,
    pub(crate) leases: LeaseDuty,
    pub(crate) members: MemberDuty,
    /// Somebody knows that there is something to see.
    pub(crate) nudge: Arc<Notify>,
}

/// How the store has answered lately, so that an outage is logged once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreState {
    Available,
    Unavailable,
}

impl Keeper {
    pub(crate) async fn start(&mut self) -> Result<()> {
        if self.config.takeover == Takeover::AtOnce {
            // The only server is this one, whatever a former one has left.
            self.store.forget_members(Timestamp::MAX).await?;
        }
        // Before the first look, so that others see it too and leave this server its share.
        self.members.beat(MemberStatus::default()).await?;
        let cluster = self.members.look(Look::Everything).await?;
        self.leases.start(&cluster).await?;
        if self.config.is_scheduler() {
            self.duties.hold(&*self.store, &self.config, &cluster).await?;
        }
        self.compare_watermarks().await
    }

    /// The clock may have been set back while no server ran.
    async fn compare_watermarks(&self) -> Result<()> {
        let decided_until = self.store.watermarks().await?.into_iter().map(|(_, at)| at).max();
        let now = self.store_clock.as_ref().map_or_else(|| (self.config.clock)(), StoreClock::now);
        if let Some(decided_until) = decided_until.filter(|at| at.since(now) > WATERMARK_AHEAD_MIN) {
            tracing::warn!(
                %decided_until, %now,
                "the clock is behind what was decided before: planned times up to decided_until do not run again"
            );
        }
        Ok(())
    }

    /// What has to happen once in every renewal period.
    pub(crate) async fn renew(&mut self) -> Result<()> {
        let status = self.members.status().await;
        let cluster = Arc::clone(&self.members.published.borrow());
        let hold = async {
            if self.config.is_scheduler() && self.lease.may_own() {
                self.duties.hold(&*self.store, &self.config, &cluster).await?;
            }
            Ok(())
        };
        // Together, so that a store with one writer commits them together.
        let (renewed, beaten, held) = tokio::join!(self.leases.renew(), self.members.beat(status), hold);
        renewed?;
        beaten?;
        held?;
        self.members.forget().await?;
        self.look(Look::Everything).await
    }

    pub(crate) async fn look(&mut self, look: Look) -> Result<()> {
        if look == Look::Everything {
            self.read_clock().await?;
        }
        let cluster = self.members.look(look).await?;
        self.leases.balance(&cluster).await
    }

    async fn read_clock(&mut self) -> Result<()> {
        let Some(store_clock) = &self.store_clock else {
            let now = (self.config.monotonic)();
            clock_went(self.clock_watch.look((self.config.clock)(), now, now));
            return Ok(());
        };
        let reading = Reading::take(&*self.store, &self.config.monotonic).await?;
        store_clock.learn(reading);
        clock_went(self.clock_watch.look_at(reading));
        let skew = reading.skew((self.config.clock)(), self.config.clock_skew_max);
        let before = self.lease.set_skew(skew).is_some_and(|before| before.is_too_large());
        match (before, skew.is_too_large()) {
            (false, true) => tracing::error!("{skew}; until then this server takes no shards"),
            (true, false) => tracing::info!(apart = %skew.by(), "the clocks agree again"),
            (false, false) | (true, true) => {}
        }
        Ok(())
    }

    pub(crate) async fn run(
        mut self,
        mut doubts: mpsc::UnboundedReceiver<Vec<ShardId>>,
        mut stop: oneshot::Receiver<()>,
    ) {
        let (look_every, renew_every) = (self.config.look_every.to_std(), self.config.renew_every.to_std());
        // A store that does not answer must not keep this task from asking again.
        let patience = self.config.lease_ttl.to_std() / 2;
        let mut store_state = StoreState::Available;
        let mut renew_at = Instant::now() + renew_every;
        let mut look_at = Instant::now() + look_every;
        let mut looks = 0u32;
        let nudge = Arc::clone(&self.nudge);
        loop {
            // The only server has nothing to look for.
            let looks_around = self.config.takeover == Takeover::WhenExpired;
            let result = tokio::select! {
                biased;
                _ = &mut stop => return,
                Some(done) = self.leases.work.join_next(), if !self.leases.work.is_empty() => {
                    match done {
                        Ok(done) => self.leases.done(done).await,
                        Err(error) => tracing::error!(%error, "a takeover broke down"),
                    }
                    continue;
                }
                Some(shards) = doubts.recv() => {
                    self.leases.doubt(&shards);
                    renew_at = Instant::now();
                    continue;
                }
                () = sleep_until(renew_at) => {
                    let result = within(patience, self.renew()).await;
                    let has_answered = result.is_ok();
                    renew_at = Instant::now() + if has_answered { renew_every } else { look_every };
                    look_at = Instant::now() + look_every;
                    result
                }
                () = nudge.notified() => within(patience, self.look(Look::Everything)).await,
                () = sleep_until(look_at), if looks_around => {
                    looks = looks.wrapping_add(1);
                    let look = if looks.is_multiple_of(FULL_LOOK_EVERY) { Look::Everything } else { Look::Leases };
                    let result = within(patience, self.look(look)).await;
                    look_at = Instant::now() + look_every;
                    result
                }
            };
            store_state = match (store_state, result) {
                (StoreState::Available, Err(error)) => {
                    tracing::warn!(%error, "the store did not answer; leases and members wait for it");
                    StoreState::Unavailable
                }
                (StoreState::Unavailable, Ok(())) => {
                    tracing::info!("the store answers again");
                    StoreState::Available
                }
                (unchanged, _) => unchanged,
            };
        }
    }
}

async fn within(patience: Duration, call: impl Future<Output = Result<()>>) -> Result<()> {
    match tokio::time::timeout(patience, call).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Unavailable(format!("no answer within {patience:?}"))),
    }
}
