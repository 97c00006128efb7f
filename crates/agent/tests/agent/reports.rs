//! What an agent says of its attempt.

use bytes::Bytes;
use punctual_core::attempt::{FailureClass, Outcome};
use serde_json::json;

use crate::far_side::*;

const ECHO: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    char line[256] = "";
    fgets(line, sizeof line, stdin);
    printf("got %s, args %d\n", line, argc);
    fflush(stdout);
    usleep(600 * 1000);
    for (char **variable = environ; *variable; variable++) puts(*variable);
    FILE *out = fopen(getenv("PUNCTUAL_OUTPUT"), "w");
    fprintf(out, "\"done\"");
    fclose(out);
    return 0;
}
"#;

#[tokio::test]
async fn a_program_is_run_watched_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let server = FarServer::start(&compile(folder.path(), ECHO), json!({ "args": ["one"] })).await;
    let agent = Agent::start(&server.handover());
    eventually("the first line, while the program runs", || server.script().log() == "got the input, args 2\n").await;
    assert!(server.script().outcomes.is_empty());
    assert!(agent.ended().await);
    let script = server.script();
    let [report] = &script.outcomes[..] else { panic!("{:?}", script.outcomes) };
    assert_eq!(report.outcome, Outcome::Succeeded { output: Some(Bytes::from_static(b"\"done\"")) });
    let details = report.details.as_ref().unwrap();
    assert_eq!((details.exit_code, details.host.as_deref()), (Some(0), Some("host-of-this-test")));
    assert!(details.sandbox.is_some());
    assert!(script.beats >= 4, "{} beats in more than 600 ms", script.beats);
    let log = script.log();
    assert!(log.contains("PUNCTUAL_ATTEMPT=2\n") && log.contains("PUNCTUAL_TRACING_ID=order 17\n"), "{log}");
    assert!(!log.contains("PUNCTUAL_AGENT"), "the program knows nothing of the agent: {log}");
}

#[tokio::test]
async fn a_cancel_comes_with_the_heartbeat() {
    let folder = tempfile::tempdir().unwrap();
    let sleeper = "#include <stdio.h>\n#include <unistd.h>\nint main() { puts(\"up\"); fflush(stdout); sleep(600); }";
    let server = FarServer::start(&compile(folder.path(), sleeper), json!({})).await;
    let agent = Agent::start(&server.handover());
    eventually("the program to run", || server.script().log() == "up\n").await;
    server.script().cancel = true;
    assert!(agent.ended().await);
    let outcomes: Vec<Outcome> = server.script().outcomes.iter().map(|report| report.outcome.clone()).collect();
    assert_eq!(outcomes, [Outcome::Cancelled]);
}

#[tokio::test]
async fn time_that_is_over_is_told_from_other_ends() {
    let folder = tempfile::tempdir().unwrap();
    let sleeper = "#include <unistd.h>\nint main() { sleep(600); }";
    let server = FarServer::start(&compile(folder.path(), sleeper), json!({})).await;
    server.script().attempt.remaining_us = 500_000;
    assert!(Agent::start(&server.handover()).ended().await);
    let script = server.script();
    let Outcome::Failed(failure) = &script.outcomes[0].outcome else { panic!("{:?}", script.outcomes) };
    assert_eq!((failure.class, script.outcomes[0].timed_out), (FailureClass::Timeout, true));
}

#[tokio::test]
async fn what_a_busy_server_refuses_is_sent_again_until_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let server = FarServer::start(
        &compile(folder.path(), "int puts(const char *);int main() { puts(\"hi\"); return 7; }"),
        json!({}),
    )
    .await;
    server.script().busy = 4;
    assert!(Agent::start(&server.handover()).ended().await);
    let script = server.script();
    assert_eq!((script.busy, script.log().as_str(), script.outcomes.len()), (0, "hi\n", 1));
    assert_eq!(script.outcomes[0].details.as_ref().unwrap().exit_code, Some(7));
}

#[tokio::test]
async fn a_server_that_is_away_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let server = FarServer::start(&compile(folder.path(), "int main() { return 0; }"), json!({})).await;
    let mut handover = server.handover();
    handover.servers.insert(0, "http://127.0.0.1:1".to_owned());
    assert!(Agent::start(&handover).ended().await);
    assert_eq!(server.script().outcomes.len(), 1);
}

#[tokio::test]
async fn a_log_whose_answers_are_lost_is_repeated_at_another_server_and_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\n#include <unistd.h>\n\
                  int main() { for (int i = 0; i < 6; i++) { printf(\"%d\\n\", i); fflush(stdout); usleep(150000); } }";
    let server = FarServer::start(&compile(folder.path(), source), json!({})).await;
    let another = server.start_another().await;
    server.script().lost = 3;
    let mut handover = server.handover();
    handover.servers.push(another.url());
    assert!(Agent::start(&handover).ended().await);
    let script = server.script();
    assert_eq!((script.lost, script.log().as_str(), script.outcomes.len()), (0, "0\n1\n2\n3\n4\n5\n", 1));
    assert!(script.logs.len() > 3, "{:?}", script.logs);
}

#[tokio::test]
async fn a_file_that_is_not_the_one_is_never_run() {
    let folder = tempfile::tempdir().unwrap();
    let source = "int puts(const char *);int main() { puts(\"ran\"); return 0; }";
    let server = FarServer::start(&compile(folder.path(), source), json!({})).await;
    let mut handover = server.handover();
    handover.download.sha256[0] ^= 1;
    assert!(Agent::start(&handover).ended().await);
    let script = server.script();
    let Outcome::NotStarted { reason } = &script.outcomes[0].outcome else { panic!("{:?}", script.outcomes) };
    assert!(reason.contains("is not the program that was uploaded"), "{reason}");
    assert_eq!(script.log(), "");
}

#[tokio::test]
async fn where_the_sandbox_cannot_be_built_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let source = "int puts(const char *);int main() { puts(\"ran\"); return 0; }";
    let server = FarServer::start(&compile(folder.path(), source), json!({})).await;
    assert!(Agent::start_confined(&server.handover()).ended().await, "it has a report");
    let script = server.script();
    let Outcome::NotStarted { reason } = &script.outcomes[0].outcome else { panic!("{:?}", script.outcomes) };
    assert!(reason.contains("namespaces is missing"), "{reason}");
    assert_eq!(script.log(), "");
}
