//! Ends long-running commands in order: the first signal drains, the second stops.

use std::future::Future;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::exit::Exit;
use crate::output::Output;

/// Knows whether someone asked us to end.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    requested: watch::Receiver<bool>,
    /// A folder that must not outlive us, even if we end at once.
    doomed: Arc<Mutex<Option<PathBuf>>>,
}

/// A signal that comes twice within this time was meant once: `timeout` sends it to
/// the process and to its group, a shell to the group that it kills as well.
const ONE_SIGNAL: Duration = Duration::from_millis(500);

/// What else than a signal ends the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    Signal,
    /// Also the end of stdin: whoever started us is gone, however it went.
    StdinCloses,
}

impl Stop {
    pub(crate) fn listen(until: Until, out: &Output) -> anyhow::Result<Self> {
        let mut signals = Signals::listen()?;
        let (sender, requested) = watch::channel(false);
        let doomed = Arc::new(Mutex::new(None));
        let stop = Self { requested, doomed: Arc::clone(&doomed) };
        let out = out.clone();
        tokio::spawn(async move {
            tokio::select! {
                signal = signals.next() => out.hint(match signal {
                    StopSignal::Interrupt => "\ndraining; press Ctrl-C again to stop at once",
                    StopSignal::Other => "draining; another signal stops at once",
                }),
                () = stdin_closed(until) => {}
            }
            let first_at = Instant::now();
            // Nobody listens any more when the command ended by itself.
            let _ = sender.send(true);
            while signals.next_at().await - first_at < ONE_SIGNAL {}
            if let Some(dir) = &*doomed.lock().unwrap_or_else(PoisonError::into_inner) {
                remove(dir);
            }
            std::process::exit(i32::from(Exit::Interrupted.code()));
        });
        Ok(stop)
    }

    /// Removes this folder if there is no time to end in order.
    pub(crate) fn remove_when_forced(&self, dir: &Path) {
        *self.doomed.lock().unwrap_or_else(PoisonError::into_inner) = Some(dir.to_owned());
    }

    /// Ends when we were asked to end.
    pub(crate) fn requested(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut receiver = self.requested.clone();
        async move {
            // The sender lives in a task that ends only with the process.
            let _ = receiver.wait_for(|stop| *stop).await;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopSignal {
    /// At the keyboard.
    Interrupt,
    Other,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` under `nohup`: whoever ignores it before us means it.
    hang_up: Option<Signal>,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if ignores_hang_up(&status) { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    async fn next(&mut self) -> StopSignal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Other,
            _ = hang_up => StopSignal::Other,
        }
    }

    async fn next_at(&mut self) -> Instant {
        self.next().await;
        Instant::now()
    }
}

/// Reads the mask of ignored signals, in which SIGHUP is the first.
fn ignores_hang_up(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// The database may still write: what it adds while we remove is removed again.
fn remove(dir: &Path) {
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        match std::fs::remove_dir_all(dir) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            _ => return,
        }
    }
}

/// Never ends for [`Until::Signal`].
async fn stdin_closed(until: Until) {
    if until == Until::Signal {
        return std::future::pending().await;
    }
    let (sender, closed) = oneshot::channel();
    // A thread of its own: reading stdin cannot be interrupted, and must not hold up our end.
    std::thread::spawn(move || {
        let mut rest = [0; 64];
        while matches!(std::io::stdin().read(&mut rest), Ok(read) if read > 0) {}
        let _ = sender.send(());
    });
    let _ = closed.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_up_that_was_ignored_before_us_stays_ignored() {
        assert!(ignores_hang_up("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"));
        assert!(!ignores_hang_up("SigIgn:\t0000000000001000\n"));
        assert!(!ignores_hang_up(""));
    }
}
