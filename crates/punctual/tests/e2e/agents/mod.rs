//! Binaries that are run by agents: `punctual worker --spawn`.

mod containers;
mod ends;
mod podman;
mod process;
mod tls;

use std::process::Command;

use punctual_core::JobId;

use crate::binaries::{compile_c, text};
use crate::harness::{Home, PUNCTUAL, Process, Server, eventually, processes_below};

/// Prints, then sleeps in its first attempt and ends well in any other.
const SLEEPS_ONCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main() {
    if (getenv("PUNCTUAL_ATTEMPT")[0] != '1') return 0;
    if (fork() == 0) setsid();
    puts("up");
    fflush(stdout);
    sleep(600);
}
"#;

/// Submits a program and does not wait for it.
fn submit(home: &Home, server: &Server, name: &str, source: &str, flags: &[&str]) -> JobId {
    let program = compile_c(home, name, source);
    let submitted = Command::new(PUNCTUAL)
        .args(["run", "--server", &server.url, "-o", "name", "--detach"])
        .arg(&program)
        .args(flags)
        .current_dir(home.path())
        .output()
        .expect("the program starts");
    let id = text(&submitted.stdout);
    id.trim().parse().unwrap_or_else(|_| panic!("{id}{}", text(&submitted.stderr)))
}

async fn printed(server: &Server, job: JobId, expected: &str) {
    let client = server.client();
    eventually("the program to print", || async {
        let log = client.logs(job, punctual_client::Logs::default()).await;
        log.is_ok_and(|piece| piece.text == expected)
    })
    .await;
}

async fn job_in(server: &Server, job: JobId, state: &str) -> punctual_api::Job {
    let client = server.client();
    eventually(&format!("the job to be {state}"), || async {
        client.job(job).await.is_ok_and(|job| job.state.as_str() == state)
    })
    .await;
    client.job(job).await.expect("the job can be read")
}

/// The one agent below a worker.
fn agent_of(worker: &Process) -> u32 {
    let is_agent = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"agent")
    };
    let agents: Vec<u32> = processes_below(worker.id()).into_iter().filter(is_agent).collect();
    assert_eq!(agents.len(), 1, "{agents:?}");
    agents[0]
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(sent.expect("there is a shell").success());
}

/// The variables of an agent, by `/proc`. Nobody but root may read them there.
fn environment(pid: u32) -> Option<Vec<(String, String)>> {
    let bytes = match std::fs::read(format!("/proc/{pid}/environ")) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            eprintln!("skipped: a look into an agent's environment, because only root may have one");
            return None;
        }
        bytes => bytes.expect("the process lives"),
    };
    let pairs = bytes.split(|byte| *byte == 0).filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| String::from_utf8_lossy(pair).split_once('=').map(|(name, value)| (name.into(), value.into())))
        .map(|pair| pair.expect("a name and a value"))
        .collect();
    pairs.sort();
    Some(pairs)
}

const VARIABLES: [&str; 9] = [
    "PUNCTUAL_AGENT_ATTEMPT",
    "PUNCTUAL_AGENT_DOWNLOAD_URL",
    "PUNCTUAL_AGENT_FILE_SHA256",
    "PUNCTUAL_AGENT_FILE_SIZE",
    "PUNCTUAL_AGENT_JOB",
    "PUNCTUAL_AGENT_SERVER",
    "PUNCTUAL_AGENT_TOKEN",
    "PUNCTUAL_HOST_ID",
    "PUNCTUAL_TRACING_ID",
];
