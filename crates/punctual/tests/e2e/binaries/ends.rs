//! How programs end: by themselves, by their limits, by their time, with their worker.

use std::time::{Duration, Instant};

use punctual_core::JobId;

use super::{compile_c, run, text};
use crate::harness::{Home, PUNCTUAL, Server, eventually, is_alive, processes_below};

pub(crate) async fn attempt(server: &Server, id: JobId) -> punctual_api::Attempt {
    let job = server.client().job(id).await.expect("the job can be read");
    job.attempts.last().cloned().expect("it was tried")
}

/// Runs it to its end and gives its id.
pub(crate) fn run_to_the_end(
    home: &Home,
    server: &Server,
    name: &str,
    source: &str,
    flags: &[&str],
) -> (JobId, String) {
    let program = compile_c(home, name, source);
    let output = run(home, server, &program, flags);
    let err = text(&output.stderr);
    let words: Vec<&str> = err.split_whitespace().collect();
    let id = words.iter().find_map(|word| word.parse().ok());
    (id.unwrap_or_else(|| panic!("no id in {err}")), text(&output.stdout))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_reached_is_named() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let hungry = "#include <stdlib.h>\n#include <string.h>\n\
                  int main() { for (;;) { char *p = malloc(1 << 20); if (!p) return 1; memset(p, 1, 1 << 20); } }";
    let (id, _) = run_to_the_end(&home, &server, "hungry", hungry, &["--retries", "0", "--memory", "32MiB"]);
    let ended = attempt(&server, id).await;
    let details = ended.details.expect("a program leaves details");
    assert_eq!(details.limit.as_deref(), Some("oom"), "{:?}", ended.reason);
    assert!(ended.reason.is_some_and(|reason| reason.starts_with("oom: ")));

    let loud = "#include <stdio.h>\nint main() { for (;;) puts(\"all work and no play\"); }";
    let (id, _) = run_to_the_end(&home, &server, "loud", loud, &["--retries", "0", "--output-max", "100KiB"]);
    assert_eq!(attempt(&server, id).await.details.expect("details").limit.as_deref(), Some("output"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ignores_its_end_is_gone_after_its_grace() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let deaf = "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n\
                int main() { signal(SIGTERM, SIG_IGN); puts(\"deaf\"); fflush(stdout); for (;;) pause(); }";
    let begun = Instant::now();
    let flags = ["--retries", "0", "--timeout", "2s", "--grace", "1s"];
    let (id, out) = run_to_the_end(&home, &server, "deaf", deaf, &flags);
    let lasted = begun.elapsed();
    assert!(out.contains("deaf"), "{out}");
    let ended = attempt(&server, id).await;
    assert_eq!(ended.state, "timed_out", "{:?}", ended.reason);
    assert_eq!(ended.details.expect("details").signal, Some(9));
    assert!(lasted >= Duration::from_secs(3) && lasted < Duration::from_secs(8), "{lasted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_on_sigterm_had_the_chance_to() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let polite = "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n\
                  static void bye(int s) { (void)s; (void)!write(1, \"bye\\n\", 4); _exit(3); }\n\
                  int main() { signal(SIGTERM, bye); for (;;) pause(); }";
    let (id, out) = run_to_the_end(&home, &server, "polite", polite, &["--retries", "0", "--timeout", "1s"]);
    assert!(out.contains("bye"), "{out}");
    assert_eq!(attempt(&server, id).await.state, "timed_out");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_a_killed_worker() {
    let home = Home::new();
    let server = home.server();
    let worker = home.worker(&server, &[]);
    let sleeper = "#include <stdio.h>\n#include <unistd.h>\n\
                   int main() { if (fork() == 0) setsid(); puts(\"up\"); fflush(stdout); sleep(600); }";
    let program = compile_c(&home, "sleeper-of-this-test", sleeper);
    let submitted = std::process::Command::new(PUNCTUAL)
        .args(["run", "--server", &server.url, "-o", "name", "--detach"])
        .arg(&program)
        .current_dir(home.path())
        .output()
        .expect("the program starts");
    let id: JobId = text(&submitted.stdout).trim().parse().expect("an id");
    let log = punctual_client::Logs::default();
    let client = server.client();
    eventually("the program to print", || async {
        client.logs(id, log).await.is_ok_and(|piece| piece.text.matches("up").count() == 2)
    })
    .await;
    let inside = processes_below(worker.id());
    assert!(inside.len() >= 2, "the launcher and the program: {inside:?}");
    worker.kill();
    eventually("everything to be gone", || async { inside.iter().all(|pid| !is_alive(*pid)) }).await;
}
