//! A worker's life: set up, work, drain, leave.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::id::WorkerId;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::attempts::Rules;
use crate::backoff::Backoff;
use crate::builder::Worker;
use crate::error::WorkerError;
use crate::heartbeat;
use crate::ledger::{Ledger, Left};
use crate::link::{LOG_BYTES_MAX_DEFAULT, Link, Phase, Profile, Server};
use crate::spool::Spool;
use crate::tasks::Tasks;

pub(crate) async fn run(
    worker: Worker,
    id: WorkerId,
    seed: u64,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WorkerError> {
    let progress = Arc::new(Notify::new());
    let ledgers = ledgers(&worker, &progress);
    let servers = worker
        .servers
        .iter()
        .zip(ledgers.iter())
        .map(|(url, ledger)| Server::new(url.clone(), ledger.clone()).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()?;
    let spool = open_spool(&worker, id, &ledgers)?;
    let profile = Arc::new(Profile {
        id,
        name: worker.name.clone().unwrap_or_else(host_name),
        queues: worker.queues.clone(),
        capabilities: worker.executors.capabilities(),
        labels: worker.labels.clone(),
        ledgers: ledgers.clone(),
    });
    // A handle that is used for a second run keeps showing the first.
    let _ = worker.status.0.set(ledgers.clone());

    let _stop = StopAll(ledgers.clone());

    let (phase_sender, phase) = watch::channel(Phase::Working);
    let mut links = JoinSet::new();
    for (place, server) in servers.iter().enumerate() {
        let link = Link {
            server: server.clone(),
            profile: profile.clone(),
            tasks: Tasks::new(worker.executors.clone()),
            spool: spool.clone(),
            phase: phase.clone(),
            rules: Rules { cancel_grace: worker.cancel_grace },
            log_bytes_max: LOG_BYTES_MAX_DEFAULT,
        };
        links.spawn(link.keep_connected(Backoff::new(seed.wrapping_add(place as u64))));
    }
    let heart = heartbeat::spawn(servers, id, phase)?;

    tokio::select! {
        () = shutdown => {}
        // Without its link a worker would look alive and do nothing: a fault of ours, not to
        // be hidden.
        Some(Err(error)) = links.join_next() => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => unreachable!("nobody cancels a link: {error}"),
        },
    }
    drain(&ledgers, spool.is_some(), &progress, worker.drain_timeout).await;

    phase_sender.send_replace(Phase::Leaving);
    while links.join_next().await.is_some() {}
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

/// Nothing runs on without its worker, not even when the worker's own future is dropped.
struct StopAll(Arc<[Arc<Ledger>]>);

impl Drop for StopAll {
    fn drop(&mut self) {
        for ledger in &*self.0 {
            ledger.stop_all();
        }
    }
}

fn ledgers(worker: &Worker, progress: &Arc<Notify>) -> Arc<[Arc<Ledger>]> {
    let servers = worker.servers.len() as u32;
    // Divided, not promised to each: a slot that two servers count on is refused to one.
    let share = |place| worker.slots / servers + u32::from(place < worker.slots % servers);
    (0..servers).map(|place| Arc::new(Ledger::new(share(place), progress.clone()))).collect()
}

fn open_spool(worker: &Worker, id: WorkerId, ledgers: &[Arc<Ledger>]) -> Result<Option<Arc<Spool>>, WorkerError> {
    let Some(dir) = &worker.spool_dir else {
        return Ok(None);
    };
    let (spool, leftovers) = Spool::open(dir, id).map_err(|source| WorkerError::Spool { dir: dir.clone(), source })?;
    // Which server they belong to is not known: the first is as good as any to settle them.
    ledgers[0].adopt(leftovers);
    Ok(Some(Arc::new(spool)))
}

/// Takes no more work and waits until what there is was finished and acknowledged, or is on
/// disk where no server can be reached.
async fn drain(ledgers: &[Arc<Ledger>], has_spool: bool, progress: &Notify, limit: Duration) {
    for ledger in ledgers {
        ledger.drain();
    }
    let is_done = |left: Left| {
        let safe = has_spool && !left.connected && left.not_on_disk == 0;
        left.running == 0 && (left.unacked == 0 || safe)
    };
    let done = async {
        while !ledgers.iter().all(|ledger| is_done(ledger.left())) {
            progress.notified().await;
        }
    };
    tracing::info!(running = running(ledgers), "leaving: no more work is taken");
    if tokio::time::timeout(limit, done).await.is_err() {
        let unacked: usize = ledgers.iter().map(|ledger| ledger.left().unacked).sum();
        tracing::warn!(running = running(ledgers), unacked, "leaving with work undone: {limit:?} were not enough");
    }
}

fn running(ledgers: &[Arc<Ledger>]) -> usize {
    ledgers.iter().map(|ledger| ledger.left().running).sum()
}

fn host_name() -> String {
    match std::fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(name) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => "worker".to_owned(),
    }
}
