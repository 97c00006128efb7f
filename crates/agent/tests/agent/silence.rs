//! Agents whose attempt is not theirs any more.

use axum::http::StatusCode;
use serde_json::json;

use crate::far_side::*;

const SLEEPER: &str = "#include <stdio.h>\n#include <unistd.h>\n\
                       int main() { if (fork() == 0) setsid(); puts(\"up\"); fflush(stdout); sleep(600); }";

async fn running() -> (FarServer, Agent, Vec<u32>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let server = FarServer::start(&compile(folder.path(), SLEEPER), json!({})).await;
    let agent = Agent::start(&server.handover());
    eventually("the program to run", || server.script().log() == "up\nup\n").await;
    let inside = processes_below(agent.id());
    assert!(inside.len() >= 3, "the launcher and the program twice: {inside:?}");
    (server, agent, inside, folder)
}

#[tokio::test]
async fn an_agent_whose_attempt_is_over_ends_at_once_with_all_it_runs() {
    for (status, code) in [
        (StatusCode::CONFLICT, "attempt_over"),
        (StatusCode::FORBIDDEN, "wrong_attempt"),
        (StatusCode::UNAUTHORIZED, "invalid_token"),
    ] {
        let (server, agent, inside, _folder) = running().await;
        server.script().refuse = Some((status, code));
        assert!(!agent.ended().await);
        assert!(server.script().outcomes.is_empty());
        eventually("everything to be gone", || inside.iter().all(|pid| !is_alive(*pid))).await;
    }
}

#[tokio::test]
async fn an_agent_that_reaches_no_server_ends_when_it_is_given_up() {
    let (server, agent, inside, _folder) = running().await;
    let begun = std::time::Instant::now();
    // Not a word of ours: a proxy before servers that are away.
    server.script().refuse = Some((StatusCode::SERVICE_UNAVAILABLE, "upstream"));
    assert!(!agent.ended().await);
    let lasted = begun.elapsed().as_secs_f64();
    assert!((1.5..4.0).contains(&lasted), "dead_after is 2 s: {lasted}");
    eventually("everything to be gone", || inside.iter().all(|pid| !is_alive(*pid))).await;
}

#[tokio::test]
async fn an_agent_waits_for_servers_that_wait_for_their_store() {
    for code in ["unavailable", "shard_moving"] {
        let (server, agent, inside, _folder) = running().await;
        let refused_from = std::time::Instant::now();
        server.script().refuse = Some((StatusCode::SERVICE_UNAVAILABLE, code));
        eventually("it would have been given up", || refused_from.elapsed() > 2 * DEAD_AFTER).await;
        let refusals = server.script().refusals;
        eventually("it goes on asking", || server.script().refusals > refusals).await;
        assert!(inside.iter().all(|pid| is_alive(*pid)), "{code}");
        let beats = server.script().beats;
        server.script().refuse = None;
        eventually("a beat to be taken", || server.script().beats > beats).await;
        server.script().cancel = true;
        assert!(agent.ended().await, "{code}");
        assert_eq!(server.script().outcomes.len(), 1);
    }
}

#[tokio::test]
async fn an_agent_does_not_end_by_a_status_that_is_not_a_servers_own() {
    let (server, agent, inside, _folder) = running().await;
    for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::CONFLICT, StatusCode::BAD_REQUEST] {
        let refusals = server.script().refusals;
        server.script().refuse = Some((status, "a proxy's own"));
        // It has read the first answer when it asks again.
        eventually("it asks again", || server.script().refusals > refusals + 1).await;
        assert!(inside.iter().all(|pid| is_alive(*pid)), "{status}");
        let beats = server.script().beats;
        server.script().refuse = None;
        eventually("a beat to be taken", || server.script().beats > beats).await;
    }
    server.script().cancel = true;
    assert!(agent.ended().await);
    assert_eq!(server.script().outcomes.len(), 1);
}

#[tokio::test]
async fn an_agent_without_its_worker_does_not_begin() {
    let folder = tempfile::tempdir().unwrap();
    let server = FarServer::start(&compile(folder.path(), SLEEPER), json!({})).await;
    let mut orphan = std::process::Command::new(env!("CARGO_BIN_EXE_agent_lab"));
    let (reader, worker) = std::io::pipe().unwrap();
    drop(worker);
    orphan.env_clear().envs(server.handover().variables()).stdin(reader);
    assert!(!orphan.status().unwrap().success());
    assert_eq!(server.script().beats, 0);
}

/// All descendants, by `/proc`.
fn processes_below(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", found[next])).into_iter().flatten().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        next += 1;
    }
    found.remove(0);
    found
}

fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
