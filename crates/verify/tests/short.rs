//! Short forms of `cargo xtask verify exactly-once | load | lists | fleet | floods | faults | disk | schedules | downtime`, against the debug build.
//! The limits on lateness are those of a busy machine; the long runs have the real ones.

use std::path::Path;

use punctual_verify::cluster::Programs;
use punctual_verify::disk;
use punctual_verify::downtime::Downtime;
use punctual_verify::exactly_once::ExactlyOnce;
use punctual_verify::faults::{CELLS, Faults, Timing};
use punctual_verify::fleet::Fleet;
use punctual_verify::floods::Floods;
use punctual_verify::history::RunFolder;
use punctual_verify::lists::Lists;
use punctual_verify::load::Load;
use punctual_verify::schedules::Schedules;

/// Runs that went wrong are kept here.
fn keep() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_job_runs_exactly_once() {
    let run = ExactlyOnce { jobs: 500, workers: 4, seconds: 3, full: false, rounds: 1, postgres: false };
    let folder = RunFolder::fresh(keep(), "exactly-once").unwrap();
    let findings = run.round(1, &folder).await.unwrap();
    assert!(findings.is_good(), "{:?}; see {}", findings.faults, folder.path().display());
    folder.remove().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_do_every_job_once() {
    let run = Load {
        jobs: 2000,
        servers: 3,
        workers: 3,
        seconds: 8,
        full: false,
        rounds: 1,
        embedded: false,
        spike_p99_ms: 3000.0,
        p99_ms: 3000.0,
    };
    let folder = RunFolder::fresh(keep(), "load").unwrap();
    let findings = run.round(1, &folder).await.unwrap();
    assert!(findings.is_good(), "{:?}; see {}", findings.faults, folder.path().display());
    folder.remove().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_are_connected_to_a_few_servers_run_the_jobs_of_all() {
    let run = Fleet { servers: 6, workers: 24, connections: 2, jobs: 10, seconds: 1, rare_within: 20.0, rounds: 1 };
    let folder = RunFolder::fresh(keep(), "fleet").unwrap();
    let findings = run.round(&folder).await.unwrap();
    assert!(findings.is_good(), "{:?}; see {}", findings.faults, folder.path().display());
    folder.remove().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_clients_keep_nobody_out() {
    let run = Floods { seconds: 2, postgres: false, jobs: 1000, only: vec![], rounds: 1, scale: 4, untimed: true };
    let folder = RunFolder::fresh(keep(), "floods").unwrap();
    let findings = run.round(&folder).await.unwrap();
    assert!(findings.is_good(), "{:?}; see {}", findings.faults, folder.path().display());
    folder.remove().unwrap();
}

async fn lists_are_whole(postgres: bool) {
    let run = Lists { pages: 300, postgres, rounds: 1 };
    let folder = RunFolder::fresh(keep(), "lists").unwrap();
    let findings = run.round(1, &folder).await.unwrap();
    assert!(findings.is_good(), "{:?}; see {}", findings.faults, folder.path().display());
    folder.remove().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_every_job_once_while_jobs_change() {
    lists_are_whole(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_every_job_once_with_postgres_too() {
    lists_are_whole(true).await;
}

async fn cell_is_good(name: &str) {
    let report = keep().join("faults.jsonl");
    let faults = Faults {
        cell: Vec::new(),
        rounds: 1,
        quick: false,
        list: false,
        per_second: 30,
        embedded: false,
        tls: false,
        keep_all: false,
        report,
    };
    let cell = CELLS.iter().find(|cell| cell.name == name).expect("there is such a cell");
    let programs = Programs::find().unwrap();
    let report = faults.cell(cell, 1, keep(), Timing::SHORT, &programs).await.unwrap();
    assert_eq!(report.verdict, "good", "{report:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_killed_worker_run_elsewhere() {
    cell_is_good("worker-kill").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shards_of_a_killed_server_are_taken_over() {
    cell_is_good("server-kill-owner").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resets_of_all_connections_break_nothing() {
    cell_is_good("network-resets").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_to_the_embedded_database_is_told() {
    let programs = Programs::find().unwrap();
    for name in ["folder-moved", "pages-damaged", "log-removed"] {
        let cell = disk::CELLS.iter().find(|cell| cell.name == name).expect("there is such a cell");
        let folder = RunFolder::fresh(keep(), "disk").unwrap();
        let findings = cell.run(&folder, &programs).await.unwrap();
        assert!(findings.is_good(), "{name}: {:?}; see {}", findings.faults, folder.path().display());
        folder.remove().unwrap();
    }
}

async fn downtime_is_good(postgres: bool) {
    let run = Downtime { seconds: 12, full: false, postgres, rounds: 1 };
    let folder = RunFolder::fresh(keep(), "downtime").unwrap();
    let findings = run.round(&folder).await.unwrap();
    assert!(findings.is_good(), "{:?}; see {}", findings.faults, folder.path().display());
    folder.remove().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_in_a_downtime_is_made_up_for_as_declared() {
    downtime_is_good(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_is_made_up_for_with_postgres_too() {
    downtime_is_good(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_planned_time_has_one_verdict_whatever_happens_to_servers() {
    let run = Schedules { schedules: 60, servers: 3, workers: 2, seconds: 10, full: false, rounds: 1, seed: 1 };
    let folder = RunFolder::fresh(keep(), "schedules").unwrap();
    let findings = run.round(1, &folder).await.unwrap();
    assert!(findings.is_good(), "{:?}; see {}", findings.faults, folder.path().display());
    folder.remove().unwrap();
}
