//! Every query says what it does and runs on an index in the index's order.

use std::path::Path;

use punctual_store_tests::check_columns;
use rusqlite::Connection;

/// The few rows of `shard`, `member` and `duty` are read through, and so are those artifacts that are pending and
/// the objects that are to be deleted, calendars, rules, namespaces, authorities, keys, people, sessions and those backfills that are running. One reads
/// through the names of schedules, where that is the quickest way, and one through an index up to its limit. What is counted up to a
/// limit is a subquery, which is read through, and so are the jobs that have pieces of logs, once they were found one by one.
const SCANS: [&str; 43] = [
    "running_servers",
    "running_places",
    "drop_running_places",
    "count_jobs_of_default",
    "count_jobs_of_namespace",
    "log_bytes",
    "cluster_secret_servers",
    "namespaces",
    "queues",
    "count_queues",
    "queue_names",
    "count_namespaces",
    "count_rules",
    "authorities",
    "shards_free",
    "renew_leases",
    "release_leases",
    "leases",
    "members",
    "forget_members",
    "drop_duties",
    "duties",
    "expired_artifacts",
    "dropped_logs",
    "calendars",
    "watermarks",
    "rules",
    "ailing",
    "running_backfills",
    "prune_task_files",
    "prune_secret_uses",
    "sealed_keys",
    "raise_epochs",
    "count_running_backfills",
    "count_identity_keys",
    "count_identity_users",
    "count_identity_sessions",
    "prune_identity_keys",
    "prune_identity_users",
    "prune_identity_sessions",
    "join_tokens",
    "insert_join_token",
    "insert_enrolment",
];

fn read(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
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

fn store() -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    for (_, migration) in read("migrations") {
        conn.execute_batch(&migration).unwrap();
    }
    conn
}

fn plan(conn: &Connection, query: &str) -> String {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
    let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3)).map(Result::unwrap);
    steps.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_query_runs_on_an_index_in_its_order() {
    let conn = store();
    for (name, text) in read("queries") {
        let orders: &[&str] = match name.as_str() {
            "list_hot" => &["ORDER BY job.due_at, job.id", "ORDER BY job.due_at DESC, job.id DESC"],
            "list_moved" | "list_hot_traced" | "list_hot_of_namespace" => &["ORDER BY job.id", "ORDER BY job.id DESC"],
            "occurrences" => &["ORDER BY at", "ORDER BY at DESC"],
            list if list.starts_with("list_finished") => &["ORDER BY history.id", "ORDER BY history.id DESC"],
            _ => &[""],
        };
        for order in orders {
            let plan = plan(&conn, &format!("{text}{order}"));
            assert!(!plan.contains("TEMP B-TREE"), "{name} {order} sorts:\n{plan}");
            // A row of values is no table.
            let scans = plan.lines().any(|step| step.starts_with("SCAN") && step != "SCAN CONSTANT ROW");
            assert_eq!(scans, SCANS.contains(&name.as_str()), "{name} {order}:\n{plan}");
        }
    }
}

#[test]
fn queries_that_need_a_partial_index_use_it() {
    let conn = store();
    let queries = read("queries");
    for (name, index) in [
        ("load", "PRIMARY KEY (shard=? AND (due_at,id)>(?,?) AND due_at<?)"),
        ("load_urgent", "job_urgent"),
        ("moved_job", "job_moved"),
        ("list_hot", "PRIMARY KEY (shard=? AND (due_at,id)>(?,?) AND (due_at,id)<(?,?))"),
        ("list_moved", "job_moved (id>? AND id<?)"),
        ("list_hot_traced", "job_tracing (tracing_id=? AND id>? AND id<?)"),
        ("list_finished_traced", "history_tracing (tracing_id=? AND id>? AND id<?)"),
        ("list_hot_of_namespace", "job_namespace (namespace=? AND id>? AND id<?)"),
        ("list_finished_of_namespace", "history_namespace (namespace=? AND id>? AND id<?)"),
        ("namespace_contents", "job_namespace (namespace=?)"),
        ("namespace_contents", "artifact_namespace (namespace=?)"),
        ("log_bytes", "COVERING INDEX history_log_bytes (namespace=?"),
        ("log_bytes", "COVERING INDEX attempt_log_bytes (namespace=?"),
        ("list_artifacts", "artifact_namespace (namespace=? AND id<?)"),
        ("task_by_digest", "task_digest (namespace=? AND digest=?)"),
        ("ailing_of_namespace", "ailing_namespace (namespace=?)"),
        ("list_finished_of_task", "history_task"),
        ("list_finished_in_state", "history_unsuccessful"),
        ("prunable_early_jobs", "history_early"),
        ("unused_tasks", "task_unlisted"),
        ("unused_tasks", "history_task"),
        ("task_by_name", "task_live_name"),
        ("artifact_by_content", "artifact_content"),
        ("pending_artifacts", "artifact_pending"),
        ("expired_artifacts", "artifact_pending"),
        ("unused_artifacts", "artifact_used"),
        ("unused_artifacts", "task_artifact"),
        ("release_tasks", "task_artifact"),
        ("tasks_of_artifact", "task_artifact"),
        ("list_tasks", "task_live_name"),
        ("next_log", "(job,attempt)>(?,?)"),
        ("unused_tasks", "schedule_task"),
        ("queued_occurrences", "occurrence_queued"),
        ("prune_occurrences", "occurrence_decided (at<?)"),
        ("occurrences", "PRIMARY KEY (schedule=? AND at>? AND at<?)"),
        ("release_occurrence", "PRIMARY KEY (schedule=? AND at=?)"),
        ("tracked_jobs", "job_tracked (shard=?)"),
        ("load_schedules", "PRIMARY KEY (shard=? AND id>?)"),
        ("list_schedules", "schedule_name (namespace=? AND name>?)"),
        ("list_paused_schedules", "schedule_paused (namespace=? AND name>?)"),
        ("list_schedules_of_task", "schedule_task (task=?)"),
        ("schedules_of_task", "schedule_task (task=?)"),
        ("first_schedules_of_task", "schedule_name (namespace=?)"),
        ("schedule_id", "COVERING INDEX schedule_name (namespace=? AND name=?)"),
        ("schedule_changes", "schedule_change_of (schedule=?)"),
        ("prune_schedule_changes", "schedule_change_at (at<?)"),
        ("schedules_with_calendar", "PRIMARY KEY (namespace=? AND calendar=? AND schedule>?)"),
        ("calendar_users", "calendar_use_name (namespace=? AND calendar=?)"),
        ("late_outcomes_of_job", "PRIMARY KEY (job=?)"),
        ("worker_by_id", "PRIMARY KEY (id=?)"),
        ("workers_since", "worker_last_seen (last_seen_at>?)"),
        ("prune_workers", "worker_last_seen (last_seen_at<?)"),
        ("waiting_notices", "INTEGER PRIMARY KEY (rowid>?)"),
        ("ailing", "SCAN ailing USING INDEX ailing_last"),
        ("prune_ailing", "ailing_last (last<?)"),
        ("deliveries", "delivery_namespace (namespace=? AND (at,job)<(?,?))"),
        ("deliveries_of_rule", "delivery_rule (namespace=? AND rule=? AND (at,job)<(?,?))"),
        ("prune_deliveries", "PRIMARY KEY (at<?)"),
        ("running_backfills", "backfill_running"),
        ("count_running_backfills", "backfill_running"),
        ("list_backfills", "backfill_namespace (namespace=? AND id<?)"),
        ("list_backfills_of_schedule", "backfill_schedule (schedule=? AND id<?)"),
        ("open_backfill_runs", "backfill_run_open (backfill=?)"),
        ("backfill_runs", "PRIMARY KEY (backfill=? AND at>?)"),
        ("backfilled", "backfill_run_time (schedule=? AND at>? AND at<?)"),
        ("prune_backfill_runs", "backfill_ended (ended_at<?)"),
        ("prune_backfill_runs", "SEARCH run USING PRIMARY KEY (backfill=?)"),
        ("prune_backfills", "backfill_ended (ended_at<?)"),
        ("forget_calendar_uses", "calendar_use_schedule (schedule=?)"),
        ("identity_keys_since", "identity_key_changed (changed>?)"),
        ("identity_users_since", "identity_user_changed (changed>?)"),
        ("identity_sessions_since", "identity_session_changed (changed>?)"),
        ("identity_key_name_taken", "identity_key_name (namespace=? AND name=?)"),
        ("identity_user_name_taken", "identity_user_name (name=?)"),
        ("revoke_identity_keys_of_user", "identity_key_owner (owner=?)"),
        ("end_identity_sessions_of_user", "identity_session_user (user_id=?)"),
        ("end_oldest_identity_sessions", "identity_session_user (user_id=?)"),
    ] {
        let (_, text) = queries.iter().find(|(query, _)| query == name).unwrap();
        let plan = plan(&conn, text);
        assert!(plan.contains(index), "{name} does not use {index}:\n{plan}");
    }
}

#[test]
fn every_query_says_what_it_needs_and_what_it_does_under_concurrency() {
    for (name, text) in read("queries") {
        for part in ["-- Index: ", "-- Concurrency: "] {
            assert!(text.contains(part), "{name} has no `{part}`");
        }
    }
}

#[test]
fn statements_that_read_jobs_have_the_columns_that_their_readers_name() {
    let conn = store();
    let compared = read("queries").into_iter().filter(|(name, text)| {
        let statement = conn.prepare(text).unwrap();
        check_columns(name, text, statement.column_names())
    });
    assert_eq!(compared.count(), 17);
}
