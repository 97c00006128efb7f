//! Notices agents that are not heard of any more.
//!
//! Each server watches the attempts of its own shards. What it has heard is in memory only: a new
//! owner hears of living agents within a beat, and gives the others their time once more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use punctual_core::shard::LiveView;
use punctual_core::{AttemptNo, JobId};
use tokio::time::Instant;

use crate::{App, Inner};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What making an environment may take before its agent is first heard of: an image may have to
/// be fetched.
const START_WITHIN: Duration = Duration::from_secs(60);
/// A pause of our own that is longer than this is not held against the agents.
const PAUSE_MIN: Duration = Duration::from_secs(3);

/// When each agent was heard of last.
#[derive(Default)]
pub(crate) struct Agents(Mutex<HashMap<JobId, Heard>>);

struct Heard {
    attempt: AttemptNo,
    /// Given up if nothing is heard until then.
    until: Instant,
    host: Option<String>,
}

impl Agents {
    /// A running attempt's agent lives, and is given up unless it is heard of again until then.
    pub(super) fn heard(&self, job: JobId, attempt: AttemptNo, host: String, until: Instant) {
        self.lock().insert(job, Heard { attempt, until, host: Some(host) });
    }

    /// Takes in which attempts run now; answers those whose agents are given up.
    fn look(
        &self,
        running: &[LiveView],
        now: Instant,
        pause: Duration,
        silence: Duration,
    ) -> Vec<(JobId, AttemptNo, Option<String>)> {
        let mut heard = self.lock();
        let runs: HashMap<JobId, AttemptNo> = running.iter().map(|view| (view.key.id, view.attempt)).collect();
        heard.retain(|job, heard| runs.get(job) == Some(&heard.attempt));
        for heard in heard.values_mut() {
            // Nobody has more time than one who begins.
            heard.until = (heard.until + pause).min(now + START_WITHIN.max(silence));
        }
        for (&job, &attempt) in &runs {
            heard.entry(job).or_insert(Heard { attempt, until: now + START_WITHIN, host: None });
        }
        let silent = heard.iter().filter(|(_, heard)| now > heard.until);
        silent.map(|(&job, heard)| (job, heard.attempt, heard.host.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Heard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until the app is gone.
pub(crate) async fn keep(app: Weak<Inner>) {
    let mut looked_at = Instant::now();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(inner) = app.upgrade() else { return };
        let App(inner) = App(inner);
        let Ok(running) = inner.engine.run_by_agents().await else { return };
        let now = Instant::now();
        let pause = now.duration_since(looked_at);
        // Who does not serve, or was stopped, has not heard them: that is not their silence.
        let pause = if pause > PAUSE_MIN || !inner.engine.is_current() { pause } else { Duration::ZERO };
        looked_at = now;
        for (job, attempt, host) in inner.agents.look(&running, now, pause, inner.settings.worker_dead_after.to_std()) {
            tracing::warn!(%job, attempt = attempt.0, "an agent was silent for too long");
            inner.engine.agent_silent(job, attempt, host);
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{JobKey, ShardId, Timestamp, WorkerId};

    use super::*;

    const SILENCE: Duration = Duration::from_secs(20);

    fn view(job: JobId, attempt: u32) -> LiveView {
        LiveView {
            key: JobKey::original(job),
            attempt: AttemptNo(attempt),
            worker: WorkerId::new(Timestamp::EPOCH, 1),
            picked_up_at: Timestamp::EPOCH,
            started_at: Timestamp::EPOCH,
            cancel_requested: false,
            worker_is_connected: true,
        }
    }

    #[test]
    fn an_agent_is_given_up_when_it_was_silent_for_too_long() {
        let agents = Agents::default();
        let job = JobId::new(Timestamp::EPOCH, ShardId(0), 1);
        let running = [view(job, 1)];
        let now = Instant::now();
        let look = |secs: u64| agents.look(&running, now + Duration::from_secs(secs), Duration::ZERO, SILENCE);
        assert!(look(0).is_empty() && look(60).is_empty(), "it has its time to begin");
        assert_eq!(look(61), [(job, AttemptNo(1), None)]);
        agents.heard(job, AttemptNo(1), "h".to_owned(), now + SILENCE);
        assert!(look(20).is_empty());
        assert_eq!(look(21), [(job, AttemptNo(1), Some("h".to_owned()))]);
        let paused = agents.look(&running, now + Duration::from_secs(40), Duration::from_secs(20), SILENCE);
        assert!(paused.is_empty(), "the pause was ours");
    }

    #[test]
    fn what_ended_is_forgotten_and_the_next_attempt_begins_anew() {
        let agents = Agents::default();
        let job = JobId::new(Timestamp::EPOCH, ShardId(0), 1);
        let now = Instant::now();
        agents.heard(job, AttemptNo(1), "h".to_owned(), now + SILENCE);
        let later = now + Duration::from_secs(50);
        assert!(agents.look(&[view(job, 2)], later, Duration::ZERO, SILENCE).is_empty());
        assert!(agents.look(&[], later, Duration::ZERO, SILENCE).is_empty());
        assert!(agents.lock().is_empty());
    }
}
