//! Connections between two requests.
//!
//! Kept for a moment only: long enough for a stream of calls to the same place, and shorter than
//! the time after which receivers close idle connections. A request that meets such a closing
//! leaves its job in doubt.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::wire::Sender;

const IDLE_MAX: Duration = Duration::from_secs(1);

/// More than this wait for no request that is likely to come.
const PER_ORIGIN_MAX: usize = 32;
const ALL_MAX: usize = 512;

#[derive(Default)]
pub(super) struct Idle(Mutex<IdleState>);

#[derive(Default)]
struct IdleState {
    /// Idle connections by scheme, host and port; the most recent last.
    waiting: HashMap<String, Vec<(Sender, Instant)>>,
    len: usize,
    is_swept: bool,
}

impl Idle {
    pub(super) fn take(&self, origin: &str) -> Option<Sender> {
        let mut state = self.state();
        while let Some((sender, since)) = state.waiting.get_mut(origin)?.pop() {
            state.len -= 1;
            if sender.is_ready() && since.elapsed() < IDLE_MAX {
                return Some(sender);
            }
        }
        None
    }

    pub(super) fn put(self: &Arc<Self>, origin: String, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut state = self.state();
        if state.len >= ALL_MAX {
            return;
        }
        let waiting = state.waiting.entry(origin).or_default();
        if waiting.len() >= PER_ORIGIN_MAX {
            return;
        }
        waiting.push((sender, Instant::now()));
        state.len += 1;
        if !std::mem::replace(&mut state.is_swept, true) {
            tokio::spawn(Arc::clone(self).sweep());
        }
    }

    /// Closes what nobody took, until nothing is left.
    async fn sweep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(IDLE_MAX).await;
            let mut state = self.state();
            let mut len = 0;
            state.waiting.retain(|_, senders| {
                senders.retain(|(sender, since)| !sender.is_closed() && since.elapsed() < IDLE_MAX);
                len += senders.len();
                !senders.is_empty()
            });
            state.len = len;
            if len == 0 {
                state.is_swept = false;
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, IdleState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
