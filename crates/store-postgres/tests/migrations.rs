//! The schema is made once, by whoever comes first, and is refused if it is not the one we know.

mod common;

use common::Database;
use futures_util::future::join_all;
use punctual_core::notice::NoticeKind;
use punctual_core::{NamespaceId, ShardId, hex};
use punctual_store::{
    CLUSTER_SECRET, ClusterSecret, FoundRow, IdempotencyKey, JobReads, JobRecord, Leases, MigrationState, Namespaces,
    Notices, RootKeyId, Schedules, SealedKey, Secrets, Store, StoreError, Submit, Submitted, Tasks, Transitions,
};
use punctual_store_postgres::{Migrate, Options, PostgresStore, migrate, migrations, pending_sql};
use punctual_store_tests::fixture::{Owner, at, named_task, new_job, original, server, succeed, task_id, worker};
use punctual_store_tests::report_fixture::{notice, tell, waiting, with_backfill, with_rule};
use punctual_store_tests::schedule_fixture::watermark;

const KNOWN: [(u32, &str); 34] = [
    (1, "first"),
    (2, "artifacts"),
    (3, "details"),
    (4, "log_archive"),
    (5, "reruns"),
    (6, "schedules"),
    (7, "notices"),
    (8, "give_backs"),
    (9, "late_starts"),
    (10, "attempt_due"),
    (11, "zone_data"),
    (12, "workers"),
    (13, "log_marks"),
    (14, "last_success"),
    (15, "files"),
    (16, "tracing"),
    (17, "authority"),
    (18, "enrolments"),
    (19, "identities"),
    (20, "audit"),
    (21, "secrets"),
    (22, "namespaces"),
    (23, "namespace_roles"),
    (24, "openid"),
    (25, "requesters"),
    (26, "workflows"),
    (27, "quotas"),
    (28, "running_places"),
    (29, "cluster_secret"),
    (30, "log_bytes"),
    (31, "run_steps"),
    (32, "queues"),
    (33, "run_bytes"),
    (34, "batches"),
];

fn refusal(result: Result<PostgresStore, StoreError>) -> StoreError {
    match result {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn the_plain_secret_of_earlier_versions_goes_when_it_is_sealed() {
    let database = Database::new();
    let store = database.store().await;
    assert_eq!(store.plain_cluster_secret().await.unwrap(), None);
    database.execute(&format!("INSERT INTO meta (key, value) VALUES ('cluster_secret', '{}')", "0a".repeat(32)));
    assert_eq!(store.plain_cluster_secret().await.unwrap(), Some(ClusterSecret([10; 32])));
    let key = |n| SealedKey { label: CLUSTER_SECRET.to_owned(), root_key: RootKeyId([n; 8]), sealed: vec![n; 72] };
    let kept = join_all((1..5).map(|n| store.keep_sealed_key(key(n)))).await;
    let kept: Vec<SealedKey> = kept.into_iter().map(Result::unwrap).collect();
    assert_eq!(store.sealed_keys().await.unwrap(), [kept[0].clone()]);
    assert!(kept.iter().all(|other| *other == kept[0]), "{kept:?}");
    assert_eq!(store.plain_cluster_secret().await.unwrap(), None);
}

#[tokio::test]
async fn servers_that_start_together_make_one_schema() {
    let database = Database::new();
    // They collide now here, now there.
    for _ in 0..5 {
        database.empty();
        let stores = join_all((0..8).map(|_| PostgresStore::connect(database.options()))).await;
        for store in stores {
            assert_eq!(store.unwrap().shard_count(), 4);
        }
    }
    let known = migrations(&database.url).await.unwrap().len();
    assert_eq!(database.execute("SELECT count(*) FROM migration"), known.to_string());
    assert_eq!(database.execute("SELECT count(*) FROM shard"), "4");
    for table in ["history", "occurrence"] {
        let partitions = format!("SELECT count(*) FROM pg_inherits WHERE inhparent = '{table}'::regclass");
        assert_eq!(database.execute(&partitions), "2", "the one for now and the next of {table}");
    }
}

#[tokio::test]
async fn migrations_are_shown_before_and_after() {
    let database = Database::new();
    let states = async || {
        let known = migrations(&database.url).await.unwrap();
        known.into_iter().map(|known| (known.version, known.name, known.state)).collect::<Vec<_>>()
    };
    assert_eq!(states().await, KNOWN.map(|(version, name)| (version, name.to_owned(), MigrationState::Pending)));
    assert!(pending_sql(&database.url).await.unwrap().contains("CREATE TABLE job ("));
    assert_eq!(database.execute("SELECT count(*) FROM pg_class WHERE relname IN ('migration', 'job')"), "0");
    let only_check = Options { migrate: Migrate::Check, ..database.options() };
    let error = refusal(PostgresStore::connect(only_check.clone()).await);
    assert!(matches!(&error, StoreError::Schema(text) if text.contains("migration 1 (first) is missing")), "{error:?}");
    migrate(&database.url).await.unwrap();
    migrate(&database.url).await.unwrap();
    assert!(states().await.iter().all(|(_, _, state)| matches!(state, MigrationState::Applied { .. })));
    assert_eq!(pending_sql(&database.url).await.unwrap(), "");
    PostgresStore::connect(only_check).await.unwrap();
}

#[tokio::test]
async fn a_changed_migration_is_refused() {
    let database = Database::new();
    database.store().await;
    database.execute("UPDATE migration SET checksum = '\\x00'");
    for how in [Migrate::Apply, Migrate::Check] {
        let error = refusal(PostgresStore::connect(Options { migrate: how, ..database.options() }).await);
        assert!(matches!(&error, StoreError::Schema(text) if text.contains("migration 1 (first) is not")), "{error:?}");
    }
}

#[tokio::test]
async fn a_schema_of_a_newer_program_is_refused() {
    let database = Database::new();
    database.store().await;
    database.execute("INSERT INTO migration VALUES (99, 'later', '\\x00', 0)");
    for how in [Migrate::Apply, Migrate::Check] {
        let error = refusal(PostgresStore::connect(Options { migrate: how, ..database.options() }).await);
        assert!(matches!(&error, StoreError::Schema(text) if text.contains("use the newer program")), "{error:?}");
    }
    let last = migrations(&database.url).await.unwrap().pop().unwrap();
    assert_eq!((last.version, last.name.as_str()), (99, "later"));
    assert!(matches!(last.state, MigrationState::Unknown { .. }));
}

#[tokio::test]
async fn tables_of_another_program_are_left_alone() {
    let database = Database::new();
    database.execute("CREATE TABLE job (theirs text)");
    let error = refusal(PostgresStore::connect(database.options()).await);
    assert!(matches!(&error, StoreError::Schema(text) if text.contains("a search_path of its own")), "{error:?}");
    assert_eq!(database.execute("SELECT count(*) FROM pg_class WHERE relname IN ('meta', 'shard')"), "0");
}

#[tokio::test]
async fn a_user_without_special_rights_is_enough() {
    let database = Database::new();
    let role = format!("plain_{}", std::process::id());
    database.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'plain'; CREATE SCHEMA {role} AUTHORIZATION {role}"));
    let url = database.url_as(&role, "plain");
    let store = PostgresStore::connect(Options::new(&url)).await.unwrap();
    let owned = store.acquire(punctual_store_tests::fixture::server(1), punctual_core::Span::from_secs(9), 3).await;
    // All that tells one instance of the database from another can be asked for.
    let fingerprint = database.execute(&format!("SELECT value FROM {role}.meta WHERE key = 'fingerprint'"));
    for mark in ["system=", "timeline=", "started="] {
        assert!(fingerprint.contains(mark), "{fingerprint}");
    }
    store.close().await.unwrap();
    database.execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
    let owned = owned.unwrap();
    assert_eq!(owned.len(), 3);
    assert!(owned[0].epoch.0 > 1 << 40, "epochs begin with the generation: {owned:?}");
}

#[tokio::test]
async fn the_number_of_shards_stays_as_it_was_made() {
    let database = Database::new();
    let with = async |shard_count| PostgresStore::connect(Options { shard_count, ..database.options() }).await;
    assert_eq!(with(3).await.unwrap().shard_count(), 3);
    assert_eq!(with(64).await.unwrap().shard_count(), 3);
    for wrong in [0, ShardId::COUNT_MAX + 1] {
        assert!(matches!(with(wrong).await, Err(StoreError::Inconsistent(_))));
    }
}

#[tokio::test]
async fn the_description_says_how_it_writes() {
    let database = Database::new();
    let text = database.store().await.description();
    let version = database.execute("SELECT split_part(current_setting('server_version'), ' ', 1)");
    assert_eq!(text, format!("postgresql {version}, synchronous_commit=on, fsync=off"));
}

/// Run with UPDATE_SCHEMA=1 after adding a migration, and review the difference.
#[tokio::test]
async fn the_schema_is_the_one_in_schema_sql() {
    let database = Database::new();
    migrate(&database.url).await.unwrap();
    let schema = database.execute(
        "SELECT 'TABLE ' || relname || coalesce(' WITH (' || array_to_string(reloptions, ', ') || ')', '')
                || coalesce(' PARTITION BY ' || pg_get_partkeydef(pg_class.oid), '') || E'\\n'
                || (SELECT string_agg('    ' || attname || ' ' || format_type(atttypid, atttypmod)
                                      || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
                                      || CASE WHEN attstorage <> typstorage THEN ' STORAGE ' || attstorage::text ELSE '' END
                                      || CASE WHEN collname = 'C' THEN ' COLLATE C' ELSE '' END,
                                      E'\\n' ORDER BY attnum)
                    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
                    LEFT JOIN pg_collation ON pg_collation.oid = attcollation
                    WHERE attrelid = pg_class.oid AND attnum > 0)
                || coalesce((SELECT string_agg(E'\\n' || indexdef, '' ORDER BY indexname)
                             FROM pg_indexes WHERE tablename = relname), '') || E'\\n'
         FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname",
    );
    let schema = format!("{schema}\n");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.sql");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &schema).unwrap();
    }
    assert_eq!(schema, std::fs::read_to_string(path).unwrap_or_default());
}

/// As a program left it that knew so many migrations.
fn migrate_up_to(database: &Database, newest: usize) {
    database.execute(
        "CREATE TABLE migration (version integer PRIMARY KEY, name text NOT NULL, checksum bytea NOT NULL,
                                 applied_at bigint NOT NULL)",
    );
    for (version, name) in KNOWN.into_iter().take(newest) {
        let path = format!("{}/migrations/{version:04}_{name}.sql", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        database.execute(&text);
        database.execute(&format!(
            "INSERT INTO migration VALUES ({version}, '{name}', sha256(convert_to($text${text}$text$, 'UTF8')), 0)"
        ));
    }
}

#[tokio::test]
async fn a_store_from_before_notices_gets_them_with_rules_and_backfills() {
    let database = Database::new();
    migrate_up_to(&database, 6);
    let store = database.store().await;
    let mut owner = Owner::new(&store, 1).await;
    let late = notice(NoticeKind::Late, 1, 0);
    owner.done(vec![tell(&late)]).await;
    assert_eq!(waiting(&store).await, [late]);
    with_rule(&store, "ops").await;
    with_backfill(&store, 1).await;
}

#[tokio::test]
async fn attempts_from_before_their_due_times_were_kept_show_the_first_one() {
    let database = Database::new();
    migrate_up_to(&database, 7);
    let job = new_job(1, 10, 0);
    let uuid = |id: [u8; 16]| hex::encode(id);
    database.execute(&format!(
        "INSERT INTO task (id, created_at, updated_at, used_until, revision, deleted, kind, queue, spec)
         VALUES ('{}', 0, 0, 0, 1, false, 'probe', 'default', '{{}}');
         INSERT INTO job (id, due_at, submitted_at, task, next_attempt, shard, failures, node_failures, priority, moved)
         VALUES ('{job}', {}, 0, 1, 2, 0, 1, 0, 0, true);
         INSERT INTO attempt (job, worker, server, picked_up_at, started_at, finished_at, attempt, ending)
         VALUES ('{job}', '{}', '{}', 0, 0, 0, 1, 2)",
        uuid(task_id(1).to_bytes()),
        at(60).as_micros(),
        uuid(worker(1).to_bytes()),
        uuid(server(1).to_bytes()),
        job = uuid(job.id.to_bytes()),
    ));
    let record = database.store().await.job(job.id).await.unwrap();
    let Some(JobRecord::Hot { job, attempts, .. }) = record else { panic!("{record:?}") };
    assert_eq!((job.key.due_at, attempts[0].due_at), (at(60), at(10)));
}

#[tokio::test]
async fn what_was_there_before_namespaces_is_in_the_default_one() {
    let database = Database::new();
    migrate_up_to(&database, 21);
    let (task, job) = (hex::encode(task_id(1).to_bytes()), new_job(1, 10, 0));
    let spec = serde_json::to_string(&named_task(1, "report").spec).unwrap();
    database.execute(&format!(
        "INSERT INTO task (id, created_at, updated_at, used_until, revision, deleted, name, kind, queue, spec)
         VALUES ('{task}', 0, 0, 0, 1, false, 'report', 'probe', 'default', '{spec}');
         INSERT INTO job (id, due_at, submitted_at, task, next_attempt, shard, failures, node_failures, priority, moved)
         VALUES ('{}', {}, 0, 1, 1, 0, 0, 0, 0, false);
         INSERT INTO secret (created_at, changed_at, revision, namespace, name, created_by, changed_by, sealed)
         VALUES (0, 0, 2, 'default', 'token', 'ada', 'ada', '\\x10');
         INSERT INTO secret_use VALUES ('{task}', 'default', 'token');
         INSERT INTO calendar VALUES ('holidays', 1, 0, 'ada', '[]');
         INSERT INTO notification_rule VALUES (0, 0, 0, 1, 'ops', 'ada', 'ada', '{{}}', NULL);
         INSERT INTO idempotency VALUES ('k', repeat('a', 32)::bytea, 9000000000000000, 'answer')",
        hex::encode(job.id.to_bytes()),
        at(10).as_micros(),
    ));
    let store = database.store().await;
    let default = NamespaceId::DEFAULT;
    assert_eq!(store.task_by_name(default, "report").await.unwrap().map(|task| task.namespace), Some(default));
    let record = store.job(job.id).await.unwrap();
    assert!(matches!(&record, Some(JobRecord::Hot { job, .. }) if job.namespace == default), "{record:?}");
    assert_eq!(store.secrets(default).await.unwrap().len(), 1);
    assert_eq!(store.secret_uses(default).await.unwrap(), [("token".to_owned(), 1)]);
    assert_eq!(store.calendars(Some(default)).await.unwrap().len(), 1);
    assert_eq!(store.rules(Some(default)).await.unwrap().len(), 1);
    let key = IdempotencyKey { namespace: default, key: "k".to_owned() };
    let answer = store.idempotent_answer(key, *b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", at(0)).await.unwrap();
    assert_eq!(answer, Some(Submitted::Replayed { answer: "answer".into() }));
    assert_eq!(store.namespaces().await.unwrap().rows.len(), 1);
}

/// As the program before schedules left it, with a waiting job, and a finished one in a partition.
#[tokio::test]
async fn a_store_from_before_schedules_gets_them_and_keeps_its_jobs() {
    let database = Database::new();
    migrate_up_to(&database, 5);
    let (waiting, finished) = (new_job(1, 10, 0), new_job(2, 10, 0));
    let uuid = |id: [u8; 16]| hex::encode(id);
    let (day, due_at) = (at(0).as_micros(), at(10).as_micros());
    database.execute(&format!(
        "INSERT INTO task (id, created_at, updated_at, used_until, revision, deleted, kind, queue, spec)
         VALUES ('{}', 0, 0, {due_at}, 1, false, 'probe', 'default', '{{}}');
         INSERT INTO job (id, due_at, submitted_at, task, next_attempt, shard, failures, node_failures, priority, moved)
         VALUES ('{}', {due_at}, 0, 1, 1, 0, 0, 0, 0, false);
         CREATE TABLE history_{day} (LIKE history INCLUDING DEFAULTS INCLUDING STORAGE);
         CREATE UNIQUE INDEX history_{day}_id ON history_{day} (id);
         ALTER TABLE history ATTACH PARTITION history_{day} FOR VALUES FROM ({day}) TO ({});
         INSERT INTO history (id, finished_at, submitted_at, task, next_attempt, failures, node_failures, priority, state, early)
         VALUES ('{}', {day}, 0, 1, 2, 0, 0, 0, 1, false)",
        uuid(task_id(1).to_bytes()),
        uuid(waiting.id.to_bytes()),
        day + 86_400_000_000,
        uuid(finished.id.to_bytes())
    ));
    let store = database.store().await;
    assert!(matches!(store.find(waiting.id).await.unwrap(), FoundRow::Hot(row) if row.source.is_none()));
    assert!(
        matches!(store.job(finished.id).await.unwrap(), Some(JobRecord::Finished { job, .. }) if job.source.is_none())
    );
    let mut owner = Owner::new(&store, 1).await;
    owner.done(vec![succeed(original(&waiting), 1), watermark(0, 20)]).await;
    assert_eq!(store.shard_schedules(ShardId(0)).await.unwrap().watermark, at(20));
    assert_eq!(store.calendars_revision().await.unwrap(), 0);
}
