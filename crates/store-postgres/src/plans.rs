//! Every query says what it does, and runs on an index in the index's order, whether its plan
//! was made while tables were empty or after they were analyzed.

use std::path::Path;

use punctual_local_postgres::shared;
use punctual_store_tests::check_columns;

use crate::connection::{Class, Conn};
use crate::link::Origin;
use crate::{Options, PostgresStore};

/// Small tables are read through, and so are jobs of the default namespace, up to a limit, and what the catalogue says.
const SCANS: [&str; 19] = [
    "count_jobs_of_default",
    "acquire_shards",
    "take_shards",
    "renew_leases",
    "release_leases",
    "give_up_shards",
    "leases",
    "members",
    "forget_members",
    "drop_duties",
    "partitions",
    "prune_nodes",
    "calendars_revision",
    "insert_namespace",
    "prune_identity_keys",
    "prune_identity_sessions",
    "prune_identity_users",
    "forget_cluster_secret_servers",
    "sealed_key_changes",
];
/// A bounded number of rows is put in order.
const SORTS: [&str; 11] = [
    "tasks_by_id",
    "shard_epochs",
    "take_shards",
    "prune_nodes",
    "prune_idempotency",
    "prune_stale_outcomes_before",
    "prune_schedule_changes",
    "prune_backfills",
    "decide",
    "release",
    "schedules_with_calendars",
];
/// Run without the settings that make plans stay; they set their own.
const MAINTENANCE: [&str; 31] = [
    "prunable_jobs_of_namespace",
    "prunable_early_jobs_of_namespace",
    "sealed_key_changes",
    "prune_workers",
    "prune_namespaces",
    "partitions",
    "prunable_jobs",
    "prunable_early_jobs",
    "prune_history",
    "prune_attempts",
    "prune_logs",
    "prune_stale_outcomes",
    "prune_reruns",
    "prune_job_actions",
    "prune_stale_outcomes_before",
    "prune_idempotency",
    "prune_nodes",
    "prune_tasks",
    "unused_tasks",
    "tasks_of_overdue_jobs",
    "forget_cancel_requests",
    "prune_schedule_changes",
    "prune_deliveries",
    "prune_ailing",
    "prune_backfill_runs",
    "prune_backfills",
    "prune_run_outputs",
    "prune_runs",
    "prune_identity_keys",
    "prune_identity_sessions",
    "prune_identity_users",
];

fn queries() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The plan for whatever parameters.
async fn plan(conn: &Conn, name: &str, text: &str) -> String {
    let count = (1..30).take_while(|number| text.contains(&format!("${number}"))).count();
    let mut args = vec!["NULL"; count];
    if name.starts_with("prunable") {
        // Without a time no partition is looked at.
        args[1] = "9000000000000000000";
    }
    if name.starts_with("occurrences") {
        (args[1], args[2]) = ("0", "9000000000000000000");
    }
    if name == "started_late" {
        (args[5], args[6]) = ("0", "9000000000000000000");
    }
    if name == "release" {
        (args[20], args[21]) = ("0", "9000000000000000000");
    }
    let args = args.join(", ");
    let args = if args.is_empty() { args } else { format!("({args})") };
    conn.run(&format!("DEALLOCATE ALL; PREPARE question AS {text}")).await.unwrap();
    let rows = conn.client.simple_query(&format!("EXPLAIN (COSTS OFF) EXECUTE question{args}")).await.unwrap();
    let lines = rows.iter().filter_map(|row| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn steps(plan: &str) -> impl Iterator<Item = &str> {
    plan.lines().map(|line| line.trim_start().trim_start_matches("->").trim_start())
}

fn uses(plan: &str, step: &str) -> bool {
    steps(plan).any(|line| line.starts_with(step))
}

async fn check_all(conn: &Conn, maintenance: &Conn, when: &str) {
    for (name, text) in queries() {
        let name = name.as_str();
        let conn = if MAINTENANCE.contains(&name) { maintenance } else { conn };
        let plan = plan(conn, name, &text).await;
        let scans = uses(&plan, "Seq Scan");
        assert!(!scans || SCANS.contains(&name), "{name} scans {when}:\n{plan}");
        let sorts = steps(&plan).any(|line| ["Sort", "Incremental Sort"].contains(&line));
        assert!(!sorts || SORTS.contains(&name), "{name} sorts {when}:\n{plan}");
        assert!(!uses(&plan, "Bitmap Heap Scan"), "{name} reads a bitmap {when}:\n{plan}");
        for other in ["Hash Join", "Merge Join"] {
            assert!(!uses(&plan, other) || MAINTENANCE.contains(&name), "{name} has a {other} {when}:\n{plan}");
        }
    }
    for (name, index) in [
        ("load", "job_pkey on job"),
        ("load_urgent", "job_urgent on job"),
        ("job_row", "job_moved"),
        ("settle", "job_pkey on job"),
        ("settle_plain", "job_pkey on job"),
        ("check_waiting", "job_pkey on job"),
        ("requeue", "job_pkey on job"),
        ("list_hot", "job_pkey on job"),
        ("given_back", "job_given_back on job"),
        ("list_hot_backwards", "Backward using job_pkey on job"),
        ("list_moved", "Scan using job_moved on job"),
        ("list_moved_backwards", "Backward using job_moved on job"),
        ("finished_jobs", "_id on history_"),
        ("list_hot_traced", "Scan using job_tracing on job"),
        ("list_hot_traced_backwards", "Backward using job_tracing on job"),
        ("list_finished_traced", "tracing_id_id_idx on history_"),
        ("list_hot_of_namespace", "Scan using job_namespace on job"),
        ("list_hot_of_namespace_backwards", "Backward using job_namespace on job"),
        ("list_finished_of_namespace", "namespace_id_idx on history_"),
        ("list_finished_of_namespace_backwards", "namespace_id_idx on history_"),
        ("namespace_contents", "job_namespace on job"),
        ("count_jobs_of_namespace", "job_namespace on job"),
        ("count_schedules", "schedule_name on schedule"),
        ("artifact_bytes", "artifact_content on artifact"),
        ("log_bytes", "attempt_log_bytes"),
        ("spend", "submission_rate_pkey"),
        ("prunable_jobs_of_namespace", "namespace_id_idx on history_"),
        ("namespaces", "namespace_pkey on namespace"),
        ("prune_namespaces", "namespace_deleted on namespace"),
        ("list_artifacts", "Backward using artifact_namespace on artifact"),
        ("tasks_by_digest", "task_digest_key on task"),
        ("idempotent_answers", "idempotency_pkey on idempotency"),
        ("ailing_of_namespace", "Backward using ailing_namespace on ailing"),
        ("list_finished_of_task", "task_id_idx on history_"),
        ("list_finished_in_state", "state_id_idx on history_"),
        ("list_finished", "_id on history_"),
        ("prunable_early_jobs", "finished_at_id_idx on history_"),
        ("unused_tasks", "task_unlisted"),
        ("unused_tasks", "task_id_idx on history_"),
        ("task_by_name", "task_live_name"),
        ("use_artifact_by_content", "artifact_content"),
        ("pending_artifacts", "artifact_pending"),
        ("expired_artifacts", "artifact_pending"),
        ("unused_artifacts", "artifact_used"),
        ("unused_artifacts", "task_artifact"),
        ("release_tasks", "task_artifact"),
        ("task_of_artifact", "task_artifact"),
        ("list_tasks", "task_live_name"),
        ("kept_logs", "log_pkey on log"),
        ("kept_logs", "_id on history_"),
        ("archive_logs", "log_pkey on log"),
        ("archive_logs", "_id on history_"),
        ("unused_tasks", "schedule_task"),
        ("load_schedules", "schedule_pkey on schedule"),
        ("schedule", "schedule_pkey on schedule"),
        ("list_schedules", "schedule_name on schedule"),
        ("list_schedules_of_task", "schedule_task on schedule"),
        ("schedules_of_task", "schedule_task on schedule"),
        ("schedule_ids", "schedule_name on schedule"),
        ("set_schedules", "schedule_pkey on schedule"),
        ("edit_schedules", "schedule_pkey on schedule"),
        ("drop_schedules", "schedule_pkey on schedule"),
        ("decide", "Arbiter Indexes: occurrence_pkey"),
        ("decide", "hashed SubPlan"),
        ("decide", "schedule_pkey on schedule"),
        ("release", "on occurrence_"),
        ("occurrences", "_pkey on occurrence_"),
        ("occurrences_backwards", "_pkey on occurrence_"),
        ("queued_occurrences", "_shard_schedule_at_idx on occurrence_"),
        ("tracked_jobs", "job_tracked on job"),
        ("schedule_changes", "Backward using schedule_change_pkey"),
        ("prune_schedule_changes", "schedule_change_at"),
        ("schedules_with_calendars", "calendar_use_pkey on calendar_use"),
        ("calendar_users", "calendar_use_name on calendar_use"),
        ("forget_calendars", "calendar_use_schedule on calendar_use"),
        ("sealed_keys", "sealed_key_pkey on sealed_key"),
        ("cluster_secret_servers", "cluster_secret_server_pkey on cluster_secret_server"),
        ("reseal_authority", "authority_pkey on authority"),
        ("secrets", "secret_pkey on secret"),
        ("secrets_by_name", "secret_pkey on secret"),
        ("tasks_with_secret", "secret_use_pkey on secret_use"),
        ("tasks_with_secret", "schedule_task on schedule"),
        ("secret_uses", "secret_use_pkey on secret_use"),
        ("drop_secret_uses", "secret_use_task on secret_use"),
        ("watermarks", "watermark_pkey on watermark"),
        ("waiting_notices", "notice_pkey on notice"),
        ("take_notices", "notice_pkey on notice"),
        ("update_rules", "notification_rule_pkey on notification_rule"),
        ("rules", "notification_rule_pkey on notification_rule"),
        ("authorities", "authority_pkey on authority"),
        ("add_authority", "authority_pkey on authority"),
        ("ailing_of", "ailing_pkey on ailing"),
        ("ailing", "Backward using ailing_last on ailing"),
        ("forget_ailing", "ailing_pkey on ailing"),
        ("prune_ailing", "ailing_last on ailing"),
        ("deliveries", "Backward using delivery_namespace on delivery"),
        ("deliveries_of_rule", "Backward using delivery_rule on delivery"),
        ("prune_deliveries", "delivery_pkey on delivery"),
        ("add_backfill", "backfill_running on backfill"),
        ("running_backfills", "backfill_running on backfill"),
        ("list_backfills", "Backward using backfill_namespace on backfill"),
        ("list_backfills_of_schedule", "Backward using backfill_schedule on backfill"),
        ("end_backfill_runs", "backfill_run_pkey on backfill_run"),
        ("open_runs", "backfill_run_open on backfill_run"),
        ("backfill_runs", "backfill_run_pkey on backfill_run"),
        ("backfilled", "backfill_run_schedule on backfill_run"),
        ("prune_backfill_runs", "backfill_ended on backfill"),
        ("prune_backfills", "backfill_ended on backfill"),
        ("prune_backfills", "on backfill_run"),
        ("workflow_version", "workflow_pkey on workflow"),
        ("newest_workflow", "Backward using workflow_pkey on workflow"),
        ("count_workflows", "workflow_pkey on workflow"),
        ("list_workflows", "workflow_pkey on workflow"),
        ("lock_run", "workflow_run_pkey on workflow_run"),
        ("lock_runs", "workflow_run_pkey on workflow_run"),
        ("write_runs", "workflow_run_pkey on workflow_run"),
        ("runs", "workflow_run_pkey on workflow_run"),
        ("write_runs_foreseen", "workflow_run_pkey on workflow_run"),
        ("list_runs", "Backward using workflow_run_listed on workflow_run"),
        ("list_runs_of_workflow", "Backward using workflow_run_of_workflow on workflow_run"),
        ("due_runs", "workflow_run_wake on workflow_run"),
        ("outputs_of_runs", "workflow_output_pkey on workflow_output"),
        ("maker_of_finished", "_id on history_"),
        ("prune_runs", "workflow_run_ended on workflow_run"),
        ("identity_keys_since", "identity_key_changed on identity_key"),
        ("identity_users_since", "identity_user_changed on identity_user"),
        ("identity_sessions_since", "identity_session_changed on identity_session"),
        ("identity_key_name_taken", "identity_key_name on identity_key"),
        ("identity_user_name_taken", "identity_user_name on identity_user"),
        ("revoke_identity_keys_of_user", "identity_key_owner on identity_key"),
        ("end_identity_sessions_of_user", "identity_session_user on identity_session"),
        ("end_oldest_identity_sessions", "Backward using identity_session_user on identity_session"),
        ("note_identity_key_uses", "identity_key_pkey on identity_key"),
        ("note_identity_session_uses", "identity_session_pkey on identity_session"),
        ("audit_rows", "audit_pkey on audit"),
        ("audit_rows_backwards", "Backward using audit_pkey on audit"),
        ("append_audit", "audit_ends_pkey on audit_ends"),
        ("trim_audit", "audit_pkey on audit"),
        ("join_tokens", "join_token_pkey on join_token"),
        ("join_token", "join_token_pkey on join_token"),
        ("prune_join_tokens", "join_token_expires on join_token"),
        ("enrolment_of_key", "enrolment_key on enrolment"),
        ("enrolments_changed", "enrolment_revision on enrolment"),
        ("renew_enrolment", "enrolment_pkey on enrolment"),
        ("revoke_enrolment", "enrolment_pkey on enrolment"),
        ("prune_enrolments", "enrolment_expires on enrolment"),
    ] {
        let (_, text) = queries().into_iter().find(|(query, _)| query == name).unwrap();
        let conn = if MAINTENANCE.contains(&name) { maintenance } else { conn };
        let plan = plan(conn, name, &text).await;
        assert!(plan.contains(index), "{name} does not use {index} {when}:\n{plan}");
    }
}

/// Statements that read jobs have the columns that their readers name.
async fn check_columns_of_jobs(conn: &Conn) {
    let mut compared = 0;
    for (name, text) in queries() {
        let statement = conn.client.prepare(&text).await.unwrap();
        let columns = statement.columns().iter().map(|column| column.name());
        compared += usize::from(check_columns(&name, &text, columns));
    }
    assert_eq!(compared, 28);
}

const FILL: &str = "
    INSERT INTO task (id, created_at, updated_at, used_until, revision, deleted, name, kind, queue, spec)
    SELECT gen_random_uuid(), 0, 0, 0, 1, n % 2 = 0, 'task ' || n, 'probe', 'default', '{}' FROM generate_series(1, 100) AS n;
    INSERT INTO artifact SELECT gen_random_uuid(), n, n, 0, n, 1 + n % 3, n::text::bytea, NULL, NULL FROM generate_series(1, 1000) AS n;
    INSERT INTO job (id, due_at, submitted_at, task, next_attempt, shard, failures, node_failures, priority, moved)
    SELECT gen_random_uuid(), n, 0, n % 100, 1, n % 4, 0, 0, 0, false FROM generate_series(1, 1000) AS n;
    INSERT INTO history (id, finished_at, submitted_at, task, next_attempt, failures, node_failures, priority, state, early)
    SELECT gen_random_uuid(), low + n, 0, n % 100, 1, 0, 0, 0, 1, false
    FROM generate_series(1, 1000) AS n,
         (SELECT substr(relname, 9)::bigint AS low FROM pg_inherits JOIN pg_class ON oid = inhrelid
          WHERE inhparent = 'history'::regclass ORDER BY 1 LIMIT 1) AS first;
    INSERT INTO schedule (id, task, created_at, changed_at, since, revision, runs, shard, failures, name, spec, created_by, changed_by, calendars)
    SELECT gen_random_uuid(), gen_random_uuid(), 0, 0, 0, 1, 0, n % 4, 0, 'schedule ' || n, '{}', '', '', '[\"holidays\"]' FROM generate_series(1, 1000) AS n;
    INSERT INTO occurrence (schedule, at, decided_at, count, shard, verdict, marks)
    SELECT gen_random_uuid(), low + n, 0, 1, n % 4, 1 + n % 8, 0
    FROM generate_series(1, 1000) AS n,
         (SELECT substr(relname, 12)::bigint AS low FROM pg_inherits JOIN pg_class ON oid = inhrelid
          WHERE inhparent = 'occurrence'::regclass) AS every;
    INSERT INTO schedule_change (schedule, at, kind, who) SELECT gen_random_uuid(), n, 1, '' FROM generate_series(1, 1000) AS n;
    INSERT INTO namespace SELECT n, 1, 0, 0, CASE WHEN n % 2 = 0 THEN n END, 'namespace-' || n, '', '', '{}' FROM generate_series(1, 1000) AS n;
    INSERT INTO sealed_key SELECT 'namespace/' || n, '\\x00', '\\x00' FROM generate_series(1, 100) AS n;
    INSERT INTO secret SELECT n, n, 1, n % 3, 'secret ' || n, '', '', '' FROM generate_series(1, 1000) AS n;
    INSERT INTO secret_use SELECT id, 0, 'secret ' || row_number() OVER (ORDER BY id) % 300 FROM task, generate_series(1, 3);
    INSERT INTO watermark SELECT n, 0 FROM generate_series(0, 3) AS n;
    INSERT INTO calendar SELECT 'calendar ' || n, n, 0, '', '[]' FROM generate_series(1, 100) AS n;
    INSERT INTO calendar_use SELECT 'holidays', id, shard, name FROM schedule;
    INSERT INTO notice (at, count, shard, kind) SELECT n, 1, n % 4, 1 FROM generate_series(1, 1000) AS n;
    INSERT INTO notification_rule SELECT 0, 0, 0, 1, 'rule ' || n, '', '', '{}', NULL FROM generate_series(1, 1000) AS n;
    INSERT INTO ailing SELECT gen_random_uuid(), n, n, 1 FROM generate_series(1, 1000) AS n;
    INSERT INTO delivery SELECT gen_random_uuid(), n, 1, 'rule ' || n % 10, '' FROM generate_series(1, 1000) AS n;
    INSERT INTO backfill SELECT gen_random_uuid(), gen_random_uuid(), 0, 0, NULL, n, 1, 1, 0, 0, 0, 0, 1 + n % 3, '', '{}', '', '', NULL
    FROM generate_series(1, 1000) AS n;
    INSERT INTO backfill_run SELECT id, schedule, gen_random_uuid(), n, CASE WHEN n % 2 = 0 THEN 1 END
    FROM backfill, generate_series(1, 5) AS n;
    INSERT INTO workflow SELECT n % 3, 'workflow ' || n % 100, n, '{}', 0, '' FROM generate_series(1, 1000) AS n;
    INSERT INTO workflow_run SELECT gen_random_uuid(), n % 3, 'workflow ' || n % 100, 1, n, '', NULL, '', 1 + n % 3, '{}',
        CASE WHEN n % 2 = 0 THEN n END, CASE WHEN n % 2 = 1 THEN n END FROM generate_series(1, 1000) AS n;
    INSERT INTO workflow_output SELECT id, n, 0, '' FROM workflow_run, generate_series(1, 3) AS n;
    INSERT INTO attempt SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 0, 0, 0, 1, 1, NULL FROM generate_series(1, 1000);
    INSERT INTO log SELECT gen_random_uuid(), 0, 1, '' FROM generate_series(1, 1000);
    INSERT INTO dropped_log SELECT 'logs/' || n FROM generate_series(1, 1000) AS n;
    INSERT INTO cancel_request SELECT gen_random_uuid() FROM generate_series(1, 1000);
    INSERT INTO stale_outcome SELECT gen_random_uuid(), gen_random_uuid(), n, 1, '' FROM generate_series(1, 1000) AS n;
    INSERT INTO worker SELECT gen_random_uuid(), '', NULL, '', n, n, NULL FROM generate_series(1, 1000) AS n;
    INSERT INTO identity_key SELECT n, n, n % 100, 0, n, n, NULL, CASE WHEN n % 2 = 0 THEN n END, '', 'key ' || n, 'default', '{}', '', ''
    FROM generate_series(1, 1000) AS n;
    INSERT INTO identity_user SELECT n, n, 0, 0, NULL, 1, false, 'user ' || n, NULL, 'viewer', NULL, '', '' FROM generate_series(1, 1000) AS n;
    INSERT INTO identity_session SELECT n, n, n % 100, n, n, n, CASE WHEN n % 2 = 0 THEN n END, '', NULL FROM generate_series(1, 1000) AS n;
    INSERT INTO join_token SELECT gen_random_uuid(), '', '{}', 1, 0, n, '', n, NULL FROM generate_series(1, 1000) AS n;
    INSERT INTO enrolment SELECT gen_random_uuid(), gen_random_uuid(), '', '{}', n::text::bytea, n, n, n, NULL, n
    FROM generate_series(1, 1000) AS n;
    INSERT INTO idempotency SELECT n::text, '', n, '' FROM generate_series(1, 1000) AS n;
    INSERT INTO node (id, used_at) SELECT gen_random_uuid(), 0 FROM generate_series(1, 1000);
    INSERT INTO start_batch SELECT 1, n, gen_random_uuid(), n % 4, '' FROM generate_series(1, 1000) AS n";

#[tokio::test]
async fn every_query_runs_on_an_index_in_its_order() {
    let name = format!("plans_{}", std::process::id());
    shared().drop_database(&name).unwrap();
    let url = shared().create_database(&name).unwrap();
    PostgresStore::connect(Options::new(&url)).await.unwrap().close().await.unwrap();
    let origin = Origin::new(&url).unwrap();
    let conn = origin.open(Class::Owner).await.unwrap();
    let maintenance = origin.open(Class::Maintenance).await.unwrap();
    // As retention does in its transactions.
    let as_retention =
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan";
    maintenance.run(as_retention).await.unwrap();
    check_columns_of_jobs(&conn).await;
    check_all(&conn, &maintenance, "while tables are empty").await;
    conn.run(FILL).await.unwrap();
    check_all(&conn, &maintenance, "when tables have filled").await;
    maintenance.run("ANALYZE").await.unwrap();
    check_all(&conn, &maintenance, "after ANALYZE").await;
    drop((conn, maintenance));
    shared().drop_database(&name).unwrap();
}

#[test]
fn every_query_says_what_it_needs_and_what_it_does_under_concurrency() {
    for (name, text) in queries() {
        for part in ["-- Index: ", "-- Concurrency: "] {
            assert!(text.contains(part), "{name} has no `{part}`");
        }
    }
}
