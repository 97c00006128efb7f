//! The PostgreSQL that the settings name.

use punctual_core::{Span, Timestamp};
use punctual_store::StoreError;
use punctual_store::{MigrationState, MigrationStatus};
use punctual_store_postgres::{Health, health, migrations};

use super::Check;
use crate::clock::now;
use crate::config::Connection;
use crate::output::counted;
use crate::zone::short;

const NAME: &str = "database";
const VERSION_MIN: u32 = 15;
/// Each server keeps about a dozen connections.
const CONNECTIONS_WARN: u32 = 50;

pub(super) async fn checks(connection: &Connection, skew_max: Span) -> Vec<Check> {
    let url = connection.reveal();
    let before = now();
    let found = match health(&url).await {
        Ok(found) => found,
        Err(StoreError::Unavailable(reason)) => {
            let reason = format!("{connection}: {reason}");
            return vec![Check::fail(NAME, reason, "start it, or correct `database`")];
        }
        Err(error) => return vec![Check::fail(NAME, format!("{connection}: {error}"), "correct `database`")],
    };
    let after = now();
    let mut checks = vec![
        version(connection, &found),
        durability(&found),
        replication(&found),
        rights(&found),
        clock(before, found.now, after, skew_max),
        connections(&found),
    ];
    checks.push(match migrations(&url).await {
        Ok(known) => schema(&known),
        Err(error) => Check::fail("schema", error.to_string(), "see `punctual migrate status`"),
    });
    checks
}

fn version(connection: &Connection, found: &Health) -> Check {
    let reason = format!("{connection} is PostgreSQL {}", found.version);
    if found.major < VERSION_MIN {
        return Check::fail(NAME, reason, &format!("use PostgreSQL {VERSION_MIN} or newer"));
    }
    Check::pass(NAME, reason)
}

fn durability(found: &Health) -> Check {
    const NAME: &str = "durability";
    let fsync = if found.fsync { "on" } else { "off" };
    let reason = format!("fsync={fsync}, synchronous_commit={}", found.synchronous_commit);
    if !found.fsync {
        return Check::fail(NAME, format!("{reason}: a crash may destroy the database"), "set fsync = on");
    }
    if found.synchronous_commit == "off" {
        return Check::fail(NAME, format!("{reason}: a crash undoes accepted jobs"), "set synchronous_commit = on");
    }
    Check::pass(NAME, reason)
}

/// A failover to a standby that commits do not wait for loses the last of them.
fn replication(found: &Health) -> Check {
    const NAME: &str = "replication";
    const FIX: &str =
        "set synchronous_standby_names, and see \"When the database goes back in time\" in docs/delivery.md";
    let standbys = counted(found.standbys as usize, "standby");
    if found.standbys == 0 {
        return Check::pass(NAME, "no standby is connected");
    }
    if found.synchronous_standby_names.is_empty() {
        let reason = format!("{standbys}, asynchronous: a failover loses the last accepted jobs and may repeat others");
        return Check::warn(NAME, reason, FIX);
    }
    if ["local", "off"].contains(&found.synchronous_commit.as_str()) {
        let reason = format!("{standbys}, and synchronous_commit={} waits for none", found.synchronous_commit);
        return Check::warn(NAME, reason, "set synchronous_commit = on");
    }
    Check::pass(NAME, format!("{standbys}, synchronous_standby_names={}", found.synchronous_standby_names))
}

/// What to do about a store that may lose commits, by how it describes itself.
pub(super) fn durability_fix(store: &str) -> &'static str {
    if !store.starts_with("postgresql") {
        return "start the server with --durability full";
    }
    if store.contains("fsync=off") {
        return "set fsync = on in the PostgreSQL's configuration";
    }
    "set synchronous_commit = on in the PostgreSQL's configuration"
}

fn rights(found: &Health) -> Check {
    if found.may_create {
        return Check::pass("rights", "the user may make tables");
    }
    let fix = "GRANT CREATE ON SCHEMA public TO the user, or give it a schema of its own";
    Check::fail("rights", "the user may not make tables in its schema", fix)
}

/// The database read its clock between `before` and `after` of ours.
fn clock(before: Timestamp, database: Timestamp, after: Timestamp, skew_max: Span) -> Check {
    const NAME: &str = "database clock";
    const FIX: &str = "let NTP set the clocks of both machines; jobs follow the database's";
    let skew = before.since(database).max(database.since(after));
    let reason = format!("{} apart from this machine's", short(skew));
    if skew > skew_max {
        return Check::fail(NAME, format!("{reason}; a server here would refuse to work"), FIX);
    }
    if skew > Span::from_micros(skew_max.as_micros() / 5) {
        return Check::warn(NAME, reason, FIX);
    }
    Check::pass(NAME, reason)
}

fn connections(found: &Health) -> Check {
    let reason = format!("at most {}", found.connections_max);
    if found.connections_max < CONNECTIONS_WARN {
        return Check::warn("connections", reason, "raise max_connections: each server keeps about a dozen");
    }
    Check::pass("connections", reason)
}

fn schema(known: &[MigrationStatus]) -> Check {
    const NAME: &str = "schema";
    let newest = known.iter().rev().find(|known| matches!(known.state, MigrationState::Applied { .. }));
    let version = newest.map_or(0, |known| known.version);
    let pending = known.iter().filter(|known| known.state == MigrationState::Pending).count();
    if known.iter().any(|known| matches!(known.state, MigrationState::Unknown { .. })) {
        return Check::fail(NAME, "it is newer than this program", "install the newer version");
    }
    if pending > 0 {
        let reason = format!("at version {version}, {pending} to apply");
        return Check::warn(NAME, reason, "`punctual migrate`, or start a server");
    }
    Check::pass(NAME, format!("at version {version}, up to date"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::doctor::Verdict;

    fn healthy() -> Health {
        Health {
            version: "15.18".to_owned(),
            major: 15,
            fsync: true,
            synchronous_commit: "on".to_owned(),
            may_create: true,
            now: Timestamp::EPOCH,
            connections_max: 100,
            synchronous_standby_names: String::new(),
            standbys: 0,
        }
    }

    #[test]
    fn what_would_lose_jobs_or_keep_servers_from_working_fails() {
        use Verdict::{Fail, Pass, Warn};
        let check = |found: &Health| durability(found).verdict;
        assert_eq!(check(&healthy()), Pass);
        assert_eq!(check(&Health { fsync: false, ..healthy() }), Fail);
        assert_eq!(check(&Health { synchronous_commit: "off".to_owned(), ..healthy() }), Fail);
        assert_eq!(check(&Health { synchronous_commit: "local".to_owned(), ..healthy() }), Pass);
        assert_eq!(rights(&Health { may_create: false, ..healthy() }).verdict, Fail);
        assert_eq!(connections(&Health { connections_max: 20, ..healthy() }).verdict, Warn);
        let at = |secs| Timestamp::EPOCH + Span::from_secs(secs);
        for (database, verdict) in [(100, Pass), (98, Warn), (94, Fail), (107, Fail)] {
            assert_eq!(clock(at(100), at(database), at(100), Span::from_secs(5)).verdict, verdict, "{database}");
        }
    }

    #[test]
    fn an_asynchronous_standby_is_worth_a_warning() {
        use Verdict::{Pass, Warn};
        let check = |standbys, names: &str, commit: &str| {
            let (synchronous_standby_names, synchronous_commit) = (names.to_owned(), commit.to_owned());
            replication(&Health { standbys, synchronous_standby_names, synchronous_commit, ..healthy() }).verdict
        };
        assert_eq!(check(0, "", "on"), Pass);
        assert_eq!(check(1, "", "on"), Warn);
        assert_eq!(check(2, "ANY 1 (*)", "on"), Pass);
        assert_eq!(check(2, "ANY 1 (*)", "remote_apply"), Pass);
        assert_eq!(check(2, "ANY 1 (*)", "local"), Warn, "no commit waits for them");
    }

    #[test]
    fn what_is_advised_fits_the_database() {
        assert!(durability_fix("sqlite, synchronous=NORMAL").contains("--durability full"));
        assert!(durability_fix("postgresql 15.18, synchronous_commit=on, fsync=off").contains("fsync = on"));
        assert!(durability_fix("postgresql 15.18, synchronous_commit=off").contains("synchronous_commit = on"));
    }

    #[test]
    fn a_schema_is_old_new_or_just_right() {
        let one = |version, state| MigrationStatus { version, name: String::new(), state };
        let applied = || one(1, MigrationState::Applied { at: Timestamp::EPOCH });
        assert_eq!(schema(&[applied()]).verdict, Verdict::Pass);
        assert_eq!(schema(&[applied(), one(2, MigrationState::Pending)]).verdict, Verdict::Warn);
        let unknown = one(2, MigrationState::Unknown { at: Timestamp::EPOCH });
        assert_eq!(schema(&[applied(), unknown]).verdict, Verdict::Fail);
    }
}
