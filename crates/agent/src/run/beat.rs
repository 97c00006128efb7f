//! Sends the agent's heartbeats from a thread, a runtime and a connection of their own, so that busy work cannot make
//! the agent look dead. The answers bring orders, and the news that the attempt is over.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::AgentError;
use super::liveness::{HeartbeatTiming, Liveness};
use super::servers::{RequestError, Servers};
use crate::handover::Handover;

/// The longest wait after a heartbeat that was not answered.
const AGAIN_MAX: Duration = Duration::from_millis(500);
const ANSWER_LIMIT_MAX: Duration = Duration::from_secs(5);
/// How long servers that answer but cannot reach their store do not count the silence against an agent.
const OUTAGE_MAX: Duration = Duration::from_secs(60);

/// Sends heartbeats until the process ends. The first one goes out at once.
pub(super) fn start(handover: Arc<Handover>, liveness: Liveness) -> Result<(), AgentError> {
    let failed = |error: std::io::Error| AgentError::Setup(format!("there is no thread for the heartbeat: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    thread::Builder::new()
        .name("agent-heartbeat".to_owned())
        .spawn(move || match Servers::new(&handover) {
            Ok(servers) => runtime.block_on(beat(&servers, &liveness)),
            Err(error) => liveness.end(error.to_string()),
        })
        .map_err(failed)?;
    Ok(())
}

async fn beat(servers: &Servers, liveness: &Liveness) {
    let mut timing = liveness.timing();
    let mut heard = AnsweredBeats::now();
    loop {
        let HeartbeatTiming { every, dead_after } = *timing.borrow_and_update();
        let sent_at = Instant::now();
        let rest = heard.given_up_at(dead_after).saturating_duration_since(sent_at);
        let next = match servers.beat(ANSWER_LIMIT_MAX.min(dead_after / 4).min(rest)).await {
            Ok(order) => {
                heard = AnsweredBeats { taken_at: sent_at, outage_at: None };
                if order.cancel {
                    liveness.cancel().cancel();
                }
                sent_at + every
            }
            Err(RequestError::Over(reason)) => return liveness.end(reason),
            Err(RequestError::Moving(reason) | RequestError::NoStore(reason)) => {
                heard.outage_at = Some(sent_at);
                again(&reason, every)
            }
            Err(RequestError::Bad(reason) | RequestError::Later(reason) | RequestError::Silent(reason)) => {
                again(&reason, every)
            }
        };
        let given_up_at = heard.given_up_at(dead_after);
        if Instant::now() >= given_up_at {
            return liveness.end(format!("no server was reached for {dead_after:?}"));
        }
        tokio::select! {
            () = tokio::time::sleep_until(next.min(given_up_at)) => {}
            // A server asked for another timing: it counts from now.
            Ok(()) = timing.changed() => {}
        }
    }
}

fn again(reason: &str, every: Duration) -> Instant {
    tracing::warn!(reason, "a heartbeat was not taken");
    Instant::now() + every.min(AGAIN_MAX)
}

/// When beats that were answered were sent. The server counts from when they arrived, which is later.
struct AnsweredBeats {
    /// Taken by the owner of the job.
    taken_at: Instant,
    /// Since then, answered by servers that could not ask the owner or their store.
    outage_at: Option<Instant>,
}

impl AnsweredBeats {
    fn now() -> Self {
        Self { taken_at: Instant::now(), outage_at: None }
    }

    fn given_up_at(&self, dead_after: Duration) -> Instant {
        match self.outage_at {
            None => self.taken_at + dead_after,
            Some(outage_at) => (outage_at + dead_after).min(self.taken_at + OUTAGE_MAX.max(dead_after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_of_the_servers_prolongs_a_life_and_not_for_ever() {
        const DEAD_AFTER: Duration = Duration::from_secs(20);
        let taken_at = Instant::now();
        let given_up_after = |outage_after: Option<u64>, dead_after| {
            let outage_at = outage_after.map(|secs| taken_at + Duration::from_secs(secs));
            AnsweredBeats { taken_at, outage_at }.given_up_at(dead_after).duration_since(taken_at).as_secs()
        };
        assert_eq!(given_up_after(None, DEAD_AFTER), 20);
        assert_eq!(given_up_after(Some(15), DEAD_AFTER), 35, "the last answer counts");
        assert_eq!(given_up_after(Some(50), DEAD_AFTER), 60, "the bound");
        assert_eq!(given_up_after(Some(50), 6 * DEAD_AFTER), 120, "never less than without the outage");
    }
}
