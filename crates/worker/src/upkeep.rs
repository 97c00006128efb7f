//! Periodic work beside the streams: sends outcomes again, spools them, and divides the slots again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::held::HeldAttempts;
use crate::spool::Spool;

/// An outcome that was not acknowledged for this long is sent again, to every server.
const RESEND_AFTER: Duration = Duration::from_secs(5);
const RESEND_EVERY: Duration = Duration::from_secs(1);

/// How long to wait before a failed write to the spool is retried.
const SPOOL_AGAIN: Duration = Duration::from_millis(500);

/// Runs all periodic work. Never returns.
pub(crate) async fn keep(held: Arc<HeldAttempts>, spool: Option<Arc<Spool>>) {
    tokio::select! {
        () = resend(&held) => {}
        () = divide(&held) => {}
        () = spool_unreachable(&held, spool.as_deref()) => {}
    }
}

async fn resend(held: &HeldAttempts) {
    let mut ticks = tokio::time::interval(RESEND_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        held.resend(RESEND_AFTER, Instant::now());
    }
}

async fn divide(held: &HeldAttempts) {
    loop {
        let (planned, now) = (held.state().plan_at, held.now());
        tokio::select! {
            () = held.planned.notified() => {}
            () = tokio::time::sleep(planned.unwrap_or(now).since(now).to_std()), if planned.is_some() => {
                held.replan(&mut held.state());
            }
        }
    }
}

/// Spools outcomes whose server cannot be reached, because then the disk is the safest place for them.
async fn spool_unreachable(held: &Arc<HeldAttempts>, spool: Option<&Spool>) {
    let Some(spool) = spool else {
        return std::future::pending().await;
    };
    loop {
        let ordered = spool.keep(held);
        tokio::select! {
            () = held.unspooled.notified() => {}
            () = tokio::time::sleep(SPOOL_AGAIN), if ordered > 0 => {}
        }
    }
}
