//! The tour in the README does what it says.

use std::process::{Command, Stdio};

use crate::harness::{Home, PUNCTUAL};

/// The contents of every ```sh block.
fn shell_blocks(markdown: &str) -> Vec<String> {
    let blocks = markdown.split("```sh\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

#[test]
fn every_command_of_the_readme_succeeds() {
    let blocks = shell_blocks(include_str!("../../../../README.md"));
    assert!(blocks.len() >= 3, "the README has a tour");
    check(blocks);
}

#[test]
fn every_command_about_binaries_succeeds() {
    let blocks = shell_blocks(include_str!("../../../../docs/binaries.md"));
    assert!(!blocks.is_empty(), "the page has an example");
    check(blocks);
}

#[test]
fn every_command_about_schedules_succeeds() {
    let blocks = shell_blocks(include_str!("../../../../docs/schedules.md"));
    assert!(blocks.len() >= 3, "the page has examples");
    check(blocks);
}

#[test]
fn every_command_about_notifications_succeeds() {
    let blocks = shell_blocks(include_str!("../../../../docs/notifications.md"));
    assert!(blocks.len() >= 4, "the page has examples");
    check(blocks);
}

#[test]
fn every_command_about_commands_succeeds() {
    let blocks = shell_blocks(include_str!("../../../../docs/commands.md"));
    assert!(!blocks.is_empty(), "the page has an example");
    check(blocks);
}

fn check(blocks: Vec<String>) {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    // The reader has `punctual` on the path and a server on the usual port.
    std::os::unix::fs::symlink(PUNCTUAL, home.file("punctual")).expect("a link");
    let path = format!("{}:{}", home.path().display(), std::env::var("PATH").unwrap_or_default());
    for block in blocks {
        let script = block.replace("127.0.0.1:8020", &server.address());
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .env("PATH", &path)
            .env("PUNCTUAL_SERVER", &server.url)
            .current_dir(home.path())
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{script}\n--- stdout\n{out}\n--- stderr\n{err}");
    }
}
