//! Programs that try to get out. Each must fail, while a neighbour is not disturbed and what
//! is outside stays as it was.

use std::time::Duration;

use punctual_sandbox::{Launcher, Network, Status, Stdin};
use rustix::fs::{Mode, OFlags};

use crate::canary::Canary;
use crate::corpus::{ESCAPES, KERNEL};
use crate::lab::{Ran, User, job, launcher, run};

/// With the machine's network these are still out of reach.
const WITH_NETWORK: &[&str] = &[
    "raw",
    "packet",
    "netlink",
    "vsock",
    "rare_families",
    "rare_protocols",
    "abstract_socket",
    "interfaces",
    "forge_credentials",
    "tcp_all_loopback",
    "udp_all_loopback",
    "name_another_device",
];

/// How late a neighbour may be: two processors may be busy with other tests.
const NEIGHBOUR_DELAY_MAX: Duration = Duration::from_secs(3);

pub(crate) async fn attack(
    launcher: &Launcher,
    canary: &mut Canary,
    program: &str,
    name: &str,
    network: Network,
) -> Ran {
    let targets = canary.targets();
    let mut args = vec![name];
    args.extend(targets.iter().map(String::as_str));
    let mut hostile = job(program, &args);
    hostile.network = network;
    hostile.stdin = Stdin::Bytes("some input".into());
    let neighbour = job("honest", &["sleep", "20"]);
    let (ran, beside) = tokio::join!(run(launcher, hostile), run(launcher, neighbour));
    assert_eq!(beside.code(), 0, "the neighbour of {name} did not end well");
    assert!(beside.exit.wall < NEIGHBOUR_DELAY_MAX, "the neighbour of {name} took {:?}", beside.exit.wall);
    canary.assert_untouched();
    ran
}

async fn all_are_refused(user: User, program: &str, attacks: &[&str], network: Network) {
    let mut canary = Canary::new();
    // A worker's carelessness: a descriptor that its children inherit.
    let _careless = rustix::fs::open(canary.file(), OFlags::RDWR, Mode::empty()).unwrap();
    let launcher = launcher(user).await;
    let mut escaped = Vec::new();
    for name in attacks {
        let ran = attack(&launcher, &mut canary, program, name, network).await;
        if ran.exit.status != Status::Code(0) {
            escaped.push(format!("{name}: {:?}\n{}{}", ran.exit, ran.stdout, ran.stderr));
        }
    }
    assert!(
        escaped.is_empty(),
        "{} of {} attacks got somewhere:\n{}",
        escaped.len(),
        attacks.len(),
        escaped.join("\n")
    );
}

#[tokio::test]
async fn the_network_of_the_machine_gives_nothing_else() {
    all_are_refused(User::Same, "network", WITH_NETWORK, Network::Host).await;
    all_are_refused(User::Same, "kernel", KERNEL, Network::Host).await;
    if rustix::process::geteuid().is_root() {
        all_are_refused(User::Nobody, "network", WITH_NETWORK, Network::Host).await;
    }
}

#[tokio::test]
async fn an_unprivileged_worker_is_as_safe() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: these tests run unprivileged already");
        return;
    }
    for (program, attacks) in ESCAPES {
        all_are_refused(User::Nobody, program, attacks, Network::None).await;
    }
}

#[tokio::test]
async fn killing_everybody_kills_itself_only() {
    let mut canary = Canary::new();
    let launcher = launcher(User::Same).await;
    let ran = attack(&launcher, &mut canary, "processes", "kill_everybody", Network::None).await;
    assert_eq!(ran.exit.status, Status::Signal(libc::SIGKILL), "{ran:?}");
}

#[tokio::test]
async fn calls_of_another_architecture_are_deadly() {
    let mut canary = Canary::new();
    let launcher = launcher(User::Same).await;
    let ran = attack(&launcher, &mut canary, "kernel", "calls_of_32_bits", Network::None).await;
    assert_eq!(ran.exit.status, Status::Signal(libc::SIGSYS), "{ran:?}");
}

/// Where the worker is not root it owns the sealed file, and so do its programs.
#[tokio::test]
async fn who_owns_its_own_file_cannot_spoil_it_for_the_next() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: these tests own it already, and only root can give it away");
        return;
    }
    let launcher = launcher(User::Nobody).await;
    let hostile = job("files", &["spoil_own_file"]);
    let nobody = (rustix::fs::Uid::from_raw(65534), rustix::fs::Gid::from_raw(65534));
    rustix::fs::fchown(&hostile.program, Some(nobody.0), Some(nobody.1)).unwrap();
    let mut again = job("files", &["read_passwd"]);
    again.program = hostile.program.try_clone().unwrap();
    assert_eq!(run(&launcher, hostile).await.code(), 0);
    assert_eq!(run(&launcher, again).await.code(), 0, "the same file is executed again");
}
