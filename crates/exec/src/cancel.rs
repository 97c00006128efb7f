//! The signal that ends an attempt early. It only escalates: run, cancelled, stopped.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

const CANCELLED: u8 = 1;
const STOPPED: u8 = 2;

/// The signal of one attempt, shared with everyone who may end it.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Signal>);

#[derive(Default)]
struct Signal {
    level: AtomicU8,
    raised: Notify,
}

impl Cancel {
    /// Asks the attempt to end; its outcome is still reported.
    pub fn cancel(&self) {
        self.raise(CANCELLED);
    }

    /// Ends the attempt at once, without a report.
    pub fn stop(&self) {
        self.raise(STOPPED);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.level.load(Ordering::Acquire) >= CANCELLED
    }

    pub fn is_stopped(&self) -> bool {
        self.0.level.load(Ordering::Acquire) >= STOPPED
    }

    pub async fn cancelled(&self) {
        self.reached(CANCELLED).await;
    }

    pub async fn stopped(&self) {
        self.reached(STOPPED).await;
    }

    fn raise(&self, level: u8) {
        self.0.level.fetch_max(level, Ordering::Release);
        self.0.raised.notify_waiters();
    }

    async fn reached(&self, level: u8) {
        loop {
            let mut raised = pin!(self.0.raised.notified());
            // Listen before the look, or a signal in between is missed.
            raised.as_mut().enable();
            if self.0.level.load(Ordering::Acquire) >= level {
                return;
            }
            raised.await;
        }
    }
}
