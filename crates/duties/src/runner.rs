//! Ticks all duties of a server: each in a task of its own, with one back-off, one shutdown and one kind of log lines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_engine::{Clock, Engine};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{Duty, Next, TickError};

/// How often a server that does not hold a duty's lease asks for it. The answer is in memory.
const LEASE_CHECK: Duration = Duration::from_millis(300);
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The longest delay between the end of an outage and the next tick.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Of failures one after the other, the log has the first and then each of these: one in ten minutes.
const FAILURES_LOGGED_EVERY: u32 = 60;
/// What a shutdown waits for ticks that have begun. A tick that takes longer is cut short, like by a crash.
const SHUTDOWN_MAX: Duration = Duration::from_secs(3);

/// Whether a server may tick a duty, and what time it is there.
pub(crate) trait Leases: Send + Sync {
    fn holds(&self, lease: &str) -> bool;
    fn now(&self) -> Timestamp;
}

struct EngineLeases {
    engine: Engine,
    clock: Clock,
}

impl Leases for EngineLeases {
    fn holds(&self, lease: &str) -> bool {
        self.engine.holds(lease)
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

/// How a duty is doing on this server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DutyStatus {
    /// How many ticks have ended, failures included.
    pub ticks: u64,
    pub last_tick_at: Option<Timestamp>,
    /// Why the last tick failed.
    pub failure: Option<String>,
    /// How many ticks have failed since the last one that succeeded.
    pub failures: u32,
}

/// The status of each duty, by its name.
pub type Statuses = BTreeMap<&'static str, DutyStatus>;

/// The duties of a running server.
pub struct Runner {
    stop: watch::Sender<bool>,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
    statuses: watch::Receiver<Statuses>,
}

impl Runner {
    /// Needs a Tokio runtime.
    pub fn start(engine: &Engine, duties: Vec<Box<dyn Duty>>) -> Self {
        let leases = EngineLeases { engine: engine.clone(), clock: engine.clock() };
        Self::with_leases(Arc::new(leases), duties)
    }

    pub(crate) fn with_leases(leases: Arc<dyn Leases>, duties: Vec<Box<dyn Duty>>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (published, statuses) = watch::channel(Statuses::new());
        let mut tasks = Vec::new();
        for duty in duties {
            let run = Run {
                name: duty.name(),
                duty,
                leases: Arc::clone(&leases),
                published: published.clone(),
                had_lease: false,
                failures: 0,
                is_logged: false,
            };
            tasks.push((run.name, tokio::spawn(run.until(stopped.clone()))));
        }
        Self { stop, tasks, statuses }
    }

    /// Changes with each tick.
    pub fn statuses(&self) -> watch::Receiver<Statuses> {
        self.statuses.clone()
    }

    /// Begins no more ticks, and waits a while for those that have begun.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let deadline = Instant::now() + SHUTDOWN_MAX;
        for (duty, task) in self.tasks {
            let abort = task.abort_handle();
            match timeout_at(deadline, task).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(duty, %error, "a background duty had panicked"),
                Err(_) => {
                    abort.abort();
                    tracing::warn!(duty, "a background duty did not end in time and was cut short");
                }
            }
        }
    }
}

/// A duty and what its runner knows of it.
struct Run {
    name: &'static str,
    duty: Box<dyn Duty>,
    leases: Arc<dyn Leases>,
    published: watch::Sender<Statuses>,
    had_lease: bool,
    failures: u32,
    /// Whether the log says that the duty fails.
    is_logged: bool,
}

/// What comes before the next tick.
enum Pause {
    /// Ends early when the duty wakes.
    UntilWoken(Duration),
    /// Is not shortened: the lease is with another server, or the last tick failed.
    Whole(Duration),
}

impl Run {
    async fn until(mut self, mut stopped: watch::Receiver<bool>) {
        let mut pause = Pause::Whole(self.duty.first_after());
        loop {
            let (time, may_wake) = match pause {
                Pause::UntilWoken(time) => (time, true),
                Pause::Whole(time) => (time, false),
            };
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = sleep(time) => {}
                () = self.duty.wake(), if may_wake => {}
            }
            pause = match self.tick().await {
                Some(next) => next,
                None => return,
            };
        }
    }

    /// One tick if this server may. `None`: the duty has ended.
    async fn tick(&mut self) -> Option<Pause> {
        if self.duty.lease().is_some_and(|lease| !self.leases.holds(lease)) {
            if std::mem::take(&mut self.had_lease) {
                self.duty.lease_lost();
            }
            return Some(Pause::Whole(LEASE_CHECK));
        }
        self.had_lease = true;
        let pause = match self.duty.tick().await {
            Ok(next) => {
                if std::mem::take(&mut self.is_logged) {
                    tracing::info!(duty = self.name, "a background duty works again");
                }
                self.failures = 0;
                self.publish(None);
                Pause::UntilWoken(match next {
                    Next::AtOnce => Duration::ZERO,
                    Next::After(time) => time,
                })
            }
            Err(TickError::Stopped) => return None,
            Err(error) => {
                self.log(&error);
                self.failures = self.failures.saturating_add(1);
                self.publish(Some(error.to_string()));
                Pause::Whole(backoff(self.failures))
            }
        };
        Some(pause)
    }

    fn log(&mut self, error: &TickError) {
        let duty = self.name;
        if matches!(error, TickError::Unavailable(_)) {
            tracing::debug!(duty, %error, "a background duty waits for the database");
        } else if !self.is_logged || self.failures.is_multiple_of(FAILURES_LOGGED_EVERY) {
            self.is_logged = true;
            tracing::warn!(duty, %error, "a background duty failed; retrying");
        }
    }

    fn publish(&self, failure: Option<String>) {
        let now = self.leases.now();
        self.published.send_modify(|statuses| {
            let status = statuses.entry(self.name).or_default();
            *status = DutyStatus { ticks: status.ticks + 1, last_tick_at: Some(now), failure, failures: self.failures };
        });
    }
}

/// How long to wait after so many failures.
fn backoff(failures: u32) -> Duration {
    BACKOFF_FIRST.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(BACKOFF_MAX)
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
