//! The program as people and scripts meet it: exit codes, streams and formats, against
//! a fake server that gives canned answers.

mod backfills;
mod errors;
mod fake;
mod fake_backfills;
mod fake_notifications;
mod fake_schedules;
mod formats;
mod import;
mod notify;
mod schedules;
mod terminal;
mod trust;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Knows nothing of the machine that the tests run on.
fn punctual(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args).env_clear().env("HOME", dir).env("TZ", "Asia/Tokyo").current_dir(dir).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    punctual(dir.path(), args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
