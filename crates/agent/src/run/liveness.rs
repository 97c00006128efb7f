//! State that the heartbeat and the running attempt share across threads: cancellation, the heartbeat's timing, and
//! whether the attempt is over.

use std::sync::Arc;
use std::time::Duration;

use punctual_exec::Cancel;
use punctual_proto::worker as wire;
use tokio::sync::watch;

/// How often heartbeats are sent, and after how much silence servers give an agent up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeartbeatTiming {
    pub(super) every: Duration,
    pub(super) dead_after: Duration,
}

/// The timing until a server sets another.
const FIRST_TIMING: HeartbeatTiming =
    HeartbeatTiming { every: Duration::from_secs(1), dead_after: Duration::from_secs(20) };

#[derive(Clone)]
pub(super) struct Liveness(Arc<LivenessState>);

struct LivenessState {
    cancel: Cancel,
    timing: watch::Sender<HeartbeatTiming>,
    over: watch::Sender<Option<String>>,
}

impl Default for Liveness {
    fn default() -> Self {
        Self(Arc::new(LivenessState {
            cancel: Cancel::default(),
            timing: watch::Sender::new(FIRST_TIMING),
            over: watch::Sender::new(None),
        }))
    }
}

impl Liveness {
    pub(super) fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }

    pub(super) fn timing(&self) -> watch::Receiver<HeartbeatTiming> {
        self.0.timing.subscribe()
    }

    pub(super) fn set_timing(&self, attempt: &wire::AgentAttempt) {
        let known = |millis: u32, usual: Duration| match millis {
            0 => usual,
            millis => Duration::from_millis(u64::from(millis)),
        };
        let every = known(attempt.heartbeat_ms, FIRST_TIMING.every);
        let dead_after = known(attempt.dead_after_ms, FIRST_TIMING.dead_after);
        self.0.timing.send_replace(HeartbeatTiming { every, dead_after });
    }

    /// The attempt is not ours any more. The first reason counts.
    pub(super) fn end(&self, reason: String) {
        self.0.over.send_if_modified(|over| {
            let first = over.is_none();
            over.get_or_insert(reason);
            first
        });
    }

    pub(super) async fn over(&self) -> String {
        let mut over = self.0.over.subscribe();
        let reason = over.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_default()
    }
}
