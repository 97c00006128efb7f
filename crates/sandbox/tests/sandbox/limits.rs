//! What a program used is measured, and what it may use is kept to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_sandbox::{Launcher, LauncherOptions, Output, Status};
use tokio::task::JoinSet;

use crate::lab::{LAB, User, has_limits, job, launcher, run, to_end};

#[tokio::test]
async fn processor_time_is_limited_and_measured() {
    let launcher = launcher(User::Same).await;
    if !has_limits(&launcher) {
        return;
    }
    let mut spinning = job("honest", &["spin"]);
    spinning.limits.cpu_millis = 200;
    let running = launcher.run(spinning).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.kill();
    let exit = to_end(running).await.exit;
    assert_eq!(exit.status, Status::Signal(libc::SIGKILL));
    let share = exit.cpu.as_secs_f64() / exit.wall.as_secs_f64();
    // A fifth of a processor; the first period may be used up at once.
    assert!((0.05..0.4).contains(&share), "{share} of a processor: {exit:?}");
}

#[tokio::test]
async fn memory_is_measured() {
    let launcher = launcher(User::Same).await;
    let ran = run(&launcher, job("honest", &["touch", "50"])).await;
    assert_eq!(ran.code(), 0);
    let peak = ran.exit.peak_memory_bytes >> 20;
    assert!((50..100).contains(&peak), "{peak} MiB");
}

#[tokio::test]
async fn a_slow_reader_slows_the_program() {
    let launcher = launcher(User::Same).await;
    let mut running = launcher.run(job("honest", &["write_much", "2000"])).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut read = 0;
    let began = Instant::now();
    while let Some(Output::Stdout(bytes)) = running.next_output().await {
        read += bytes.len();
        if read == bytes.len() {
            assert!(bytes.len() <= 64 << 10, "more than a pipe was buffered");
        }
    }
    assert_eq!(read, 2000 * 1024);
    let exit = running.wait().await;
    assert_eq!(exit.status, Status::Code(0));
    assert!(exit.wall >= Duration::from_millis(150), "it did not wait: {exit:?} after {:?}", began.elapsed());
}

#[tokio::test]
async fn thirty_two_run_at_once() {
    let launcher = Arc::new(launcher(User::Same).await);
    let began = Instant::now();
    let mut all = JoinSet::new();
    for number in 0..32 {
        let launcher = launcher.clone();
        all.spawn(async move {
            let slow = run(&launcher, job("honest", &["sleep", "1000"])).await;
            assert_eq!(slow.code(), 0, "job {number}");
            slow.exit.wall
        });
    }
    let walls = all.join_all().await;
    // One after the other they would take half a minute.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(walls.len(), 32);
}

/// Five descriptors for each job: the usual limit of 1024 would be reached by two hundred jobs.
#[tokio::test]
async fn a_low_soft_limit_of_descriptors_is_raised() {
    let launcher = Arc::new(with_descriptors("64:4096").await);
    let ran = run_many(&launcher, 30).await;
    assert_eq!(ran, 30);
}

#[tokio::test]
async fn a_launcher_without_descriptors_refuses_and_lives() {
    let launcher = Arc::new(with_descriptors("64:64").await);
    let first = launcher.run(job("honest", &["sleep", "3000"])).await.unwrap();
    let ran = run_many(&launcher, 30).await;
    assert!((1..30).contains(&ran), "{ran} of 30 ran");
    assert_eq!(to_end(first).await.code(), 0, "who ran before goes on");
    assert_eq!(run(&launcher, job("honest", &["exit", "4"])).await.code(), 4);
}

async fn with_descriptors(soft_and_hard: &str) -> Launcher {
    let args = [&format!("--nofile={soft_and_hard}"), LAB, "launcher"].map(str::to_owned);
    let options = LauncherOptions { command: "/usr/bin/prlimit".into(), args: args.into(), required: vec![] };
    Launcher::start(options).await.unwrap()
}

/// How many of so many at once were started and ended well.
async fn run_many(launcher: &Arc<Launcher>, count: usize) -> usize {
    let mut all = JoinSet::new();
    for _ in 0..count {
        let launcher = launcher.clone();
        all.spawn(async move {
            let Ok(running) = launcher.run(job("honest", &["sleep", "1500"])).await else { return 0 };
            assert_eq!(to_end(running).await.code(), 0);
            1
        });
    }
    all.join_all().await.into_iter().sum()
}
