//! Faults of the database.

use std::time::Duration;

use punctual_local_postgres::{Postgres, Stop};

use super::Injecting;
use super::arena::Arena;
use super::measure::Measure;
use crate::history::FaultEvent;
use crate::proxy::Link;

/// From when the database answers again until jobs begin in time.
const RECOVERY: Duration = Duration::from_secs(5);
/// From the promotion of a standby.
const PROMOTION_RECOVERY: Duration = Duration::from_secs(10);
/// What a standby is behind when it is promoted.
const LOST: Duration = Duration::from_secs(2);
const LATENCY: Duration = Duration::from_millis(200);

const DATABASE: &str = "the database";

impl Arena {
    /// Without holding up the proxies, which share our threads.
    fn with_primary<T>(&mut self, act: impl FnOnce(&mut Postgres) -> std::io::Result<T>) -> anyhow::Result<T> {
        let primary = self.cluster.database.primary.as_mut().expect("cells run with PostgreSQL");
        Ok(tokio::task::block_in_place(|| act(primary))?)
    }

    fn see_recovery(&mut self, limit: Duration) {
        let since = self.end(DATABASE, "answers again");
        self.healed(limit);
        self.measure(Measure::Recovered { since, limit });
    }
}

pub(super) fn kill(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        arena.begin(DATABASE, "killed");
        arena.with_primary(Postgres::kill)?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        arena.with_primary(Postgres::start_again)?;
        arena.see_recovery(RECOVERY);
        tokio::time::sleep(RECOVERY).await;
        Ok(())
    })
}

pub(super) fn restart_immediately(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        for _ in 0..3 {
            arena.begin(DATABASE, "stopped at once and started");
            arena.with_primary(|primary| primary.stop(Stop::Immediate))?;
            arena.with_primary(Postgres::start_again)?;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        arena.see_recovery(RECOVERY);
        tokio::time::sleep(RECOVERY).await;
        Ok(())
    })
}

pub(super) fn pause(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        arena.begin(DATABASE, "stopped (SIGSTOP)");
        arena.with_primary(|primary| {
            primary.pause();
            Ok(())
        })?;
        tokio::time::sleep(arena.timing.lease * 3).await;
        arena.with_primary(|primary| {
            primary.resume();
            Ok(())
        })?;
        // Connections may have to be given up first, and shards taken again.
        arena.see_recovery(RECOVERY + arena.timing.lease);
        tokio::time::sleep(RECOVERY).await;
        Ok(())
    })
}

pub(super) fn slow(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let from = arena.begin(DATABASE, "made 200 ms slower each way");
        for back in arena.cluster.servers.iter().filter_map(|server| server.back.as_ref()) {
            back.set(Link::late(LATENCY));
        }
        let within = Duration::from_secs(15);
        tokio::time::sleep(within).await;
        for back in arena.cluster.servers.iter().filter_map(|server| server.back.as_ref()) {
            back.heal();
        }
        arena.measure(Measure::Latest { what: "latest begin meanwhile", from, within, limit: RECOVERY });
        arena.see_recovery(RECOVERY);
        Ok(())
    })
}

/// Someone holds locks that every start and every end of a job needs.
pub(super) fn locked(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let held = Duration::from_secs(4);
        for _ in 0..3 {
            arena.begin(DATABASE, "all tables locked for 4 s in");
            let sql = format!(
                "DO $$ DECLARE name text; BEGIN \
                 FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables \
                 WHERE schemaname NOT IN ('pg_catalog', 'information_schema') LOOP \
                 EXECUTE 'LOCK TABLE ' || name || ' IN ACCESS EXCLUSIVE MODE'; END LOOP; \
                 PERFORM pg_sleep({}); END $$",
                held.as_secs()
            );
            tokio::task::block_in_place(|| arena.cluster.database.execute(&sql))?;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        arena.see_recovery(RECOVERY);
        Ok(())
    })
}

/// The primary dies, and its synchronous standby takes its place.
pub(super) fn promote_standby(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        arena.begin("the primary", "killed");
        arena.with_primary(Postgres::kill)?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let standby = arena.cluster.database.standby.as_ref().expect("the cell has a standby");
        tokio::task::block_in_place(|| standby.promote())?;
        arena.see_recovery(PROMOTION_RECOVERY);
        tokio::time::sleep(PROMOTION_RECOVERY).await;
        Ok(())
    })
}

/// The primary dies, and its standby, which lacks the last commits, takes its place.
pub(super) fn lose_commits(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        tokio::task::block_in_place(|| arena.cluster.database.cut_standby_off())?;
        // This much is lost.
        tokio::time::sleep(LOST).await;
        arena.begin("the primary", format!("killed with {} s that the standby does not have:", LOST.as_secs()));
        arena.with_primary(Postgres::kill)?;
        // Whatever is committed from here on is there to stay.
        arena.record(FaultEvent::WentBack, DATABASE, "the standby takes over");
        let standby = arena.cluster.database.standby.as_ref().expect("the cell has a standby");
        tokio::task::block_in_place(|| standby.promote())?;
        arena.see_recovery(PROMOTION_RECOVERY);
        tokio::time::sleep(PROMOTION_RECOVERY).await;
        Ok(())
    })
}
