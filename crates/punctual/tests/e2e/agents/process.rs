//! Agents as processes: what they do is what a worker without agents does.

use std::process::Command;

use super::{SLEEPS_ONCE, VARIABLES, agent_of, environment, job_in, printed, submit};
use crate::binaries::ends::{attempt, run_to_the_end};
use crate::binaries::{compile_c, run, text};
use crate::harness::{Home, PUNCTUAL, eventually, is_alive, processes_below};

const PROCESS: [&str; 2] = ["--spawn", "process"];

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_by_an_agent_and_passes_on_all_that_it_says() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &PROCESS);
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int main(int argc, char **argv) {
            char line[64] = "";
            fgets(line, sizeof line, stdin);
            printf("args %d, input %s\n", argc, line);
            FILE *out = fopen(getenv("PUNCTUAL_OUTPUT"), "w");
            fprintf(out, "{\"done\":true}");
            fclose(out);
            return atoi(argv[1]);
        }"#;
    let program = compile_c(&home, "tool", source);
    let output = run(&home, &server, &program, &["--retries", "0", "--input", "{}", "--", "42"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(42), "{out}{err}");
    assert!(out.contains("args 2, input {}") && err.contains("exit code 42"), "{out}{err}");

    let (id, _) = run_to_the_end(&home, &server, "tool", source, &["--", "0"]);
    let job = server.client().job(id).await.unwrap();
    assert_eq!(job.output.expect("an output").get(), "{\"done\":true}");
    let details = attempt(&server, id).await.details.expect("a program leaves details");
    assert_eq!((details.exit_code, details.host.map(|host| host.len())), (Some(0), Some(36)));
    assert!(details.sandbox.is_some());

    // What needs the worker's secrets or code is run by the worker.
    let probe = Command::new(PUNCTUAL)
        .args(["run", "--server", &server.url, "--probe", "{\"output\":\"mine\"}", "--wait", "-o", "json"])
        .output()
        .expect("the program starts");
    assert!(probe.status.success() && text(&probe.stdout).contains("mine"), "{}", text(&probe.stderr));
    assert!(!text(&probe.stdout).contains("\"host\""), "{}", text(&probe.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_reached_is_named() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &PROCESS);
    let hungry = "#include <stdlib.h>\n#include <string.h>\n\
                  int main() { for (;;) { char *p = malloc(1 << 20); if (!p) return 1; memset(p, 1, 1 << 20); } }";
    let (id, _) = run_to_the_end(&home, &server, "hungry", hungry, &["--retries", "0", "--memory", "32MiB"]);
    let ended = attempt(&server, id).await;
    assert_eq!(ended.details.expect("details").limit.as_deref(), Some("oom"), "{:?}", ended.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_its_variables_and_its_program_cannot_read_them() {
    let home = Home::new();
    let server = home.server();
    let worker = home.worker(&server, &PROCESS);
    // Reads what it can of every process that it finds.
    let nosy = r#"
        #include <dirent.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        extern char **environ;
        int main() {
            char path[512], bytes[65536];
            DIR *proc = opendir("/proc");
            for (struct dirent *each; proc && (each = readdir(proc));) {
                snprintf(path, sizeof path, "/proc/%s/environ", each->d_name);
                FILE *file = fopen(path, "r");
                size_t len = file ? fread(bytes, 1, sizeof bytes, file) : 0;
                for (size_t i = 0; i < len; i++) putchar(bytes[i] ? bytes[i] : '\n');
            }
            for (char **each = environ; *each; each++) puts(*each);
            puts("done");
            fflush(stdout);
            sleep(600);
        }"#;
    let job = submit(&home, &server, "nosy", nosy, &["--tracing-id", "order 17"]);
    let client = server.client();
    let log = || async { client.logs(job, punctual_client::Logs::default()).await.map(|piece| piece.text) };
    eventually("the program to look around", || async { log().await.is_ok_and(|text| text.ends_with("done\n")) }).await;
    let seen = log().await.unwrap();
    assert!(seen.contains("PUNCTUAL_ATTEMPT=1") && !seen.contains("PUNCTUAL_AGENT"), "{seen}");
    let Some(environment) = environment(agent_of(&worker)) else { return };
    let mut names: Vec<&str> = environment.iter().map(|(name, _)| name.as_str()).collect();
    // Where limits can be enforced, the agent must enforce them; and a worker that is root chooses the program's user.
    names.retain(|name| !["PUNCTUAL_AGENT_SANDBOX_REQUIRE", "PUNCTUAL_AGENT_PROGRAM_USER"].contains(name));
    assert_eq!(names, VARIABLES);
    let token = &environment.iter().find(|(name, _)| name == "PUNCTUAL_AGENT_TOKEN").expect("a token").1;
    assert!(!seen.contains(token.as_str()), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_the_program_and_its_time_ends_it() {
    let home = Home::new();
    let server = home.server_with("127.0.0.1:0", &[], &[("PUNCTUAL_HEARTBEAT", "200ms")]);
    let _worker = home.worker(&server, &PROCESS);
    let polite = "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n\
                  static void bye(int s) { (void)s; (void)!write(1, \"bye\\n\", 4); _exit(3); }\n\
                  int main() { signal(SIGTERM, bye); puts(\"up\"); fflush(stdout); for (;;) pause(); }";
    let job = submit(&home, &server, "polite", polite, &[]);
    printed(&server, job, "up\n").await;
    server.client().cancel(job).await.unwrap();
    job_in(&server, job, "cancelled").await;
    printed(&server, job, "up\nbye\n").await;

    let (id, out) = run_to_the_end(&home, &server, "polite", polite, &["--retries", "0", "--timeout", "2s"]);
    assert!(out.contains("bye"), "{out}");
    assert_eq!(attempt(&server, id).await.state, "timed_out");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_waits_for_its_agents_and_leaves_nothing() {
    let home = Home::new();
    let server = home.server();
    let worker = home.worker(&server, &["--spawn", "process", "--drain-timeout", "1s"]);
    let job = submit(&home, &server, "sleeper", SLEEPS_ONCE, &[]);
    printed(&server, job, "up\nup\n").await;
    let inside = processes_below(worker.id());
    worker.stop();
    assert!(inside.iter().all(|pid| !is_alive(*pid)), "{inside:?}");
    let left = std::fs::read_dir(home.file(".punctual/agents")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["id"], "nothing but the name of the place");
}
