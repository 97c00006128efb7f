//! The names of all attacks, and the one test that sets them all on one launcher.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_sandbox::{LimitHit, Network, Status};

use crate::canary::Canary;
use crate::ends::launchers_of;
use crate::greedy::{SMALL, take};
use crate::hostile::attack;
use crate::lab::{User, has_limits, job, launcher, run, to_end, until_ready};

pub(crate) const FILES: &[&str] = &[
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
    "spoil_own_file",
    "leave_shared_memory",
    "find_shared_memory",
    "own_groups",
];

pub(crate) const NAMESPACES: &[&str] = &[
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

pub(crate) const PROCESSES: &[&str] = &[
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
    "stop_outside",
    "stop_siblings",
    "slow_everybody",
    "new_process_calls",
    "execute_in_memory",
    "become_dumpable",
    "sibling_of_the_first",
];

pub(crate) const KERNEL: &[&str] = &[
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
    "huge_pages",
    "urgent_bytes",
    "packet_filters",
    "watch_files",
    "other_queues",
    "calls_of_the_future",
    "calls_of_the_past",
    "random_pool",
    "file_system_calls",
    "processor_games",
];

pub(crate) const NETWORK: &[&str] = &[
    "tcp_loopback",
    "tcp_any",
    "tcp_metadata",
    "udp_loopback",
    "udp_dns",
    "listen_anywhere",
    "version_6",
    "tcp_all_loopback",
    "udp_all_loopback",
    "name_another_device",
    "raw",
    "packet",
    "netlink",
    "vsock",
    "rare_families",
    "rare_protocols",
    "abstract_socket",
    "interfaces",
    "forge_credentials",
];

/// Programs that try to get out, by the file in `tests/programs` that has them.
pub(crate) const ESCAPES: [(&str, &[&str]); 5] =
    [("files", FILES), ("namespaces", NAMESPACES), ("processes", PROCESSES), ("kernel", KERNEL), ("network", NETWORK)];

const KILLED: Status = Status::Signal(libc::SIGKILL);
const ENDED: Status = Status::Code(0);

/// Programs that take all they can get, how each ends, and the limit that is named.
pub(crate) const GREED: &[(&str, Status, Option<LimitHit>)] = &[
    ("memory_private", KILLED, Some(LimitHit::Oom)),
    ("memory_shared", KILLED, Some(LimitHit::Oom)),
    ("memory_memfd", KILLED, Some(LimitHit::Oom)),
    ("fork_bomb", ENDED, Some(LimitHit::Pids)),
    ("thread_bomb", ENDED, Some(LimitHit::Pids)),
    ("disk", ENDED, Some(LimitHit::Disk)),
    ("disk_inodes", ENDED, Some(LimitHit::Disk)),
    ("disk_allocate", ENDED, Some(LimitHit::Disk)),
    ("one_large_file", Status::Signal(libc::SIGXFSZ), Some(LimitHit::Disk)),
    ("deep_folders", ENDED, Some(LimitHit::Disk)),
    ("output", KILLED, Some(LimitHit::Output)),
    ("errors", KILLED, Some(LimitHit::Output)),
    ("result", ENDED, Some(LimitHit::Result)),
    ("descriptors", ENDED, None),
    ("descriptors_in_flight", ENDED, None),
    ("pipes", ENDED, None),
    ("close_everything", ENDED, None),
    ("timers", ENDED, None),
    ("signals_pending", ENDED, None),
    ("epolls", ENDED, None),
    ("stack", Status::Signal(libc::SIGSEGV), None),
    ("execute_again", ENDED, None),
    ("core_dump", Status::Signal(libc::SIGABRT), None),
];

/// Fewer would mean that somebody took some away.
const HOSTILE_PROGRAMS_MIN: usize = 150;

#[tokio::test]
async fn one_launcher_outlives_every_hostile_program() {
    let mut canary = Canary::new();
    let launcher = launcher(User::Same).await;
    let [process] = launchers_of(std::process::id())[..] else { panic!("one launcher is expected") };
    let mut tried: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut escaped = Vec::new();
    for (program, attacks) in ESCAPES {
        for name in attacks {
            assert!(tried.insert((program, name)), "{name} is listed twice");
            let ran = attack(&launcher, &mut canary, program, name, Network::None).await;
            if ran.exit.status != Status::Code(0) {
                escaped.push(format!("{program} {name}: {:?}\n{}{}", ran.exit, ran.stdout, ran.stderr));
            }
        }
    }
    let limited = has_limits(&launcher);
    for (name, status, hit) in GREED {
        assert!(tried.insert(("greedy", name)), "{name} is listed twice");
        let is_counted = matches!(hit, Some(LimitHit::Oom | LimitHit::Pids));
        if is_counted && !limited {
            continue;
        }
        let ran = take(&launcher, name, SMALL).await;
        if (ran.exit.status, ran.exit.hit) != (*status, *hit) {
            escaped.push(format!("greedy {name}: {:?}\n{}{}", ran.exit, ran.stdout, ran.stderr));
        }
        canary.assert_untouched();
    }
    assert!(escaped.is_empty(), "{} of {} got somewhere:\n{}", escaped.len(), tried.len(), escaped.join("\n"));
    assert!(tried.len() >= HOSTILE_PROGRAMS_MIN, "{} hostile programs", tried.len());
    assert_eq!(launchers_of(std::process::id()), [process], "the launcher is the one that was started");
    assert_eq!(run(&launcher, job("honest", &["exit", "3"])).await.code(), 3);
}

#[tokio::test]
async fn who_burns_the_processor_leaves_some_to_the_neighbour() {
    let launcher = launcher(User::Same).await;
    if !has_limits(&launcher) {
        return;
    }
    let mut burning = launcher.run(job("greedy", &["processor"])).await.unwrap();
    until_ready(&mut burning).await;
    for _ in 0..10 {
        let neighbour = run(&launcher, job("honest", &["sleep", "20"])).await;
        assert_eq!(neighbour.code(), 0);
        assert!(neighbour.exit.wall < Duration::from_secs(1), "{:?}", neighbour.exit);
    }
    burning.kill();
    let exit = to_end(burning).await.exit;
    // One processor in each 100 ms, however many threads want more.
    assert!(exit.cpu < exit.wall + Duration::from_millis(300), "{exit:?}");
}

/// The kernel counts descriptors on their way for all programs of a user, and these are all the same.
#[tokio::test]
async fn who_holds_descriptors_in_flight_keeps_nobody_from_starting() {
    for user in [User::Same, User::Nobody] {
        if user == User::Nobody && !rustix::process::geteuid().is_root() {
            eprintln!("skipped: the part as another user, because only root can change users");
            continue;
        }
        let launcher = launcher(user).await;
        let mut hoarding = launcher.run(job("greedy", &["descriptors_in_flight"])).await.unwrap();
        until_ready(&mut hoarding).await;
        for _ in 0..3 {
            assert_eq!(run(&launcher, job("honest", &["true"])).await.code(), 0);
        }
        assert_eq!(to_end(hoarding).await.code(), 0);
    }
}
