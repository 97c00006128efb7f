//! History comes in partitions that are there before they are needed and go as a whole.

mod common;

use common::Database;
use punctual_core::shard::write::{JobWrite, ResolveLost, Void, Write};
use punctual_core::{AttemptNo, JobState, Span, Timestamp};
use punctual_store::{
    Applied, Filter, FoundRow, JobReads, JobRecord, LogArchive, LogChunk, Logs, NewJob, Order, Retention, Transitions,
};
use punctual_store_postgres::{Options, PostgresStore};
use punctual_store_tests::fixture::*;

const HOUR: i64 = 3600;

async fn store(database: &Database) -> PostgresStore {
    let options = Options { history_step: Span::from_secs(HOUR), ..database.options() };
    PostgresStore::connect(options).await.unwrap()
}

fn partitions(database: &Database) -> Vec<i64> {
    let text = database.execute(
        "SELECT substr(child.relname, 9) FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
         WHERE inhparent = 'history'::regclass ORDER BY 1",
    );
    text.lines().map(|micros| (micros.parse::<i64>().unwrap() - at(0).as_micros()) / 1_000_000 / HOUR).collect()
}

fn ended_at(job: &NewJob, finished_at: Timestamp) -> Write {
    ended(original(job), JobState::Deleted, finished_at)
}

#[tokio::test]
async fn a_partition_is_made_when_a_row_needs_it_and_the_next_one_ahead() {
    let database = Database::new();
    let store = store(&database).await;
    assert_eq!(partitions(&database), [0, 1]);
    let jobs: Vec<_> = (0..3).map(|n| new_job(n, 10, 0)).collect();
    let mut owner = owner_of(&store, &jobs).await;
    owner.done(vec![ended_at(&jobs[0], at(1)), ended_at(&jobs[1], at(5 * HOUR))]).await;
    for _ in 0..200 {
        if partitions(&database) == [0, 1, 5, 6] {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(partitions(&database), [0, 1, 5, 6]);
    // One that somebody dropped behind our back is made again.
    database.execute(&format!("DROP TABLE history_{}", at(HOUR).as_micros()));
    owner.done(vec![ended_at(&jobs[2], at(HOUR + 1))]).await;
    let page = finished_page(&store, Filter::default(), first_page(Order::Ascending, 10)).await;
    assert_eq!(page.rows.len(), 3);
}

#[tokio::test]
async fn a_late_result_may_move_a_job_to_another_partition() {
    let database = Database::new();
    let store = store(&database).await;
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(&store, std::slice::from_ref(&job)).await;
    let lost = settled(original(&job), 1, JobState::Lost, punctual_core::attempt::Ending::WorkerLost);
    owner.done(vec![Write::Job(JobWrite::Settle(lost))]).await;
    let resolve = ResolveLost {
        id: job.id,
        attempt: AttemptNo(1),
        state: JobState::Succeeded,
        finished_at: at(30 * HOUR),
        reason: None,
        output: Some(text("late")),
        details: Some(Box::new(details())),
        notice: None,
    };
    owner.done(vec![Write::Job(JobWrite::ResolveLost(resolve))]).await;
    assert_eq!(store.prune(at(29 * HOUR), at(0), 10).await.unwrap(), 0);
    assert!(matches!(store.find(job.id).await.unwrap(), FoundRow::Finished { state: JobState::Succeeded, .. }));
    // Its worker and server are still known, and what else is known came along.
    match store.job(job.id).await.unwrap() {
        Some(JobRecord::Finished { attempts, .. }) => assert_eq!(attempts[0].details.as_deref(), Some(&details())),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn empty_partitions_go_when_all_they_could_hold_is_old() {
    let database = Database::new();
    let store = store(&database).await;
    let jobs: Vec<_> = (0..6).map(|n| new_job(n, 10, 0)).collect();
    let mut owner = owner_of(&store, &jobs).await;
    let finished = |n: usize| at(n as i64 * HOUR + 10);
    owner.done(jobs.iter().enumerate().map(|(n, job)| ended_at(job, finished(n))).collect()).await;
    assert_eq!(store.prune(at(3 * HOUR + 5), at(0), 2).await.unwrap(), 2);
    assert_eq!(partitions(&database)[0], 0, "at the limit there is no time for more");
    assert_eq!(store.prune(at(3 * HOUR + 5), at(0), 2).await.unwrap(), 1);
    assert_eq!(partitions(&database)[0], 3, "its hour is not over");
    for (n, job) in jobs.iter().enumerate() {
        assert_eq!(store.find(job.id).await.unwrap() == FoundRow::Absent, n < 3);
    }
    // A row for a time that was dropped gets its partition back.
    let late = new_job(50, 10, 0);
    submit(&store, vec![late.clone()]).await.unwrap();
    assert_eq!(owner.apply(vec![ended_at(&late, at(2))]).await.unwrap(), Applied::done(Void::default()));
    assert_eq!(partitions(&database)[0], 0);
}

#[tokio::test]
async fn a_large_partition_is_dropped_whole_with_all_that_belongs_to_its_jobs() {
    let database = Database::new();
    let store = store(&database).await;
    let (old, young) = (new_job(1, 10, 0), new_job(2, 10, 0));
    let mut owner = owner_of(&store, &[old.clone(), young.clone()]).await;
    for job in [&old, &young] {
        owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(job), 1, at(20))))]).await;
        let log = LogChunk { job: job.id, attempt: AttemptNo(1), offset: 0, bytes: text("log"), marks: text("") };
        store.append_logs(vec![log]).await.unwrap();
    }
    let moved = |job: &NewJob| punctual_core::JobKey { due_at: at(20), id: job.id };
    let end = |job, at| match ended(moved(job), JobState::Failed, at) {
        Write::Job(JobWrite::Settle(settle)) => {
            Write::Job(JobWrite::Settle(punctual_core::shard::write::Settle { counters: counters(2, 1, 0), ..settle }))
        }
        other => other,
    };
    owner.done(vec![end(&old, at(30)), end(&young, at(HOUR + 30))]).await;
    database.execute("UPDATE attempt SET log_path = 'logs/' || job, log_bytes = 3");
    // More rows than are removed one by one.
    database.execute(&format!(
        "INSERT INTO history (id, finished_at, submitted_at, task, next_attempt, failures, node_failures, priority, state, early)
         SELECT gen_random_uuid(), {}, 0, 1, 1, 0, 0, 0, 1, false FROM generate_series(1, 60000)",
        at(40).as_micros()
    ));
    let removed = store.prune(at(HOUR), at(0), 10).await.unwrap();
    assert!(removed >= 10, "there may be more: {removed}");
    assert_eq!(store.prune(at(HOUR), at(0), 10).await.unwrap(), 0);
    assert_eq!(partitions(&database)[0], 1);
    assert_eq!(store.job(old.id).await.unwrap(), None);
    assert!(store.job(young.id).await.unwrap().is_some());
    for table in ["attempt", "log"] {
        assert_eq!(database.execute(&format!("SELECT count(*) FROM {table}")), "1", "{table}");
    }
    let path = database.execute("SELECT 'logs/' || job FROM attempt");
    let dropped = store.dropped_logs(10).await.unwrap();
    assert!(dropped.len() == 1 && dropped[0] != path, "that of the old one: {dropped:?}");
}

#[tokio::test]
async fn a_step_that_was_changed_does_not_overlap_what_is_there() {
    let database = Database::new();
    let first = store(&database).await;
    first.close().await.unwrap();
    let store =
        PostgresStore::connect(Options { history_step: Span::from_secs(24 * HOUR), ..database.options() }).await;
    let store = store.unwrap();
    let jobs: Vec<_> = (0..3).map(|n| new_job(n, 10, 0)).collect();
    let mut owner = owner_of(&store, &jobs).await;
    let ends = [at(HOUR / 2), at(3 * HOUR), at(30 * HOUR)];
    owner.done(jobs.iter().zip(ends).map(|(job, end)| ended_at(job, end)).collect()).await;
    let page = finished_page(&store, Filter::default(), first_page(Order::Descending, 10)).await;
    assert_eq!(page.rows.len(), 3);
}
