//! `punctual migrate`.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::Cluster;
use crate::harness::PUNCTUAL;

fn migrate(cluster: &Cluster, args: &[&str]) -> Command {
    let mut command = Command::new(PUNCTUAL);
    command
        .arg("migrate")
        .args(args)
        .args(["-o", "json"])
        .env("PUNCTUAL_DATABASE", &cluster.database)
        .current_dir(cluster.home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[track_caller]
fn answer(output: Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn states(status: &Value) -> Vec<&str> {
    status["migrations"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|line| line["state"].as_str().expect("a state"))
        .collect()
}

#[test]
fn four_that_migrate_together_do_it_once() {
    let cluster = Cluster::new();
    let before = answer(migrate(&cluster, &["status"]).output().expect("it runs"));
    assert!(states(&before).iter().all(|state| *state == "pending"), "{before}");
    let dry = answer(migrate(&cluster, &["--dry-run"]).output().expect("it runs"));
    assert!(dry["sql"].as_str().is_some_and(|sql| sql.contains("CREATE TABLE")), "{dry}");
    let racers: Vec<_> = (0..4).map(|_| migrate(&cluster, &[]).spawn().expect("it starts")).collect();
    let outputs = racers.into_iter().map(|racer| racer.wait_with_output().expect("it ends"));
    let applied: usize = outputs.map(|output| answer(output)["migrations"].as_array().expect("a list").len()).sum();
    assert_eq!(applied, states(&before).len(), "each migration was applied once");
    let after = answer(migrate(&cluster, &["status"]).output().expect("it runs"));
    assert!(states(&after).iter().all(|state| *state == "applied"), "{after}");
    let dry = answer(migrate(&cluster, &["--dry-run"]).output().expect("it runs"));
    assert_eq!(dry["sql"], "");
}

#[test]
fn a_database_that_is_not_there_is_named_without_its_password() {
    let cluster = Cluster::new();
    let mut command = migrate(&cluster, &["status"]);
    let output = command.env("PUNCTUAL_DATABASE", "postgres://me:s3cret@127.0.0.1:1/p").output().expect("it runs");
    assert_eq!(output.status.code(), Some(7));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("me:***@127.0.0.1:1") && !errors.contains("s3cret"), "{errors}");
}
