//! Agents that die, fall silent, or lose their worker.

use punctual_api::NamespaceRequest;

use super::{SLEEPS_ONCE, agent_of, job_in, printed, signal, submit};
use crate::cluster::Cluster;
use crate::harness::{Home, Server, eventually, is_alive, processes_below};

/// A server that gives up agents soon.
fn impatient(home: &Home) -> Server {
    let soon = [("PUNCTUAL_HEARTBEAT", "200ms"), ("PUNCTUAL_WORKER_DEAD_AFTER", "2s")];
    home.server_with("127.0.0.1:0", &[], &soon)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_agent_is_killed_fails_with_its_reason_and_is_retried() {
    let home = Home::new();
    let server = home.server();
    let worker = home.worker(&server, &["--spawn", "process"]);
    let job = submit(&home, &server, "sleeper", SLEEPS_ONCE, &["--retries", "1"]);
    printed(&server, job, "up\nup\n").await;
    let agent = agent_of(&worker);
    let inside = processes_below(agent);
    assert!(inside.len() >= 3, "the launcher and the program twice: {inside:?}");
    signal("KILL", agent);
    eventually("its program to be gone", || async { inside.iter().all(|pid| !is_alive(*pid)) }).await;
    let job = job_in(&server, job, "succeeded").await;
    assert_eq!(job.attempts.len(), 2);
    let first = &job.attempts[0];
    let reason = first.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("the agent ended without a report (signal 9)"), "{first:?}");
    let details = first.details.as_ref().expect("details");
    assert_eq!((details.class.as_deref(), details.signal), (Some("environment"), Some(9)));
    assert!(details.host.is_some() && details.host != job.attempts[1].details.as_ref().unwrap().host);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_falls_silent_is_given_up_and_ended_by_force() {
    let home = Home::new();
    let server = impatient(&home);
    let worker = home.worker(&server, &["--spawn", "process"]);
    let job = submit(&home, &server, "sleeper", SLEEPS_ONCE, &["--retries", "1"]);
    printed(&server, job, "up\nup\n").await;
    let agent = agent_of(&worker);
    let mut inside = processes_below(agent);
    inside.push(agent);
    signal("STOP", agent);
    let job = job_in(&server, job, "succeeded").await;
    assert_eq!(job.attempts.len(), 2);
    assert!(job.attempts[0].reason.is_some(), "{:?}", job.attempts[0]);
    eventually("everything of it to be gone", || async { inside.iter().all(|pid| !is_alive(*pid)) }).await;
    assert!(is_alive(worker.id()), "its worker is well");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_a_killed_worker_not_even_a_stopped_agent() {
    let home = Home::new();
    let server = home.server();
    let worker = home.worker(&server, &["--spawn", "process"]);
    let job = submit(&home, &server, "sleeper", SLEEPS_ONCE, &[]);
    printed(&server, job, "up\nup\n").await;
    let inside = processes_below(worker.id());
    assert!(inside.len() >= 4, "the agent, its launcher and the program twice: {inside:?}");
    signal("STOP", agent_of(&worker));
    worker.kill();
    eventually("everything to be gone", || async { inside.iter().all(|pid| !is_alive(*pid)) }).await;
    // What it left on the disk goes with the next worker.
    let folders = || {
        let all = std::fs::read_dir(home.file(".punctual/agents")).unwrap();
        all.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
    };
    assert_eq!(folders(), 1);
    let _next = home.worker(&server, &["--spawn", "process"]);
    eventually("its folder to be swept", || async {
        server.client().workers().await.is_ok_and(|list| list.workers.iter().any(|one| one.state == "connected"))
    })
    .await;
    assert_eq!(folders(), 1, "only that of the new worker");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_outlives_its_server_and_reports_to_the_next() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &["--spawn", "process"]);
    let source = "#include <stdio.h>\n#include <unistd.h>\n\
                  int main() { puts(\"up\"); fflush(stdout); sleep(3); puts(\"down\"); return 0; }";
    let job = submit(&home, &server, "steady", source, &["--retries", "0"]);
    printed(&server, job, "up\n").await;
    let address = server.address();
    server.kill();
    let server = home.server_at(&address, &[]);
    let job = job_in(&server, job, "succeeded").await;
    assert_eq!(job.attempts.len(), 1);
    printed(&server, job.id, "up\ndown\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_knows_servers_that_its_worker_was_never_told_of() {
    let cluster = Cluster::new();
    let [named, found] = cluster.pair().await;
    let _worker = cluster.home.worker(&named, &["--spawn", "process"]);
    eventually("the worker to find the other server", || async {
        found.client().workers().await.is_ok_and(|list| list.workers.iter().any(|one| one.state == "connected"))
    })
    .await;
    let source = "#include <stdio.h>\n#include <unistd.h>\n\
                  int main() { puts(\"up\"); fflush(stdout); sleep(3); puts(\"down\"); return 0; }";
    let job = submit(&cluster.home, &found, "steady", source, &["--retries", "0"]);
    printed(&found, job, "up\n").await;
    named.kill();
    let job = job_in(&found, job, "succeeded").await;
    assert_eq!(job.attempts.len(), 1);
    printed(&found, job.id, "up\ndown\n").await;
}

/// Prints three lines, each in a message of its own.
const PRINTS_SLOWLY: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main() {
    for (int line = 0; line < 3; line++) {
        printf("line %d of a log that is longer than it may be\n", line);
        fflush(stdout);
        usleep(700000);
    }
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_a_quota_cuts_says_so_and_its_job_succeeds() {
    let home = Home::new();
    let server = home.server();
    let quotas = serde_json::from_str(r#"{"log_bytes":120}"#).expect("a quota");
    let request = NamespaceRequest { name: "team-a".to_owned(), quotas, ..NamespaceRequest::default() };
    server.client().create_namespace(&request).await.expect("a namespace");
    let in_team = server.client().in_namespace(Some("team-a"));
    let note = "[the log was cut off here: namespace team-a has 120 of 120 bytes of logs (quota log_bytes)]\n";
    for (flags, begin) in [(&["--spawn", "process"][..], "line 0"), (&[], "[the log")] {
        let worker = home.worker(&server, flags);
        let job = submit(&home, &server, "prints", PRINTS_SLOWLY, &["-N", "team-a"]);
        eventually("the job succeeds", || async {
            in_team.job(job).await.is_ok_and(|job| job.state.as_str() == "succeeded")
        })
        .await;
        let log = in_team.logs(job, punctual_client::Logs::default()).await.expect("its log").text;
        assert!(log.starts_with(begin) && log.ends_with(note), "{log}");
        assert_eq!(log.matches("[the log").count(), 1, "{log}");
        assert!(log.len() <= 120 + 1 + note.len(), "{log}");
        worker.stop();
    }
    let usage = in_team.namespace("team-a").await.expect("the namespace").usage.expect("what it uses");
    assert!(usage.log_bytes.is_some_and(|bytes| bytes >= 120 + note.len() as u64), "{usage:?}");
}
