//! What is done beside the streams: outcomes are sent again and spooled, and slots divided
//! anew, when it is time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ledger::Ledger;
use crate::spool::Spool;

/// An outcome that was not acknowledged for so long is sent again, to every server.
const RESEND_AFTER: Duration = Duration::from_secs(5);
const RESEND_EVERY: Duration = Duration::from_secs(1);

/// What could not be written is tried again after this.
const SPOOL_AGAIN: Duration = Duration::from_millis(500);

/// Never ends.
pub(crate) async fn keep(ledger: Arc<Ledger>, spool: Option<Arc<Spool>>) {
    tokio::select! {
        () = resend(&ledger) => {}
        () = divide(&ledger) => {}
        () = spool_unreachable(&ledger, spool.as_deref()) => {}
    }
}

async fn resend(ledger: &Ledger) {
    let mut ticks = tokio::time::interval(RESEND_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        ledger.resend(RESEND_AFTER, Instant::now());
    }
}

async fn divide(ledger: &Ledger) {
    loop {
        let (planned, now) = (ledger.state().plan_at, ledger.now());
        tokio::select! {
            () = ledger.planned.notified() => {}
            () = tokio::time::sleep(planned.unwrap_or(now).since(now).to_std()), if planned.is_some() => {
                ledger.replan(&mut ledger.state());
            }
        }
    }
}

/// Without its server, a disk is the safest place for an outcome.
async fn spool_unreachable(ledger: &Arc<Ledger>, spool: Option<&Spool>) {
    let Some(spool) = spool else {
        return std::future::pending().await;
    };
    loop {
        let ordered = spool.keep(ledger);
        tokio::select! {
            () = ledger.unspooled.notified() => {}
            () = tokio::time::sleep(SPOOL_AGAIN), if ordered > 0 => {}
        }
    }
}
