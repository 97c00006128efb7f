//! Commands that no worker should be given.

use serde_json::{Value, json};

use super::{Case, Refused, Taken, check};
use crate::raw::Request;

fn command_with(fields: Value) -> Value {
    let mut command = json!({ "line": "date" });
    for (key, value) in fields.as_object().expect("an object of fields") {
        command[key] = value.clone();
    }
    json!({ "run": { "command": command } })
}

fn environment(name: &str, value: &str) -> Value {
    command_with(json!({ "environment": { name: value } }))
}

fn variables(count: usize) -> Value {
    let variables: serde_json::Map<_, _> = (0..count).map(|n| (format!("V{n}"), json!("v"))).collect();
    command_with(json!({ "environment": variables }))
}

fn put(spec: &Value) -> Request {
    Request::new("PUT", "/v1/tasks/a").json(spec.to_string())
}

#[tokio::test]
async fn commands_that_make_no_sense_are_refused() {
    let with = command_with;
    let cases = [
        ("no line", json!({ "run": { "command": {} } }), "/line: is required"),
        ("a line alone", json!({ "run": { "command": "date" } }), "/run/command"),
        ("an empty line", with(json!({ "line": "" })), "/run/command/line"),
        ("a line of blanks", with(json!({ "line": " \n\t" })), "/run/command/line"),
        ("a line with a NUL", with(json!({ "line": "date\u{0}; rm" })), "/run/command/line"),
        ("a line of more than 32 KiB", with(json!({ "line": "a".repeat((32 << 10) + 1) })), "/run/command/line"),
        ("a list for the line", with(json!({ "line": ["date"] })), "/run/command/line"),
        ("a shell without a path", with(json!({ "shell": "bash" })), "/run/command/shell"),
        ("an empty shell", with(json!({ "shell": "" })), "/run/command/shell"),
        ("a shell with a NUL", with(json!({ "shell": "/bin/sh\u{0}" })), "/run/command/shell"),
        ("a long path of a shell", with(json!({ "shell": format!("/{}", "a".repeat(4095)) })), "/run/command/shell"),
        ("a folder from nowhere", with(json!({ "directory": "../etc" })), "/run/command/directory"),
        ("a folder of the shell's", with(json!({ "directory": "~" })), "/run/command/directory"),
        ("a folder with a line break", with(json!({ "directory": "/tmp\n/etc" })), "/run/command/directory"),
        ("a folder with a NUL", with(json!({ "directory": "/tmp\u{0}" })), "/run/command/directory"),
        ("64 KiB of input and one", with(json!({ "stdin": "a".repeat((64 << 10) + 1) })), "/run/command/stdin"),
        ("an object for the input", with(json!({ "stdin": {} })), "/run/command/stdin"),
        ("101 variables", variables(101), "/run/command/environment"),
        ("a variable without a name", environment("", "a"), "/run/command/environment"),
        ("a variable with an equals sign", environment("A=B", "a"), "/run/command/environment"),
        ("a variable with a dash", environment("A-B", "a"), "/run/command/environment"),
        ("a variable that begins with a digit", environment("1A", "a"), "/run/command/environment"),
        ("a variable with a NUL", environment("A", "a\u{0}b"), "/run/command/environment"),
        ("a variable of ours", environment("PUNCTUAL_JOB_ID", "a"), "/run/command/environment"),
        ("a number for a variable", with(json!({ "environment": { "A": 1 } })), "/run/command/environment/A"),
        ("a grace of 11 minutes", with(json!({ "grace": "11m" })), "/run/command/grace"),
        ("a grace below zero", with(json!({ "grace": "-1s" })), "/run/command/grace"),
        ("a user", with(json!({ "user": "root" })), "/run/command/user"),
        ("two things to run", json!({ "run": { "command": { "line": "a" }, "probe": {} } }), "/run"),
    ];
    let cases =
        cases.iter().map(|(name, spec, field)| Case::new(*name, put(spec), Refused(400, "invalid_request", field)));
    check(cases.collect()).await;
}

#[tokio::test]
async fn odd_commands_that_are_fine_are_taken() {
    let with = command_with;
    let cases = [
        ("the longest line", with(json!({ "line": "a".repeat(32 << 10) }))),
        ("several lines", with(json!({ "line": "set -e\n\tdate\n" }))),
        ("64 KiB of input", with(json!({ "stdin": "a".repeat(64 << 10) }))),
        ("no input", with(json!({ "stdin": "" }))),
        ("100 variables", variables(100)),
        ("an empty variable", environment("_", "")),
        ("no grace", with(json!({ "grace": "0s" }))),
        ("a shell and a folder", with(json!({ "shell": "/bin/bash", "directory": "/srv/über uns" }))),
    ];
    check(cases.iter().map(|(name, spec)| Case::new(*name, put(spec), Taken)).collect()).await;
}
