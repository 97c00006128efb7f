//! What is special about schedules here: the ledger comes in partitions, and names are unique across servers.

mod common;

use std::collections::HashSet;
use std::time::Duration;

use common::Database;
use punctual_core::schedule::{OccurrenceRow, ScheduleRow, Verdict};
use punctual_core::shard::write::{Decision, SharedBatch, Void, Write};
use punctual_core::{JobState, ScheduleId, ShardId, Span, Timestamp};
use punctual_store::{Applied, FoundRow, JobReads, JobRecord, Retention, Schedules, Transitions};
use punctual_store_postgres::{Options, PostgresStore};
use punctual_store_tests::fixture::*;
use punctual_store_tests::schedule_fixture::*;

const HOUR: i64 = 3600;

async fn store(database: &Database) -> PostgresStore {
    let options = Options { history_step: Span::from_secs(HOUR), ..database.options() };
    PostgresStore::connect(options).await.unwrap()
}

/// From which hour and for how many, the earliest first.
fn partitions(database: &Database) -> Vec<(i64, i64)> {
    let text = database.execute(
        "SELECT (regexp_matches(pg_get_expr(relpartbound, oid), '''(\\d+)''.*''(\\d+)'''))[1:2]::bigint[]
         FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'occurrence'::regclass ORDER BY 1",
    );
    let hours = |micros: &str| micros.parse::<i64>().unwrap() / 1_000_000 / HOUR;
    let read = |line: &str| {
        let (from, to) = line.trim_matches(['{', '}']).split_once(',').unwrap();
        (hours(from) - at(0).as_micros() / 1_000_000 / HOUR, hours(to) - hours(from))
    };
    text.lines().map(read).collect()
}

/// Also of a time before all that cases are about.
fn missed_at(schedule: ScheduleId, secs: i64) -> Decision {
    let time = Timestamp::from_micros(at(0).as_micros() + secs * 1_000_000).unwrap();
    let occurrence = OccurrenceRow { at: time, slot: time, ..occurrence(schedule, 0, Verdict::Missed) };
    Decision { occurrence, job: None, notice: None }
}

fn missed(schedule: ScheduleId, secs: i64) -> Write {
    decide(&missed_at(schedule, secs))
}

#[tokio::test]
async fn a_planned_time_has_its_partition_and_those_far_from_now_share_some() {
    let database = Database::new();
    let store = store(&database).await;
    let mut owner = owner_of(&store, &[]).await;
    let id = schedule_id(1, 1);
    assert_eq!(partitions(&database), [(0, 1), (1, 1)]);
    owner.done(vec![missed(id, 10), missed(id, -3 * HOUR), missed(id, -2 * HOUR)]).await;
    assert_eq!(partitions(&database), [(-3, 1), (-2, 1), (0, 1), (1, 1)], "what is over needs none ahead");
    // Two months of long ago, hour by hour, and times that will not come soon.
    let long_ago: Vec<Write> = (33..1500).map(|hour| missed(id, -hour * HOUR)).collect();
    owner.done(long_ago).await;
    owner.done(vec![missed(id, 40 * HOUR), missed(id, 41 * HOUR), missed(id, 90_000 * HOUR)]).await;
    let made = partitions(&database);
    assert!(made.len() <= 4 + 6 + 3, "{made:?}");
    assert!(made.iter().all(|(from, hours)| (-32..32).contains(from) == (*hours == 1)), "{made:?}");
    let page = store.occurrences(id, Default::default(), None, Default::default(), 5_000).await.unwrap();
    assert_eq!((page.0.len(), page.1), (3 + 1467 + 3, None));
    assert!(page.0.windows(2).all(|pair| pair[0].at > pair[1].at), "the latest first, over all partitions");
    // One that somebody dropped behind our back is made again.
    database.execute(&format!("DROP TABLE occurrence_{}", at(0).as_micros()));
    owner.done(vec![missed(id, 10)]).await;
    // And a time in any of them has one verdict.
    let twice = [missed_at(id, -1400 * HOUR), missed_at(id, 90_000 * HOUR)];
    owner.but_verdicts(twice.iter().map(decide).collect(), &[&twice[0], &twice[1]]).await;
}

#[tokio::test]
async fn a_verdict_needs_the_partition_of_its_time_and_no_other() {
    let database = Database::new();
    let store = store(&database).await;
    let mut owner = owner_of(&store, &[]).await;
    let id = schedule_id(1, 1);
    owner.done((0..30).map(|hour| missed(id, -hour * HOUR)).collect()).await;
    // Somebody holds all the others, as retention does with one that it drops.
    let (client, connection) = tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let others: Vec<String> = (1..30).map(|hour| format!("occurrence_{}", at_hour(-hour))).collect();
    client.batch_execute(&format!("BEGIN; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", others.join(", "))).await.unwrap();
    let decided = async {
        owner.done(vec![missed(id, 10)]).await;
        owner.but_verdicts(vec![missed(id, 10), missed(id, 20)], &[&missed_at(id, 10)]).await;
    };
    tokio::time::timeout(Duration::from_secs(10), decided).await.expect("nobody holds its partition");
    client.batch_execute("ROLLBACK").await.unwrap();
}

fn at_hour(hour: i64) -> i64 {
    at(0).as_micros() + hour * HOUR * 1_000_000
}

/// More rows than are removed one by one, in the hour after `hours`.
fn fill(database: &Database, hours: i64) {
    database.execute(&format!(
        "INSERT INTO occurrence (schedule, at, decided_at, count, shard, verdict, marks)
         SELECT gen_random_uuid(), {} + n, 0, 1, 1, 8, 0 FROM generate_series(1, 60000) AS n",
        at(hours * HOUR).as_micros()
    ));
}

#[tokio::test]
async fn a_large_partition_is_dropped_whole_unless_something_in_it_is_queued() {
    let database = Database::new();
    let store = store(&database).await;
    let mut owner = owner_of(&store, &[]).await;
    let id = schedule_id(1, 1);
    let queued = unfired(id, HOUR + 10, Verdict::Queued);
    owner.done(vec![missed(id, 10), decide(&queued), missed(id, 2 * HOUR + 10)]).await;
    (0..3).for_each(|hours| fill(&database, hours));
    let count = |hour: i64| {
        let name = format!("occurrence_{}", at(hour * HOUR).as_micros());
        let there = database.execute(&format!("SELECT count(*) FROM pg_class WHERE relname = '{name}'"));
        (there == "1").then(|| database.execute(&format!("SELECT count(*) FROM {name}")).parse::<i64>().unwrap())
    };
    assert_eq!([count(0), count(1), count(2)], [Some(60_001); 3]);
    // The last hour is not over: what has many rows waits for that.
    store.prune(at(2 * HOUR + 1800), at(0), 10).await.unwrap();
    assert_eq!([count(0), count(1), count(2)], [None, Some(40_001), Some(60_001)]);
    for _ in 0..3 {
        store.prune(at(2 * HOUR + 1800), at(0), 10).await.unwrap();
    }
    assert_eq!(count(1), Some(1), "the one that is queued");
    assert_eq!(store.shard_schedules(ShardId(1)).await.unwrap().queued, [queued.occurrence]);
    owner.done(vec![release(&unfired(id, HOUR + 10, Verdict::Missed))]).await;
    // What the last row left behind is dropped at once, or at a later turn if statistics still call it large or a vacuum
    // is at it.
    for _ in 0..100 {
        store.prune(at(3 * HOUR), at(0), 10).await.unwrap();
        if count(1).is_none() && count(2).is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!([count(0), count(1), count(2)], [None; 3]);
}

#[tokio::test]
async fn a_ledger_that_is_busy_holds_up_no_retention() {
    let database = Database::new();
    let store = store(&database).await;
    let mut owner = owner_of(&store, &[]).await;
    owner.done(vec![missed(schedule_id(1, 1), 10)]).await;
    fill(&database, 0);
    let (client, connection) = tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN; UPDATE occurrence SET reason = 'slow' WHERE verdict = 8 AND at < 0").await.unwrap();
    store.prune(at(HOUR), at(0), 10).await.unwrap();
    assert_eq!(partitions(&database)[0], (0, 1), "it is left for another time");
    client.batch_execute("COMMIT").await.unwrap();
    store.prune(at(HOUR), at(0), 10).await.unwrap();
    assert_eq!(partitions(&database)[0], (1, 1));
}

/// Shards of two lanes, so that both batches are under way at once.
#[tokio::test]
async fn of_schedules_that_are_stored_under_one_name_at_once_one_stays() {
    const NAMES: u64 = 200;
    let database = Database::new();
    let store = database.store().await;
    let mut owner = owner_of(&store, &[]).await;
    for round in 0..10 {
        let row = |n: u64, shard: u16| new_schedule(round * NAMES + n, &format!("round {round} no {n}"), shard);
        let ours: Vec<ScheduleRow> = (0..NAMES).map(|n| row(n, 0)).collect();
        let theirs: Vec<ScheduleRow> = (0..NAMES).rev().map(|n| row(n, 1)).collect();
        let [one, other] = [&ours, &theirs].map(|rows| SharedBatch::new(owner.batch(rows.iter().map(add).collect())));
        let (one, other) = tokio::join!(store.apply(one), store.apply(other));
        let void = [one, other].map(|applied| match applied.unwrap() {
            Applied::Done { void: Void { jobs, schedules, occurrences }, .. } => {
                assert!(jobs.is_empty() && occurrences.is_empty());
                schedules.into_iter().collect::<HashSet<_>>()
            }
            Applied::Fenced(shards) => panic!("{shards:?}"),
        });
        assert_eq!(void[0].len() + void[1].len(), NAMES as usize);
        for row in ours.iter().chain(&theirs) {
            let is_void = void.iter().any(|void| void.contains(&row.id));
            assert_eq!(store.schedule(row.id).await.unwrap().is_none(), is_void, "{}", row.name);
        }
    }
}

#[tokio::test]
async fn a_source_that_cannot_be_read_leaves_the_job_as_it_is() {
    let database = Database::new();
    let store = database.store().await;
    let (good, bad) = (tracked(fired(schedule_id(1, 1), 10, 1)), tracked(fired(schedule_id(1, 1), 20, 2)));
    let mut owner = owner_of(&store, &[]).await;
    owner.done(vec![decide(&good), decide(&bad)]).await;
    let in_shard = async || store.shard_schedules(ShardId(1)).await.unwrap().tracked;
    assert_eq!(in_shard().await.len(), 2);
    database.execute("UPDATE job SET source = '\\xff00' WHERE due_at = (SELECT max(due_at) FROM job)");
    let source = good.job.as_ref().unwrap().source;
    assert_eq!(in_shard().await, [(source, job_of(&good))]);
    for (decision, has_source) in [(&good, true), (&bad, false)] {
        match store.find(job_of(decision)).await.unwrap() {
            FoundRow::Hot(row) => assert_eq!(row.source.is_some(), has_source),
            other => panic!("{other:?}"),
        }
        match store.job(job_of(decision)).await.unwrap() {
            Some(JobRecord::Hot { job, .. }) => assert_eq!(job.source.is_some(), has_source),
            other => panic!("{other:?}"),
        }
    }
    owner.done(vec![succeed(key_of(&good), 1), succeed(key_of(&bad), 1)]).await;
    assert!(matches!(
        store.job(job_of(&bad)).await.unwrap(),
        Some(JobRecord::Finished { job, .. }) if job.source.is_none()
    ));
}

/// Successes have quicker ways into history: in a batch of their own, and beside something else.
#[tokio::test]
async fn a_source_goes_along_on_every_way_into_history() {
    let database = Database::new();
    let store = database.store().await;
    let decisions: Vec<Decision> = (1..4).map(|n| fired(schedule_id(1, 1), 10 * n, n as u64)).collect();
    let mut owner = owner_of(&store, &[]).await;
    owner.done(decisions.iter().map(decide).collect()).await;
    owner.done(vec![succeed(key_of(&decisions[0]), 1)]).await;
    owner.done(vec![succeed(key_of(&decisions[1]), 1), watermark(1, 20)]).await;
    owner.done(vec![ended(key_of(&decisions[2]), JobState::Deleted, at(50))]).await;
    for decision in &decisions {
        match store.job(job_of(decision)).await.unwrap() {
            Some(JobRecord::Finished { job, .. }) => {
                assert_eq!(job.source, decision.job.as_ref().map(|job| job.source))
            }
            other => panic!("{other:?}"),
        }
    }
}
