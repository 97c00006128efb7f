//! However it ends, nothing is left.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use punctual_sandbox::Status;
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{LAB, User, eventually, job, launcher, marker, processes_with, run, to_end, until_ready};
use crate::programs;

pub(crate) fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// The launchers that are children of a process.
pub(crate) fn launchers_of(parent: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    children
        .into_iter()
        .filter(|pid| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.split(|byte| *byte == 0).any(|each| each == b"launcher")
        })
        .collect()
}

/// Folders of control groups that a launcher made.
fn control_groups_of(launcher: u32) -> Vec<String> {
    let found = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-name", &format!("punctual-jobs-{launcher}-*")])
        .output()
        .unwrap();
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_program_that_is_asked_ends_in_good_order() {
    let launcher = launcher(User::Same).await;
    let mut running = launcher.run(job("honest", &["terminate"])).await.unwrap();
    until_ready(&mut running).await;
    running.terminate();
    let ran = to_end(running).await;
    assert_eq!((ran.code(), ran.stdout.as_str()), (5, "terminated\n"));
}

#[tokio::test]
async fn nothing_is_left_after_a_kill() {
    for user in [User::Same, User::Nobody] {
        if user == User::Nobody && !rustix::process::geteuid().is_root() {
            eprintln!("skipped: the part as another user, because only root can change users");
            continue;
        }
        let launcher = launcher(user).await;
        let marker = marker("kill");
        let mut running = launcher.run(job("honest", &["family", &marker])).await.unwrap();
        until_ready(&mut running).await;
        assert!(processes_with(&marker).len() > 5);
        running.kill();
        assert_eq!(to_end(running).await.exit.status, Status::Signal(libc::SIGKILL));
        // At once, not eventually: wait says that everything is gone.
        assert_eq!(processes_with(&marker), []);
    }
}

#[tokio::test]
async fn what_outlives_its_parents_ends_with_the_program() {
    let launcher = launcher(User::Same).await;
    let marker = marker("outlive");
    let ran = run(&launcher, job("processes", &["outlive", &marker])).await;
    assert_eq!(ran.code(), 0);
    assert_eq!(processes_with(&marker), []);
}

#[tokio::test]
async fn nothing_is_left_of_what_was_dropped() {
    let launcher = launcher(User::Same).await;
    let marker = marker("drop");
    let mut running = launcher.run(job("honest", &["family", &marker])).await.unwrap();
    until_ready(&mut running).await;
    drop(running);
    eventually("the processes end", || processes_with(&marker).is_empty()).await;

    let mut running = launcher.run(job("honest", &["family", &marker])).await.unwrap();
    until_ready(&mut running).await;
    drop(launcher);
    assert_eq!(running.wait().await.status, Status::Signal(libc::SIGKILL));
    assert_eq!(processes_with(&marker), []);
}

#[tokio::test]
async fn a_launcher_that_died_is_replaced_and_its_jobs_are_lost() {
    // Nobody has no control groups, so it is the kernel alone that ends the processes there.
    for user in [User::Same, User::Nobody] {
        if user == User::Nobody && !rustix::process::geteuid().is_root() {
            eprintln!("skipped: the part as another user, because only root can change users");
            continue;
        }
        let launcher = launcher(user).await;
        let marker = marker("launcher-dies");
        let mut running = launcher.run(job("honest", &["family", &marker])).await.unwrap();
        until_ready(&mut running).await;
        let process = *launchers_of(std::process::id()).last().expect("there is a launcher");
        kill(process);
        assert_eq!(to_end(running).await.exit.status, Status::Lost);
        eventually("the processes end", || processes_with(&marker).is_empty()).await;
        assert_eq!(run(&launcher, job("honest", &["exit", "4"])).await.code(), 4);
        assert!(control_groups_of(process).is_empty(), "the next launcher removes what the last one left");
    }
}

/// A worker of its own, with a program that runs.
fn worker(marker: &str) -> (Child, u32) {
    let mut worker = Command::new(LAB)
        .args(["worker", programs::path("honest").to_str().unwrap(), "family", marker])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(worker.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line}");
    let [launcher] = launchers_of(worker.id())[..] else { panic!("one launcher is expected") };
    (worker, launcher)
}

#[tokio::test]
async fn nothing_is_left_of_a_worker_that_was_killed() {
    let marker = marker("worker-dies");
    let (mut worker, launcher) = worker(&marker);
    assert!(processes_with(&marker).len() > 5);
    kill(worker.id());
    worker.wait().unwrap();
    eventually("the processes end", || processes_with(&marker).is_empty()).await;
    let gone = || !std::path::Path::new(&format!("/proc/{launcher}")).exists();
    eventually("the launcher ends", gone).await;
    assert!(control_groups_of(launcher).is_empty());
}

#[tokio::test]
async fn what_a_killed_launcher_left_is_swept_by_the_next() {
    let marker = marker("both-die");
    let (mut worker, process) = worker(&marker);
    // Stopped, so that it cannot clear up before it dies.
    let pid = Pid::from_raw(process.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    kill(worker.id());
    kill(process);
    worker.wait().unwrap();
    eventually("the processes end", || processes_with(&marker).is_empty()).await;
    let _next = launcher(User::Same).await;
    assert!(control_groups_of(process).is_empty());
}
