//! What the agent's heart and its hands tell each other, from thread to thread.

use std::sync::Arc;
use std::time::Duration;

use punctual_exec::Cancel;
use punctual_proto::worker as wire;
use tokio::sync::watch;

/// How often to beat, and after which silence an agent is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rhythm {
    pub(super) every: Duration,
    pub(super) dead_after: Duration,
}

/// Until a server has said how it wants it.
const FIRST_RHYTHM: Rhythm = Rhythm { every: Duration::from_secs(1), dead_after: Duration::from_secs(20) };

#[derive(Clone)]
pub(super) struct Life(Arc<State>);

struct State {
    cancel: Cancel,
    rhythm: watch::Sender<Rhythm>,
    over: watch::Sender<Option<String>>,
}

impl Default for Life {
    fn default() -> Self {
        Self(Arc::new(State {
            cancel: Cancel::default(),
            rhythm: watch::Sender::new(FIRST_RHYTHM),
            over: watch::Sender::new(None),
        }))
    }
}

impl Life {
    pub(super) fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }

    pub(super) fn rhythm(&self) -> watch::Receiver<Rhythm> {
        self.0.rhythm.subscribe()
    }

    pub(super) fn set_rhythm(&self, attempt: &wire::AgentAttempt) {
        let known = |millis: u32, usual: Duration| match millis {
            0 => usual,
            millis => Duration::from_millis(u64::from(millis)),
        };
        let every = known(attempt.heartbeat_ms, FIRST_RHYTHM.every);
        let dead_after = known(attempt.dead_after_ms, FIRST_RHYTHM.dead_after);
        self.0.rhythm.send_replace(Rhythm { every, dead_after });
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
