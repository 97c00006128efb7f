//! The load behind a fault: jobs of all promises, due now and soon, some of which fail, are
//! deleted or cancelled at about the time they start, by clients that ask any server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_core::random::SplitMix64;
use punctual_core::{JobId, Timestamp};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::calls::{Caller, Order};
use super::tasks::TASKS;
use crate::clock::Moment;
use crate::history::{Answer, DeliveryMode};
use crate::witness::Work;

/// What the load is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) seed: u64,
    pub(crate) per_second: u64,
    /// Jobs are due up to so much later.
    pub(crate) ahead_ms: u64,
    /// The longest work.
    pub(crate) work_ms: u64,
}

/// A client tries to have its job acknowledged for so long.
const SUBMIT_WITHIN: Duration = Duration::from_secs(45);
const SUBMIT_PAUSE: Duration = Duration::from_millis(300);

/// A load that runs until it is told to stop.
pub(crate) struct MixLoad {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl MixLoad {
    pub(crate) fn start(mix: Mix, caller: Caller) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(run(mix, caller, Arc::clone(&stop)));
        Self { stop, task }
    }

    /// Submits nothing new, and waits for the calls that are under way.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.task.await?)
    }
}

async fn run(mix: Mix, caller: Caller, stop: Arc<AtomicBool>) {
    let mut chance = SplitMix64::new(mix.seed);
    let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / mix.per_second.max(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut clients = JoinSet::new();
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        number += 1;
        let script = ClientScript::random(&mix, number, &mut chance);
        let caller = caller.clone();
        clients.spawn(async move { script.run(&caller).await });
        while clients.try_join_next().is_some() {}
    }
    while clients.join_next().await.is_some() {}
}

/// What one client does.
struct ClientScript {
    order: Order,
    then: FollowUp,
    chance: SplitMix64,
}

enum FollowUp {
    Nothing,
    /// So many milliseconds after it is due, or before.
    Delete(i64),
    Cancel(i64),
}

impl ClientScript {
    fn random(mix: &Mix, number: u64, chance: &mut SplitMix64) -> Self {
        let task = chance.pick(&TASKS);
        let run_at = (!chance.percent(40)).then(|| {
            let ahead_us = chance.below(mix.ahead_ms * 1000) as i64;
            Timestamp::saturating_from_micros(Moment::now().real_us + ahead_us)
        });
        let sleep_ms = match chance.below(10) {
            0..5 => chance.below(50),
            5..8 => chance.below(mix.work_ms / 4),
            _ => chance.below(mix.work_ms),
        };
        let fails = chance.percent(if task.delivery == DeliveryMode::AtLeastOnce { 20 } else { 5 });
        let fail_first = if fails { 1 + chance.below(2) as u32 } else { 0 };
        let then = match chance.below(100) {
            0..8 => FollowUp::Delete(chance.below(40) as i64 - 25),
            8..16 => FollowUp::Cancel(chance.below(600) as i64 - 50),
            _ => FollowUp::Nothing,
        };
        let key = format!("{:x}-{number}", mix.seed);
        let order = Order { key, task: task.name, run_at, work: Work { sleep_ms, fail_first } };
        Self { order, then, chance: SplitMix64::new(mix.seed ^ number.rotate_left(32)) }
    }

    async fn run(mut self, caller: &Caller) {
        let Some((job, due_us)) = self.submit(caller).await else { return };
        let (FollowUp::Delete(after_ms) | FollowUp::Cancel(after_ms)) = self.then else { return };
        let wait_us = due_us + after_ms * 1000 - Moment::now().real_us;
        tokio::time::sleep(Duration::from_micros(wait_us.max(0) as u64)).await;
        let server = self.chance.below(1 << 16) as usize;
        match self.then {
            FollowUp::Nothing => {}
            FollowUp::Delete(_) => drop(caller.delete(server, job).await),
            FollowUp::Cancel(_) => drop(caller.cancel(server, job).await),
        }
    }

    /// Tries one server after the other, always with the same key.
    async fn submit(&mut self, caller: &Caller) -> Option<(JobId, i64)> {
        let deadline = Instant::now() + SUBMIT_WITHIN;
        while Instant::now() < deadline {
            let server = self.chance.below(1 << 16) as usize;
            match caller.submit(server, &self.order).await {
                Answer::Ok { job, due_us, .. } => return Some((job.parse().ok()?, due_us?)),
                Answer::Fail { why } if why != "connection refused" && why != "too_many_requests" => return None,
                Answer::Fail { .. } | Answer::Unknown { .. } => tokio::time::sleep(SUBMIT_PAUSE).await,
            }
        }
        None
    }
}
