//! Gives up agents that are not heard of any more.
//!
//! Each server watches the attempts of its own shards. When it heard of an agent is in memory only: a new
//! owner hears of living agents within a heartbeat, and gives the others their full time again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::shard::LiveView;
use punctual_core::{AttemptNo, JobId};
use tokio::time::Instant;

use crate::{App, Inner, Result};

/// How long an environment may take to start before its agent is first heard of: an image may have to
/// be fetched.
const START_WITHIN: Duration = Duration::from_secs(60);

/// When each agent was heard of last.
#[derive(Default)]
pub(crate) struct Agents(Mutex<HashMap<JobId, LastHeard>>);

struct LastHeard {
    attempt: AttemptNo,
    /// The agent is given up if nothing is heard of it until then.
    until: Instant,
    host: Option<String>,
}

impl Agents {
    /// The agent of a running attempt was heard of. It is given up unless it is heard of again until then.
    pub(super) fn heard(&self, job: JobId, attempt: AttemptNo, host: String, until: Instant) {
        self.lock().insert(job, LastHeard { attempt, until, host: Some(host) });
    }

    /// The attempts whose agents are given up, of those that run now.
    fn silent(
        &self,
        running: &[LiveView],
        now: Instant,
        deaf_for: Duration,
        silence: Duration,
    ) -> Vec<(JobId, AttemptNo, Option<String>)> {
        let mut heard = self.lock();
        let runs: HashMap<JobId, AttemptNo> = running.iter().map(|view| (view.key.id, view.attempt)).collect();
        heard.retain(|job, heard| runs.get(job) == Some(&heard.attempt));
        for heard in heard.values_mut() {
            // At most the time that a new agent has.
            heard.until = (heard.until + deaf_for).min(now + START_WITHIN.max(silence));
        }
        for (&job, &attempt) in &runs {
            heard.entry(job).or_insert(LastHeard { attempt, until: now + START_WITHIN, host: None });
        }
        let silent = heard.iter().filter(|(_, heard)| now > heard.until);
        silent.map(|(&job, heard)| (job, heard.attempt, heard.host.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, LastHeard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl App {
    /// Ends the attempts of this server whose agents were silent for too long. `deaf_for` is how long this server could
    /// not hear them since the last call.
    pub async fn give_up_silent_agents(&self, now: Instant, deaf_for: Duration) -> Result<()> {
        let Inner { engine, agents, settings, .. } = &*self.0;
        let running = engine.run_by_agents().await?;
        for (job, attempt, host) in agents.silent(&running, now, deaf_for, settings.worker_dead_after.to_std()) {
            tracing::warn!(%job, attempt = attempt.0, "an agent was silent for too long");
            engine.agent_silent(job, attempt, host);
        }
        Ok(())
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
        let silent = |secs: u64| agents.silent(&running, now + Duration::from_secs(secs), Duration::ZERO, SILENCE);
        assert!(silent(0).is_empty() && silent(60).is_empty(), "it has its time to begin");
        assert_eq!(silent(61), [(job, AttemptNo(1), None)]);
        agents.heard(job, AttemptNo(1), "h".to_owned(), now + SILENCE);
        assert!(silent(20).is_empty());
        assert_eq!(silent(21), [(job, AttemptNo(1), Some("h".to_owned()))]);
        let paused = agents.silent(&running, now + Duration::from_secs(40), Duration::from_secs(20), SILENCE);
        assert!(paused.is_empty(), "the pause was ours");
    }

    #[test]
    fn what_ended_is_forgotten_and_the_next_attempt_begins_anew() {
        let agents = Agents::default();
        let job = JobId::new(Timestamp::EPOCH, ShardId(0), 1);
        let now = Instant::now();
        agents.heard(job, AttemptNo(1), "h".to_owned(), now + SILENCE);
        let later = now + Duration::from_secs(50);
        assert!(agents.silent(&[view(job, 2)], later, Duration::ZERO, SILENCE).is_empty());
        assert!(agents.silent(&[], later, Duration::ZERO, SILENCE).is_empty());
        assert!(agents.lock().is_empty());
    }
}
