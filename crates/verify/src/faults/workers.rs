//! Faults of workers.

use std::time::Duration;

use super::Injecting;
use super::arena::Arena;
use super::measure::Measure;
use crate::history::FaultEvent;

impl Arena {
    /// SIGKILL. Answers its process id.
    fn kill_worker(&mut self, place: usize) -> u32 {
        let mut worker = self.cluster.workers.remove(place);
        let (pid, name) = (worker.pid(), worker.name());
        let at = self.record(FaultEvent::Begin, name.clone(), "SIGKILL");
        worker.process.kill();
        self.record(FaultEvent::WorkerDied { pid }, name.clone(), "");
        self.measure(Measure::Hits { what: format!("killed {name}"), at, of: Some(pid) });
        self.measure(Measure::Again { pid, since: at, limit: self.timing.rerun() });
        pid
    }
}

pub(super) fn kill(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        arena.kill_worker(0);
        arena.healed(arena.timing.rerun());
        // So long that all that it ran is seen to run elsewhere.
        tokio::time::sleep(arena.timing.rerun()).await;
        Ok(())
    })
}

pub(super) fn kill_most(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        while arena.cluster.workers.len() > 1 {
            arena.kill_worker(0);
        }
        arena.healed(arena.timing.rerun());
        tokio::time::sleep(arena.timing.rerun()).await;
        Ok(())
    })
}

pub(super) fn pause(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let worker = &arena.cluster.workers[0];
        let (pid, name) = (worker.pid(), worker.name());
        let at = arena.record(FaultEvent::WorkerOutOfReach { pid }, name.clone(), "SIGSTOP");
        arena.cluster.workers[0].process.pause();
        arena.measure(Measure::Hits { what: format!("stopped {name}"), at, of: Some(pid) });
        arena.measure(Measure::Again { pid, since: at, limit: arena.timing.rerun() });
        tokio::time::sleep(arena.timing.lease * 3).await;
        arena.cluster.workers[0].process.resume();
        arena.record(FaultEvent::WorkerInReach { pid }, name, "SIGCONT");
        arena.healed(arena.timing.rerun());
        Ok(())
    })
}

/// Each leaves in order, and another comes, while jobs go on.
pub(super) fn rolling_restart(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let from = arena.begin("all workers", "restarted in turn");
        for _ in 0..arena.cluster.workers.len() {
            arena.cluster.add_worker()?;
            let mut worker = arena.cluster.workers.remove(0);
            let (pid, name) = (worker.pid(), worker.name());
            worker.stop().await?;
            arena.record(FaultEvent::WorkerLeft { pid }, name, "left");
            arena.cluster.known.remove(pid);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        arena.healed(Duration::from_secs(1));
        let within = from_to_now(from);
        arena.measure(Measure::Latest { what: "latest begin meanwhile", from, within, limit: Duration::from_secs(5) });
        Ok(())
    })
}

pub(super) fn from_to_now(from: crate::clock::Moment) -> Duration {
    Duration::from_millis(crate::clock::Moment::now().ms_since(from).unsigned_abs())
}
