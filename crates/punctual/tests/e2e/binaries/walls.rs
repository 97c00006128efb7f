//! What a worker gives programs, and what it demands of the sandbox.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use super::{compile_c, run, text};
use crate::harness::{Home, PUNCTUAL, Server, eventually};

const NO_NETWORK: &str =
    "no connected worker gives programs a network; start one with `punctual worker --allow-network`";

/// 0 if it could not connect to its first argument's port on loopback.
const CALL_HOME: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int count, char **args) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(args[count - 1]))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval second = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    if (fd < 0) { perror("socket"); return 7; }
    if (connect(fd, (void *)&to, sizeof to)) { perror("connect"); return 0; }
    const char *job = "{\"inline\":{\"run\":{\"command\":{\"line\":\"id\"}}}}";
    dprintf(fd, "POST /v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
            strlen(job), job);
    sleep(1);
    return 9;
}
"#;

/// With a network, a program could make the server have a command run as the worker's user.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_a_network_cannot_call_the_api_on_loopback() {
    let home = Home::new();
    let server = home.server();
    let program = compile_c(&home, "home", CALL_HOME);
    let port = server.address().rsplit_once(':').expect("an address").1.to_owned();
    let flags = ["--network", "--retries", "0", "--", &port];

    let careful = home.worker(&server, &[]);
    eventually("the worker is connected", || async {
        server.client().workers().await.is_ok_and(|list| !list.workers.is_empty())
    })
    .await;
    let detached = [&["--detach"], &flags[..]].concat();
    let output = run(&home, &server, &program, &detached);
    assert!(text(&output.stderr).contains(NO_NETWORK), "{}", text(&output.stderr));
    careful.stop();

    let _worker = home.worker_with_spool(&server, "generous", &["--allow-network", "--allow-commands"]);
    let output = run(&home, &server, &program, &flags);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("connect: "), "{said}");
    let jobs = server.client().jobs(&punctual_api::ListQuery::default()).await.expect("a list").jobs;
    assert_eq!(jobs.len(), 2, "the program submitted none: {jobs:?}");
}

struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the rest in a place where there are no control groups.
const WITHOUT_CGROUPS: [&str; 5] =
    ["--mount", "sh", "-c", "mount -t tmpfs -o ro none /sys/fs/cgroup && exec \"$@\"", "sh"];

fn worker_without_cgroups(home: &Home, server: &Server, spool: &str, flags: &[&str]) -> Worker {
    let child = Command::new("unshare")
        .args(WITHOUT_CGROUPS)
        .args([PUNCTUAL, "worker", "--server", &server.url, "--spool-dir"])
        .arg(home.file(spool))
        .args(flags)
        .current_dir(home.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare starts");
    Worker(child)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_enforce_the_limits_takes_no_programs_unless_told_to() {
    let probe = Command::new("unshare").args(WITHOUT_CGROUPS).arg("true").status();
    if !probe.is_ok_and(|probe| probe.success()) {
        eprintln!("skipped: a place without control groups, because it takes root and unshare");
        return;
    }
    let home = Home::new();
    let server = home.server();
    let mut strict = worker_without_cgroups(&home, &server, "strict", &["--sandbox-require", "memory,pids"]);
    let mut said = String::new();
    strict.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("it ends");
    assert!(!strict.0.wait().expect("it ended").success(), "{said}");
    let said = said.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{said}"));
    for part in ["weaker here than sandbox_require demands", "memory_limit is missing", "Delegate=yes"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("cpu_limit"), "it was not asked for: {said}");

    for (flags, runs_programs) in [(&[][..], false), (&["--sandbox-require", "none"][..], true)] {
        let worker = worker_without_cgroups(&home, &server, "lenient", flags);
        let mut capabilities = Vec::new();
        eventually("it is connected", || {
            let found = server.client();
            async move { found.workers().await.is_ok_and(|list| !list.workers.is_empty()) }
        })
        .await;
        for found in server.client().workers().await.expect("a list").workers {
            capabilities = found.capabilities;
        }
        assert_eq!(capabilities.iter().any(|each| each == "binary"), runs_programs, "{capabilities:?}");
        assert!(capabilities.iter().any(|each| each == "http"), "it does what it can: {capabilities:?}");
        drop(worker);
        eventually("it is gone", || {
            let found = server.client();
            async move { found.workers().await.is_ok_and(|list| list.workers.is_empty()) }
        })
        .await;
    }
}
