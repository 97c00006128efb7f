//! The life cycle of a worker: set up, work, drain, leave.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::id::WorkerId;
use tokio::sync::watch;

use crate::attempts::AttemptRules;
use crate::builder::{Identity, Worker};
use crate::error::WorkerError;
use crate::held::{HeldAttempts, RemainingWork};
use crate::journal::Journal;
use crate::link::{Phase, Profile};
use crate::servers::{LinkParts, Servers};
use crate::spool::Spool;
use crate::{heartbeat, upkeep};

pub(crate) async fn run(
    worker: Worker,
    identity: Identity,
    seed: u64,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WorkerError> {
    let Identity { id, secret } = identity;
    let held = Arc::new(HeldAttempts::new(worker.slots));
    let spool = open_spool(&worker, id, &held)?;
    let profile = Arc::new(Profile {
        id,
        secret: secret.clone(),
        name: worker.name.clone().unwrap_or_else(host_name),
        host: host_name(),
        queues: worker.queues.clone(),
        capabilities: worker.executors.capabilities(),
        labels: worker.labels.clone(),
        commands_as: worker.executors.commands_as().unwrap_or_default(),
    });
    // A handle that is used for a second run keeps showing the first.
    let _ = worker.status.0.set(held.clone());

    let _stop = StopAll(held.clone());

    let (phase_sender, phase) = watch::channel(Phase::Working);
    let parts = LinkParts {
        held: held.clone(),
        profile,
        executors: worker.executors.clone(),
        spool: spool.clone(),
        phase: phase.clone(),
        rules: AttemptRules { cancel_grace: worker.cancel_grace, journal: Journal::new(worker.attempt_log) },
        seed,
        credentials: Arc::new(worker.credentials),
    };
    let mut servers = Servers::start(parts, &worker.servers, worker.servers_max)?;
    worker.asker.begin(id, servers.list());
    let _renewal = worker.certificate.map(|certificate| {
        let known = servers.list();
        let urls = move || known.borrow().iter().map(|server| server.url.clone()).collect();
        AbortOnDrop(tokio::spawn(certificate.keep_valid(Arc::new(urls))).abort_handle())
    });
    let heart = heartbeat::spawn(servers.list(), Identity { id, secret }, phase)?;
    let upkeep = tokio::spawn(upkeep::keep(held.clone(), spool.clone()));
    let _upkeep = AbortOnDrop(upkeep.abort_handle());

    let leave = async {
        shutdown.await;
        drain(&held, spool.is_some(), worker.drain_timeout).await;
    };
    tokio::select! {
        () = leave => {}
        () = servers.follow() => unreachable!("servers are followed until the worker leaves"),
    }

    phase_sender.send_replace(Phase::Leaving);
    servers.left().await;
    if let Some(spool) = &spool {
        spool.keep(&held);
    }
    // Both end within moments, but a thread is not joined on a runtime's own thread.
    let close = move || {
        if let Some(spool) = spool {
            spool.close();
        }
        heart.join().is_ok()
    };
    if !tokio::task::spawn_blocking(close).await.unwrap_or(false) {
        tracing::error!("the heartbeat's thread panicked");
    }
    Ok(())
}

/// Stops all attempts when dropped: nothing keeps running without its worker, even if the worker's own future is
/// dropped.
struct StopAll(Arc<HeldAttempts>);

impl Drop for StopAll {
    fn drop(&mut self) {
        self.0.stop_all();
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn open_spool(worker: &Worker, id: WorkerId, held: &HeldAttempts) -> Result<Option<Arc<Spool>>, WorkerError> {
    let Some(dir) = &worker.spool_dir else {
        return Ok(None);
    };
    let (spool, leftovers) = Spool::open(dir, id).map_err(|source| WorkerError::Spool { dir: dir.clone(), source })?;
    held.adopt(leftovers);
    Ok(Some(Arc::new(spool)))
}

/// Takes no more work and waits until every attempt is finished and acknowledged, or is on disk because no server can
/// be reached.
async fn drain(held: &HeldAttempts, has_spool: bool, limit: Duration) {
    held.drain();
    let is_done = |left: RemainingWork| {
        let safe = has_spool && left.connected == 0 && left.not_on_disk == 0;
        left.running == 0 && (left.unacked == 0 || safe)
    };
    let done = async {
        while !is_done(held.left()) {
            held.progress.notified().await;
        }
    };
    tracing::info!(running = held.left().running, "leaving: no more work is taken");
    if tokio::time::timeout(limit, done).await.is_err() {
        let RemainingWork { running, unacked, .. } = held.left();
        tracing::warn!(running, unacked, "leaving with work undone: {limit:?} were not enough");
    }
}

pub(crate) fn host_name() -> String {
    match std::fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(name) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => "worker".to_owned(),
    }
}
