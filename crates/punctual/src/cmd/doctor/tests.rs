use std::collections::BTreeMap;

use punctual_core::{ServerId, WorkerId};

use super::*;

fn at(secs: i64) -> Timestamp {
    Timestamp::saturating_from_micros(secs * 1_000_000)
}

pub(super) fn worker(state: &str, queue: &str) -> WorkerView {
    WorkerView {
        id: WorkerId::new(at(1), 1),
        name: "w".to_owned(),
        host: None,
        version: "1".to_owned(),
        state: state.to_owned(),
        namespaces: None,
        queues: vec![queue.to_owned()],
        capabilities: Vec::new(),
        labels: BTreeMap::new(),
        slots: 8,
        running: 0,
        servers: Vec::new(),
        last_seen_at: at(1),
        commands_as: None,
    }
}

fn node(store: &str, shards_owned: u16) -> Node {
    Node {
        roles: vec!["scheduler".to_owned()],
        id: ServerId::new(at(1), 1),
        version: "1".to_owned(),
        store: store.to_owned(),
        database_file: None,
        shards_total: 4,
        shards_owned,
        started_at: at(1),
        now: at(1),
        zone_data: None,
    }
}

fn check(found: Check, verdict: Verdict, reason: &str) {
    assert!(found.verdict == verdict && found.reason.contains(reason), "{found:?}");
    assert_eq!(found.fix.is_some(), verdict != Verdict::Pass, "{found:?}");
}

#[test]
fn a_clock_is_wrong_only_if_it_lies_outside_the_time_of_the_call() {
    check(clock(at(10), at(11), at(12)), Verdict::Pass, "within");
    check(clock(at(10), at(13), at(12)), Verdict::Pass, "within 2.0s");
    check(clock(at(10), at(15), at(12)), Verdict::Warn, "differ by 3.0s");
    check(clock(at(10), at(5), at(12)), Verdict::Warn, "differ by 5.0s");
}

#[test]
fn a_store_that_forgets_on_a_power_cut_is_named() {
    check(store(&node("sqlite, synchronous=full", 4), None), Verdict::Pass, "4 of 4");
    check(store(&node("sqlite, synchronous=NORMAL", 4), None), Verdict::Warn, "power cut");
    check(store(&node("sqlite, synchronous=full", 0), None), Verdict::Fail, "0 of 4");
    let postgres = store(&node("postgresql 15.18, synchronous_commit=on, fsync=off", 4), None);
    assert!(postgres.fix.is_some_and(|fix| fix.contains("PostgreSQL")));
}

#[test]
fn a_store_that_does_not_answer_does_not_pass() {
    let postgres = node("postgresql 15.18, synchronous_commit=on", 32);
    let report = |code: &str, message: &str| Report {
        code: code.to_owned(),
        message: message.to_owned(),
        hint: "start it".to_owned(),
        request_id: None,
        exit_code: 7,
    };
    let down = report("database_unavailable", "the database cannot be reached");
    check(
        store(&postgres, Some(&down)),
        Verdict::Fail,
        "postgresql 15.18, synchronous_commit=on: the database cannot be",
    );
    check(ready(Some(&down)), Verdict::Fail, "(database_unavailable)");
    check(store(&postgres, Some(&report("disk_full", "the disk of the database is full"))), Verdict::Fail, "is full");
    // A server that is not ready for a reason of its own has a store that answers.
    let own = report("unavailable", "another server has the same address");
    check(store(&postgres, Some(&own)), Verdict::Pass, "32 of 4 shards");
    check(ready(None), Verdict::Pass, "writes");
}

#[test]
fn jobs_that_nobody_can_run_are_found() {
    check(workers(&[]), Verdict::Fail, "no job can run");
    check(workers(&[worker("draining", "default")]), Verdict::Fail, "none is connected");
    check(workers(&[worker("connected", "default"), worker("silent", "x")]), Verdict::Warn, "1 silent");
    check(workers(&[worker("connected", "default")]), Verdict::Pass, "8 slots");
}

#[test]
fn the_limit_of_open_files_is_read_from_proc() {
    let line = "Limit                     Soft Limit  Hard Limit  Units\nMax open files            ";
    check(open_files(&format!("{line}1024  4096  files\n")), Verdict::Warn, "at most 1024");
    check(open_files(&format!("{line}1048576  1048576  files\n")), Verdict::Pass, "at most 1048576");
    check(open_files(&format!("{line}unlimited  unlimited  files\n")), Verdict::Pass, "unlimited");
    check(open_files(""), Verdict::Warn, "cannot read");
}
