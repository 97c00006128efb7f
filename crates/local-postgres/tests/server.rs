//! A server can be started, killed, paused, restarted and copied, and goes with its owner.

use std::path::Path;
use std::process::Command;

use punctual_local_postgres::{Postgres, Settings, Stop, shared};

fn one(server: &Postgres) -> String {
    server.execute("SELECT 1").unwrap()
}

#[test]
fn a_server_survives_being_stopped_and_killed_and_goes_when_dropped() {
    let mut server = Settings::test().set("work_mem", "5MB").start().unwrap();
    assert_eq!(server.execute("SHOW work_mem").unwrap(), "5MB");
    let url = server.create_database("jobs").unwrap();
    assert!(url.ends_with("/jobs"), "{url}");
    server.execute_in("jobs", "CREATE TABLE kept AS SELECT 7 AS n").unwrap();
    server.kill().unwrap();
    assert!(server.execute("SELECT 1").is_err() && server.pid().is_none());
    server.start_again().unwrap();
    server.restart().unwrap();
    server.stop(Stop::Immediate).unwrap();
    server.start_again().unwrap();
    assert_eq!(server.execute_in("jobs", "SELECT n FROM kept").unwrap(), "7");
    server.drop_database("jobs").unwrap();
    server.drop_database("jobs").unwrap();
    let pid = server.pid().unwrap();
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_paused_server_answers_when_it_is_resumed() {
    let server = Settings::test().start().unwrap();
    server.pause();
    let (sent, answered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| sent.send(one(&server)).unwrap());
        assert!(answered.recv_timeout(std::time::Duration::from_millis(200)).is_err(), "it stands still");
        server.resume();
        assert_eq!(answered.recv().unwrap(), "1");
    });
}

#[test]
fn a_standby_follows_its_primary_and_can_take_its_place() {
    let mut primary = Settings::test().start().unwrap();
    let standby = Settings::test().standby_of(&primary).unwrap();
    assert_eq!(standby.execute("SELECT pg_is_in_recovery()").unwrap(), "t");
    primary.execute("CREATE TABLE kept AS SELECT 7 AS n").unwrap();
    // A fast stop sends everything to the standby first.
    primary.stop(Stop::Fast).unwrap();
    standby.promote().unwrap();
    assert_eq!(standby.execute("SELECT n FROM kept").unwrap(), "7");
    standby.execute("INSERT INTO kept VALUES (8)").unwrap();
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let error = Settings::test().set("shared_buffers", "many").start().unwrap_err().to_string();
    assert!(error.contains("shared_buffers"), "{error}");
}

const CHILD: &str = "PUNCTUAL_TEST_CHILD";

/// What the next test runs in a process of its own. The server is never dropped.
#[test]
fn child_that_leaves_its_server_behind() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let server = Settings::test().start().unwrap();
    println!("postmaster: {}", server.pid().unwrap());
    std::mem::forget(server);
}

#[test]
fn a_server_ends_with_the_process_that_started_it() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_leaves_its_server_behind", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let pid = said.split("postmaster: ").nth(1).unwrap().split_whitespace().next().unwrap();
    let ended = || !Path::new("/proc").join(pid).exists();
    for _ in 0..1000 {
        if ended() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{pid} lives on");
}

#[test]
fn all_tests_of_a_process_share_one_server() {
    assert_eq!(shared().url(), shared().url());
    assert_eq!(shared().execute("SELECT 1").unwrap(), "1");
}
