//! Sends the program's output to the servers while it is printed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_exec::{LogOutlet, LogSink};
use tokio::sync::Notify;

use super::servers::Servers;

const PIECE_BYTES_MAX: usize = 64 << 10;
/// Lines that are printed within this time are sent together.
const GATHER: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Outlet {
    fresh: Notify,
    closed: AtomicBool,
}

impl LogOutlet for Outlet {
    fn ready(&self, _: LogSink) {
        self.fresh.notify_one();
    }
}

impl Outlet {
    /// Marks the log as complete.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.fresh.notify_one();
    }
}

/// Sends the log until it is closed and all of it was accepted. If a server refuses the log, the rest is dropped; that
/// does not fail the attempt.
pub(super) async fn ship(log: &LogSink, outlet: &Outlet, servers: &Servers) {
    let mut is_wanted = true;
    loop {
        // Before the look: what is printed after it comes with another notice.
        let closed = outlet.closed.load(Ordering::Acquire);
        while let Some(piece) = log.take(PIECE_BYTES_MAX) {
            if !is_wanted {
                continue;
            }
            if let Err(reason) = servers.log(piece).await {
                tracing::warn!(reason, "the rest of the log is dropped");
                is_wanted = false;
            }
        }
        if closed {
            return;
        }
        outlet.fresh.notified().await;
        if !outlet.closed.load(Ordering::Acquire) {
            tokio::time::sleep(GATHER).await;
        }
    }
}
