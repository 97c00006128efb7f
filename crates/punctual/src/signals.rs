//! Ends long-running commands in order: the first signal drains, the second stops.

use std::future::Future;
use std::io::Read;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::exit::Exit;
use crate::output::Output;

/// Knows whether someone asked us to end.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

/// What else than a signal ends the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    Signal,
    /// Also the end of stdin: whoever started us is gone, however it went.
    StdinCloses,
}

impl Stop {
    pub(crate) fn listen(until: Until, out: &Output) -> anyhow::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (sender, receiver) = watch::channel(false);
        let out = out.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => out.hint("\ndraining; press Ctrl-C again to stop at once"),
                _ = terminate.recv() => out.hint("draining; another signal stops at once"),
                () = stdin_closed(until) => {}
            }
            // Nobody listens any more when the command ended by itself.
            let _ = sender.send(true);
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            std::process::exit(i32::from(Exit::Interrupted.code()));
        });
        Ok(Self(receiver))
    }

    /// Ends when we were asked to end.
    pub(crate) fn requested(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut receiver = self.0.clone();
        async move {
            // The sender lives in a task that ends only with the process.
            let _ = receiver.wait_for(|stop| *stop).await;
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
