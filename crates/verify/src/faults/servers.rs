//! Faults of servers.

use std::time::Duration;

use tokio::time::Instant;

use super::Injecting;
use super::arena::{Arena, Most};
use super::measure::Measure;
use super::workers::from_to_now;
use crate::clock::Moment;

/// What the program exits with when somebody else has what it wants.
const REFUSED: i32 = 6;

/// How soon after a takeover's limit everything that was held up has begun.
const CATCH_UP: Duration = Duration::from_secs(3);

impl Arena {
    async fn kill_server(&mut self, place: usize) -> Moment {
        let shards = self.cluster.servers[place].shards_owned().await.unwrap_or(0);
        let stats = self.cluster.servers[place].stats().await.unwrap_or_default();
        let name = self.cluster.servers[place].name();
        let at = self.begin(name.clone(), "killed");
        self.cluster.servers[place].kill();
        self.note(format!(
            "{name} owned {shards} shards, with {} running, {} due and {} waiting jobs",
            stats.running, stats.ready, stats.waiting
        ));
        at
    }

    /// Until the others own all shards.
    pub(super) async fn see_takeover(&mut self, since: Instant, limit: Duration) {
        // If it never comes, the time that was waited for it is above the limit too.
        let _ = self.cluster.wait_for_shards(limit + Duration::from_secs(20)).await;
        let took = since.elapsed();
        self.measure(Measure::Took { what: "all shards owned again after", took, limit });
    }

    fn see_latest(&mut self, from: Moment, limit: Duration) {
        let within = self.timing.takeover();
        self.measure(Measure::Latest { what: "latest begin", from, within, limit });
    }
}

pub(super) fn kill_owner(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let place = arena.server_by_shards(Most::Shards).await?;
        let at = arena.kill_server(place).await;
        let since = Instant::now();
        arena.healed(arena.timing.takeover());
        arena.see_takeover(since, arena.timing.takeover()).await;
        arena.see_latest(at, arena.timing.takeover() + CATCH_UP);
        // It comes back as another, and takes its share.
        arena.cluster.start_server(place).await?;
        arena.cluster.wait_for_shards(arena.timing.lease * 2).await?;
        Ok(())
    })
}

/// One that only answers clients, or owns the fewest shards.
pub(super) fn kill_bystander(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let place = arena.server_by_shards(Most::Rest).await?;
        let at = arena.kill_server(place).await;
        arena.healed(Duration::from_secs(1));
        arena.see_latest(at, Duration::from_secs(2));
        Ok(())
    })
}

/// The second dies while the shards of the first are on their way.
pub(super) fn kill_during_takeover(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let first = arena.server_by_shards(Most::Shards).await?;
        arena.kill_server(first).await;
        let since = Instant::now();
        let (before, total) = arena.cluster.shards().await?;
        // As soon as the first shard has moved, or shortly before any may.
        while since.elapsed() < arena.timing.takeover() {
            let (owned, _) = arena.cluster.shards().await?;
            if owned > before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (owned, _) = arena.cluster.shards().await?;
        arena.note(format!("the second was killed when {owned} of {total} shards had an owner"));
        let second = arena.server_by_shards(Most::Shards).await?;
        arena.kill_server(second).await;
        let since = Instant::now();
        arena.healed(arena.timing.takeover());
        arena.see_takeover(since, arena.timing.takeover()).await;
        for place in [first, second] {
            arena.cluster.start_server(place).await?;
        }
        Ok(())
    })
}

pub(super) fn pause(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let place = arena.server_by_shards(Most::Shards).await?;
        let name = arena.cluster.servers[place].name();
        let at = arena.begin(name.clone(), "stopped");
        let process = arena.cluster.servers[place].process.as_ref().expect("it runs");
        process.pause();
        // What the clients ask of it is not answered meanwhile.
        tokio::time::sleep(arena.timing.lease * 3).await;
        arena.cluster.servers[place].process.as_ref().expect("it runs").resume();
        arena.end(name, "goes on");
        arena.healed(Duration::from_secs(5));
        arena.see_latest(at, arena.timing.takeover() + CATCH_UP);
        Ok(())
    })
}

impl Arena {
    /// Shards change hands while jobs of theirs are submitted, deleted and run.
    async fn join(&mut self, count: usize) -> anyhow::Result<()> {
        let from = self.begin("the cluster", format!("{count} joined"));
        for _ in 0..count {
            self.cluster.add_server().await?;
        }
        self.cluster.wait_for_balance().await?;
        let (_, total) = self.cluster.shards().await?;
        let took_s = from_to_now(from).as_secs_f64();
        self.note(format!(
            "each of {} had its share of {total} shards after {took_s:.1} s",
            self.cluster.servers.len()
        ));
        self.healed(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(2)).await;
        let within = from_to_now(from);
        self.measure(Measure::Latest { what: "latest begin", from, within, limit: Duration::from_secs(1) });
        Ok(())
    }
}

pub(super) fn join(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.join(1))
}

pub(super) fn join_first(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.join(2))
}

/// A second server that a copied setting sends workers of to the first.
pub(super) fn same_address(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let name = arena.cluster.servers[0].name();
        let from = arena.begin(name.clone(), "got a second server with its address:");
        let ended = arena.cluster.servers[0].start_copy(&arena.cluster).await?;
        arena.note(format!("the second server with the address of {name} ended with {ended}"));
        anyhow::ensure!(ended.code() == Some(REFUSED), "the second server was not refused: {ended}");
        arena.healed(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(2)).await;
        let within = from_to_now(from);
        arena.measure(Measure::Latest { what: "latest begin", from, within, limit: Duration::from_secs(1) });
        Ok(())
    })
}

/// Each is asked to stop, and started again, while jobs go on.
pub(super) fn rolling_restart(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        for place in 0..arena.cluster.servers.len() {
            let name = arena.cluster.servers[place].name();
            let at = arena.begin(name.clone(), "asked to stop");
            let since = Instant::now();
            let mut process = arena.cluster.servers[place].process.take().expect("it runs");
            process.ask_to_end();
            arena.see_takeover(since, Duration::from_secs(1)).await;
            process.stop().await?;
            arena.note(format!("{name} had stopped after {:.1} s", since.elapsed().as_secs_f64()));
            let within = from_to_now(at);
            arena.measure(Measure::Latest { what: "latest begin", from: at, within, limit: Duration::from_secs(2) });
            arena.cluster.start_server(place).await?;
            arena.end(name, "started");
            arena.cluster.wait_for_shards(arena.timing.lease * 2).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        arena.healed(Duration::from_secs(1));
        Ok(())
    })
}
