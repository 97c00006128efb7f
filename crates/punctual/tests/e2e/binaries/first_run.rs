//! One command from a file to its output and its exit code.

use std::path::Path;
use std::process::{Command, Output};

use super::{compile_c, compile_rust, run, text};
use crate::harness::{Home, PUNCTUAL, Server};

fn punctual(home: &Home, server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new(PUNCTUAL);
    command.args(["--server", &server.url]).args(arguments).current_dir(home.path());
    command.output().expect("the program starts")
}

const HELLO: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    char line[256] = "";
    fgets(line, sizeof line, stdin);
    printf("args %d %s, input %s, attempt %s\n", argc, argc > 1 ? argv[1] : "-", line, getenv("PUNCTUAL_ATTEMPT"));
    fprintf(stderr, "key is job: %d, home of the worker: %s\n",
            strcmp(getenv("PUNCTUAL_JOB_ID"), getenv("PUNCTUAL_IDEMPOTENCY_KEY")) == 0,
            getenv("PATH") ? "seen" : "not seen");
    FILE *out = fopen(getenv("PUNCTUAL_OUTPUT"), "w");
    fprintf(out, "{\"done\":true}");
    fclose(out);
    return 0;
}
"#;

#[test]
fn a_c_program_runs_with_one_command() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let hello = compile_c(&home, "hello", HELLO);
    let output = run(&home, &server, &hello, &["--input", "{\"n\":1}", "--", "first", "second"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("args 3 first, input {\"n\":1}, attempt 1"), "{out}{err}");
    assert!(out.contains("key is job: 1, home of the worker: not seen"), "{out}");
    assert!(err.contains("Uploaded "), "{err}");
    // The server has it now.
    let again = run(&home, &server, &hello, &[]);
    let err = text(&again.stderr);
    assert!(again.status.success() && !err.contains("Uploaded "), "{err}");
}

/// Without the file in the storage there is nothing to download, so whoever runs it has it.
#[test]
fn the_second_use_of_a_file_makes_no_download() {
    let home = Home::new();
    let server = home.server();
    let worker = home.worker(&server, &[]);
    let hello = compile_c(&home, "hello", HELLO);
    let output = run(&home, &server, &hello, &["--retries", "0"]);
    assert!(output.status.success(), "the first time: {}", text(&output.stderr));
    let storage = home.file("data/storage/artifacts");
    let stored: Vec<_> = std::fs::read_dir(&storage).unwrap().map(|file| file.unwrap().path()).collect();
    let [stored] = &stored[..] else { panic!("one file is expected: {stored:?}") };
    let aside = home.file("aside");
    std::fs::rename(stored, &aside).unwrap();
    // The command line would upload a file that is gone again; a task only names it.
    let definition = serde_json::json!({ "run": { "binary": { "artifact": stored.file_name().unwrap().to_str() } } });
    std::fs::write(home.file("greet.json"), definition.to_string()).unwrap();
    let applied = punctual(&home, &server, &["task", "apply", "greet", "-f", "greet.json"]);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let succeeds = |when: &str| {
        let output = punctual(&home, &server, &["run", "greet", "--wait"]);
        assert!(output.status.success(), "{when}: {}", text(&output.stderr));
    };
    succeeds("from memory");
    worker.kill();
    let worker = home.worker(&server, &[]);
    succeeds("by another worker with the same folder");
    worker.kill();
    // A worker that never had it needs the storage: it waits, and runs when the file is back.
    let _worker = home.worker(&server, &["--cache-dir", "elsewhere"]);
    let late = punctual(&home, &server, &["run", "greet", "--wait", "--wait-timeout", "2s"]);
    assert_eq!(late.status.code(), Some(124), "{}", text(&late.stderr));
    std::fs::rename(&aside, stored).unwrap();
    succeeds("with the file back");
}

#[test]
fn a_rust_program_passes_its_exit_code_on() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let source = r#"fn main() { println!("hello from Rust"); std::process::exit(42) }"#;
    let program = compile_rust(&home, "rusty", source);
    let output = run(&home, &server, &program, &["--retries", "0"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(42), "{out}{err}");
    assert!(out.contains("hello from Rust"), "{out}");
    assert!(err.contains("exit code 42"), "{err}");
    // Each try is told apart.
    let output = run(&home, &server, &program, &["--retries", "1"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), out.as_str()), (Some(42), "hello from Rust\nhello from Rust\n"), "{err}");
    assert!(err.contains("Attempt 2:") && !err.contains("Attempt 1:"), "{err}");
}

#[test]
fn what_cannot_run_is_refused_with_what_to_do() {
    let home = Home::new();
    let server = home.server();
    let script = home.file("script");
    std::fs::write(&script, "#!/bin/sh\necho hi\n").unwrap();
    let output = run(&home, &server, &script, &[]);
    let err = text(&output.stderr);
    assert!(!output.status.success() && err.contains("script"), "{err}");
    let as_a_task = run(&home, &server, Path::new("script"), &[]);
    let err = text(&as_a_task.stderr);
    assert_eq!(as_a_task.status.code(), Some(5), "{err}");
    assert!(err.contains("./script"), "{err}");
    let tight = compile_c(&home, "tight", HELLO);
    let refused = run(&home, &server, &tight, &["--memory", "1MiB"]);
    let err = text(&refused.stderr);
    assert!(err.contains("--memory: must be from 8MiB"), "{err}");
    let missing = run(&home, &server, &home.file("missing"), &[]);
    assert_eq!(missing.status.code(), Some(125), "{}", text(&missing.stderr));
}

/// A program's own 2, 3 or 7 must not look like a failure of ours.
#[test]
fn failures_of_ours_have_exit_codes_that_programs_leave_alone() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let source = "#include <stdlib.h>\n#include <unistd.h>\n#include <signal.h>\n\
                  int main(int n, char **a) { if (n > 2) raise(atoi(a[2])); if (n > 1) return atoi(a[1]); sleep(600); }";
    let program = compile_c(&home, "ends", source);
    let code = |flags: &[&str]| {
        let output = run(&home, &server, &program, flags);
        (output.status.code(), text(&output.stderr))
    };
    let ends = |flags: &[&str], expected: i32| {
        let (code, said) = code(flags);
        assert_eq!(code, Some(expected), "{flags:?}: {said}");
    };
    ends(&["--retries", "0", "--", "7"], 7);
    ends(&["--retries", "0", "--", "2"], 2);
    ends(&["--retries", "0", "--", "0", "11"], 139);
    ends(&["--retries", "0", "--timeout", "1s"], 124);
    ends(&["--retries", "0", "--follow", "--wait-timeout", "1s"], 124);
    ends(&["--queue", "nobody", "--queue-timeout", "1s"], 125);
    ends(&["--no-such-flag"], 125);
    ends(&["--timeout", "soon"], 125);
    ends(&["--tz", "Atlantis"], 125);
    ends(&["--priority", "5", "--tracing-id", &"x".repeat(300)], 125);
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let away = std::process::Command::new(crate::harness::PUNCTUAL)
        .args(["run", "--server", &format!("http://{unused}")])
        .arg(&program)
        .output()
        .unwrap();
    assert_eq!(away.status.code(), Some(125), "{}", text(&away.stderr));
    // The report says the same.
    let (_, said) = code(&["--tz", "Atlantis", "-o", "json"]);
    assert!(said.contains("Atlantis"), "{said}");
    let (_, said) = code(&["--memory", "1MiB", "-o", "json"]);
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(serde_json::from_str::<serde_json::Value>(last).unwrap()["error"]["exit_code"], 125, "{said}");
    ends(&["--wait", "--retries", "0", "--", "7"], 7);
}
