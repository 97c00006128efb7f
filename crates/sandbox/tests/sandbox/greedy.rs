//! Programs that take all they can get. Each is stopped, and the reason is named.

use std::time::Duration;

use punctual_sandbox::{Launcher, LimitHit, Limits, Protection, Status};

use crate::lab::{Ran, User, has_limits, job, launcher, run, to_end, until_ready};

pub(crate) const SMALL: Limits = Limits {
    memory_bytes: 64 << 20,
    cpu_millis: 1000,
    pids: 32,
    output_bytes: 1 << 20,
    disk_bytes: 8 << 20,
    open_files: 256,
};

pub(crate) async fn take(launcher: &Launcher, what: &str, limits: Limits) -> Ran {
    let mut greedy = job("greedy", &[what]);
    greedy.limits = limits;
    let (ran, neighbour) = tokio::join!(run(launcher, greedy), run(launcher, job("honest", &["sleep", "50"])));
    assert_eq!(neighbour.code(), 0, "the neighbour of {what} did not end well");
    assert!(neighbour.exit.wall < Duration::from_secs(3), "the neighbour took {:?}", neighbour.exit.wall);
    ran
}

async fn check(launcher: &Launcher, what: &str, limits: Limits, status: Status, hit: Option<LimitHit>) {
    let ran = take(launcher, what, limits).await;
    assert_eq!((ran.exit.status, ran.exit.hit), (status, hit), "{what}: {:?} {}", ran.exit, ran.stderr);
}

const KILLED: Status = Status::Signal(libc::SIGKILL);
const ENDED: Status = Status::Code(0);

#[tokio::test]
async fn memory_in_files_and_in_many_processes_counts() {
    let launcher = launcher(User::Same).await;
    if !has_limits(&launcher) {
        return;
    }
    let large_disk = Limits { disk_bytes: 1 << 30, ..SMALL };
    check(&launcher, "memory_files", large_disk, KILLED, Some(LimitHit::Oom)).await;
    let ran = take(&launcher, "memory_children", SMALL).await;
    assert_eq!(ran.exit.hit, Some(LimitHit::Oom), "{ran:?}");
}

#[tokio::test]
async fn what_is_within_the_limit_of_output_is_kept() {
    let launcher = launcher(User::Same).await;
    let ran = take(&launcher, "output", SMALL).await;
    assert_eq!(ran.stdout.len() + ran.stderr.len(), 1 << 20);
    assert_eq!(take(&launcher, "result", SMALL).await.exit.result, None);
}

#[tokio::test]
async fn who_does_not_end_is_ended() {
    let launcher = launcher(User::Same).await;
    for stubborn in ["ignore_terminate", "stop_itself"] {
        let mut running = launcher.run(job("greedy", &[stubborn])).await.unwrap();
        until_ready(&mut running).await;
        running.terminate();
        let grace = tokio::time::timeout(Duration::from_millis(200), running.wait()).await;
        assert!(grace.is_err(), "{stubborn} ended by itself: {grace:?}");
        running.kill();
        assert_eq!(to_end(running).await.exit.status, KILLED);
    }
}

#[tokio::test]
async fn an_unprivileged_worker_stops_what_it_can() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: these tests run unprivileged already");
        return;
    }
    let launcher = launcher(User::Nobody).await;
    // Without control groups the reason is not known, but it is stopped.
    for kind in ["memory_private", "fork_bomb", "thread_bomb", "descriptors"] {
        check(&launcher, kind, SMALL, ENDED, None).await;
    }
    check(&launcher, "disk", SMALL, ENDED, Some(LimitHit::Disk)).await;
    check(&launcher, "output", SMALL, KILLED, Some(LimitHit::Output)).await;
}

/// Files in memory and shared mappings belong to no process, so without control groups nothing would count them.
#[tokio::test]
async fn shared_memory_is_refused_where_nothing_counts_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a launcher as another user");
        return;
    }
    let launcher = launcher(User::Nobody).await;
    assert!(!launcher.level().has(Protection::MemoryLimit), "{}", launcher.level());
    check(&launcher, "memory_memfd", SMALL, ENDED, None).await;
    check(&launcher, "memory_of_nobody", SMALL, ENDED, None).await;
}
