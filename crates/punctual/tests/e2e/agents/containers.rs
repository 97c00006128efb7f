//! Agents in containers.

use std::collections::BTreeMap;

use super::podman::{IMAGE, Podman};
use super::{SLEEPS_ONCE, VARIABLES, job_in, printed, submit};
use crate::binaries::{compile_c, run, text};
use crate::harness::{Home, Process, Server, eventually};

fn worker(home: &Home, server: &Server, podman: &Podman) -> Process {
    let flags = ["--name", "boxes", "--spawn", "container", "--container-image", IMAGE, "--container-network", "host"];
    let socket = podman.socket();
    let variables = [("PUNCTUAL_CONTAINER_SOCKET", socket.to_str().expect("a path of letters"))];
    home.strict_worker_with(server, "spool", &flags, &variables)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_in_a_container_of_its_own() {
    let Some(podman) = Podman::start().await else { return };
    let home = Home::new();
    let server = home.server();
    let _worker = worker(&home, &server, &podman);
    let source = "#include <stdio.h>\nint main(int argc, char **argv) { printf(\"%s\\n\", argv[1]); return 42; }";
    let program = compile_c(&home, "tool", source);
    let output = tokio::task::block_in_place(|| run(&home, &server, &program, &["--retries", "0", "--", "boxed"]));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(42), "{out}{err}");
    assert!(out.contains("boxed"), "{out}{err}");
    // A job may end a moment before its container is removed.
    eventually("its container to be gone", || async { podman.containers().is_empty() }).await;

    let job = submit(&home, &server, "sleeper", SLEEPS_ONCE, &["--tracing-id", "order 17"]);
    printed(&server, job, "up\nup\n").await;
    let names = podman.containers();
    let [name] = &names[..] else { panic!("one container: {names:?}") };
    let host = name.strip_prefix("punctual-").expect("its name says whose it is");
    let seen: serde_json::Value = serde_json::from_str(&podman.run(&["inspect", name])).unwrap();
    let config = &seen[0]["Config"];
    let labels: BTreeMap<String, String> = serde_json::from_value(config["Labels"].clone()).unwrap();
    for (label, value) in [("worker", "boxes"), ("job", &job.to_string()), ("attempt", "1"), ("host", host)] {
        assert_eq!(labels[&format!("punctual.{label}")], value, "{labels:?}");
    }
    // The image and Podman add some of their own, and none of the worker's.
    let theirs = ["PATH", "TERM", "container", "HOME", "HOSTNAME"];
    let variables = config["Env"].as_array().unwrap().iter().map(|pair| pair.as_str().unwrap());
    let mut ours: Vec<&str> = variables.map(|pair| pair.split('=').next().unwrap()).collect();
    ours.retain(|name| !theirs.contains(name));
    ours.sort_unstable();
    assert_eq!(ours, VARIABLES);

    server.client().cancel(job).await.unwrap();
    let ended = job_in(&server, job, "cancelled").await;
    eventually("its container to be gone", || async { podman.containers().is_empty() }).await;
    let details = ended.attempts[0].details.as_ref().expect("details");
    assert_eq!(details.host.as_deref(), Some(host));
    // Limits are the container's; every other wall is the sandbox's own.
    let level = details.sandbox.as_deref().unwrap_or_default();
    assert!(["full", "partial -memory_limit -cpu_limit -pids_limit"].contains(&level), "{level}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_container_of_a_silent_agent_is_ended_and_so_are_those_of_a_killed_worker() {
    let Some(podman) = Podman::start().await else { return };
    let home = Home::new();
    let soon = [("PUNCTUAL_HEARTBEAT", "500ms"), ("PUNCTUAL_WORKER_DEAD_AFTER", "3s")];
    let server = home.server_with("127.0.0.1:0", &[], &soon);
    let first = worker(&home, &server, &podman);
    let job = submit(&home, &server, "sleeper", SLEEPS_ONCE, &["--retries", "1"]);
    printed(&server, job, "up\nup\n").await;
    podman.run(&["kill", "--signal", "STOP", &podman.containers()[0]]);
    let ended = job_in(&server, job, "succeeded").await;
    assert_eq!(ended.attempts.len(), 2);
    eventually("its container to be gone", || async { podman.containers().is_empty() }).await;

    let job = submit(&home, &server, "sleeper", SLEEPS_ONCE, &["--retries", "1"]);
    printed(&server, job, "up\nup\n").await;
    let left = podman.containers();
    // So that it cannot end by itself.
    podman.run(&["kill", "--signal", "STOP", &left[0]]);
    first.kill();
    let _second = worker(&home, &server, &podman);
    job_in(&server, job, "succeeded").await;
    eventually("what was left to be swept", || async { podman.containers().is_empty() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_away_and_an_image_that_is_not_there_are_named_at_once() {
    let Some(podman) = Podman::start().await else { return };
    let home = Home::new();
    let start = |socket: &str, image: &str| {
        let output = std::process::Command::new(crate::harness::PUNCTUAL)
            .args(["worker", "--spawn", "container", "--container-network", "host", "--container-image", image])
            .env("PUNCTUAL_CONTAINER_SOCKET", socket)
            .current_dir(home.path())
            .output()
            .expect("the program starts");
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let socket = podman.socket();
    let doctor = std::process::Command::new(crate::harness::PUNCTUAL)
        .args(["doctor", "-o", "json"])
        .envs([("PUNCTUAL_SPAWN", "container"), ("PUNCTUAL_CONTAINER_IMAGE", IMAGE)])
        .env("PUNCTUAL_CONTAINER_SOCKET", &socket)
        .current_dir(home.path())
        .output()
        .expect("the program starts");
    let said = text(&doctor.stdout);
    assert!(said.contains(&format!("{} answers and has {IMAGE}", socket.display())), "{said}");
    let missing = start(socket.to_str().unwrap(), "localhost/nothing");
    assert!(missing.contains("the image localhost/nothing"), "{missing}");
    let away = start("/nowhere.sock", IMAGE);
    assert!(away.contains("the container engine at /nowhere.sock cannot be reached"), "{away}");
}
