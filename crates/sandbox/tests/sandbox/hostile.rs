//! Programs that try to get out. Each must fail, while a neighbour is not disturbed and what
//! is outside stays as it was.

use std::time::Duration;

use punctual_sandbox::{Launcher, Network, Status, Stdin};
use rustix::fs::{Mode, OFlags};

use crate::canary::Canary;
use crate::lab::{Ran, User, job, launcher, run};

const FILES: &[&str] = &[
    "read_passwd",
    "read_shadow",
    "read_root_home",
    "read_canary",
    "write_canary",
    "read_init_environ",
    "read_init_memory",
    "read_init_maps",
    "list_init_descriptors",
    "through_own_root",
    "through_init_root",
    "through_init_cwd",
    "through_dots",
    "through_own_file",
    "through_stdin",
    "through_symlink",
    "through_directory_symlink",
    "through_hard_link",
    "open_by_handle",
    "inherited_descriptors",
    "write_root",
    "make_root_folder",
    "write_dev",
    "change_dev_null",
    "replace_dev_null",
    "write_own_text",
    "write_stdin",
    "device_memory",
    "device_log",
    "device_disks",
    "make_device",
    "sysfs",
    "release_agent",
    "proc_sys",
    "write_proc_self",
    "list_root",
    "list_dev",
    "list_processes",
    "list_mounts",
    "execute_written",
    "host_sockets",
];

const NAMESPACES: &[&str] = &[
    "mount_tmpfs",
    "mount_proc",
    "mount_cgroup",
    "mount_bind",
    "remount_root",
    "unmount",
    "pivot",
    "change_root",
    "new_mount_calls",
    "unshare_user",
    "unshare_all",
    "join_init",
    "clone_flags",
    "clone3_flags",
    "host_name",
];

const PROCESSES: &[&str] = &[
    "trace_me",
    "trace_child",
    "trace_init",
    "trace_outside",
    "read_memory",
    "steal_descriptor",
    "signal_outside",
    "kill_init",
    "limit_init",
    "outlive",
    "many_orphans",
    "become_root",
    "gain_capabilities",
    "status_of_rights",
    "lift_filter",
    "prctl_games",
    "change_personality",
    "real_time",
    "lock_memory",
    "raise_limits",
];

const KERNEL: &[&str] = &[
    "io_uring",
    "bpf",
    "keyrings",
    "userfaultfd",
    "perf",
    "modules",
    "kexec",
    "restart",
    "swap",
    "ports",
    "accounting",
    "set_clock",
    "kernel_log",
    "watch_all_files",
    "secret_memory",
    "move_memory",
    "shared_memory_ids",
    "flush_machine",
    "hang_up",
    "type_into_terminal",
    "extra_attributes",
    "x32_calls",
];

const NETWORK: &[&str] = &[
    "tcp_loopback",
    "tcp_any",
    "tcp_metadata",
    "udp_loopback",
    "udp_dns",
    "listen_anywhere",
    "version_6",
    "raw",
    "packet",
    "netlink",
    "vsock",
    "rare_families",
    "rare_protocols",
    "abstract_socket",
    "interfaces",
];

/// With the machine's network these are still out of reach.
const WITH_NETWORK: &[&str] =
    &["raw", "packet", "netlink", "vsock", "rare_families", "rare_protocols", "abstract_socket", "interfaces"];

/// How late a neighbour may be: two processors may be busy with other tests.
const NEIGHBOUR_DELAY_MAX: Duration = Duration::from_secs(3);

async fn attack(launcher: &Launcher, canary: &mut Canary, program: &str, name: &str, network: Network) -> Ran {
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
async fn files_of_the_machine_are_out_of_reach() {
    all_are_refused(User::Same, "files", FILES, Network::None).await;
}

#[tokio::test]
async fn there_is_no_way_into_another_namespace() {
    all_are_refused(User::Same, "namespaces", NAMESPACES, Network::None).await;
}

#[tokio::test]
async fn other_processes_and_more_rights_are_out_of_reach() {
    all_are_refused(User::Same, "processes", PROCESSES, Network::None).await;
}

#[tokio::test]
async fn rare_parts_of_the_kernel_are_closed() {
    all_are_refused(User::Same, "kernel", KERNEL, Network::None).await;
}

#[tokio::test]
async fn there_is_no_network() {
    all_are_refused(User::Same, "network", NETWORK, Network::None).await;
}

#[tokio::test]
async fn the_network_of_the_machine_gives_nothing_else() {
    all_are_refused(User::Same, "network", WITH_NETWORK, Network::Host).await;
    all_are_refused(User::Same, "kernel", KERNEL, Network::Host).await;
}

#[tokio::test]
async fn the_network_of_the_machine_is_there_if_asked_for() {
    let canary = Canary::new();
    let launcher = launcher(User::Same).await;
    let targets = canary.targets();
    let mut args = vec!["tcp_loopback"];
    args.extend(targets.iter().map(String::as_str));
    let mut connecting = job("network", &args);
    connecting.network = Network::Host;
    // Here it is no escape, but what was asked for.
    let ran = run(&launcher, connecting).await;
    assert_eq!(ran.code(), 66, "{ran:?}");
}

#[tokio::test]
async fn an_unprivileged_worker_is_as_safe() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: these tests run unprivileged already");
        return;
    }
    for (program, attacks) in [
        ("files", FILES),
        ("namespaces", NAMESPACES),
        ("processes", PROCESSES),
        ("kernel", KERNEL),
        ("network", NETWORK),
    ] {
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
