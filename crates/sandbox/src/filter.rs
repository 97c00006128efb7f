//! Which system calls a program may make: a list of those that ordinary programs need, and
//! nothing else. What is not on it is answered with "not implemented", since runtimes then
//! fall back to an older call, as they do on an old kernel.
//!
//! Left out on purpose: everything about mounts, namespaces, tracing, keys, modules, clocks
//! and devices; `clone3`, whose flags are out of a filter's sight; `io_uring`, whose
//! operations are; System V IPC; every setter of users and capabilities; and `inotify`, whose
//! instances are few and counted for the worker's user as a whole.

mod calls;

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use crate::job::Network;

/// Compiled once, and inherited by each sandbox.
pub(crate) struct Filters(Vec<(Network, SharedMemory, BpfProgram)>);

/// Whether a program may have memory that belongs to no process: files in memory (`memfd_create`) and shared mappings without a
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedMemory {
    /// It counts as the program's memory.
    Counted,
    /// It is refused, because nothing would count it.
    Refused,
}

/// A condition on one argument.
struct Argument {
    index: u8,
    test: SeccompCmpOp,
    value: u64,
}

impl Filters {
    pub(crate) fn compile() -> io::Result<Self> {
        let mut filters = Vec::with_capacity(4);
        for network in [Network::None, Network::Host] {
            for shared in [SharedMemory::Counted, SharedMemory::Refused] {
                filters.push((network, shared, compile(network, shared).map_err(io::Error::other)?));
            }
        }
        Ok(Self(filters))
    }

    pub(crate) fn install(&self, network: Network, shared: SharedMemory) -> io::Result<()> {
        let wanted = self.0.iter().find(|filter| (filter.0, filter.1) == (network, shared));
        let (_, _, filter) = wanted.expect("there is a filter for each combination");
        apply_filter(filter).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            _ => rustix::io::Errno::INVAL.into(),
        })
    }
}

fn compile(network: Network, shared: SharedMemory) -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    for call in calls::ANY_ARGUMENTS.iter().chain(calls::OF_THIS_MACHINE) {
        rules.insert(*call, Vec::new());
    }
    let mut allow = |call: c_long, arguments: &[Argument]| -> Result<(), BackendError> {
        rules.entry(call).or_default().push(rule(arguments)?);
        Ok(())
    };
    allow(libc::SYS_clone, &[masked(0, calls::NEW_NAMESPACES, 0)])?;
    for option in calls::PRCTL_OPTIONS {
        allow(libc::SYS_prctl, &[exactly(0, *option)])?;
    }
    for request in calls::IOCTL_REQUESTS {
        allow(libc::SYS_ioctl, &[exactly(1, *request)])?;
    }
    // Its own limits only, and asking which personality it has.
    allow(libc::SYS_prlimit64, &[exactly(0, 0)])?;
    allow(libc::SYS_personality, &[exactly(0, 0xffff_ffff)])?;
    // Named pipes, no devices.
    allow(libc::SYS_mknodat, &[masked(2, libc::S_IFMT.into(), libc::S_IFIFO.into())])?;
    #[cfg(target_arch = "x86_64")]
    allow(libc::SYS_mknod, &[masked(1, libc::S_IFMT.into(), libc::S_IFIFO.into())])?;
    // Huge pages that somebody set aside for another program are not counted as the job's memory.
    let huge = libc::MAP_HUGETLB as u64;
    match shared {
        SharedMemory::Counted => {
            allow(libc::SYS_mmap, &[masked(3, huge, 0)])?;
            allow(libc::SYS_memfd_create, &[masked(1, libc::MFD_HUGETLB.into(), 0)])?;
        }
        SharedMemory::Refused => {
            // A mapping is of a file, or private.
            allow(libc::SYS_mmap, &[masked(3, huge | libc::MAP_ANONYMOUS as u64, 0)])?;
            allow(libc::SYS_mmap, &[masked(3, huge | libc::MAP_TYPE as u64, libc::MAP_PRIVATE as u64)])?;
        }
    }
    // Urgent bytes: nobody needs them, and attackers of the kernel have.
    let mut with_flags = calls::WITH_MESSAGE_FLAGS.to_vec();
    if network == Network::Host {
        // A control message can name another device than the one that the socket is bound to, such as loopback.
        with_flags.retain(|(call, _)| !calls::WITH_CONTROL_MESSAGES.contains(call));
    }
    for (call, flags) in with_flags {
        allow(call, &[masked(flags, libc::MSG_OOB as u64, 0)])?;
    }
    // No programs of the packet filter: they are compiled, and run inside the kernel.
    let socket_level = libc::SOL_SOCKET as u64;
    allow(libc::SYS_setsockopt, &[other_than(1, socket_level)])?;
    let mut no_programs = vec![exactly(1, socket_level)];
    no_programs.extend(calls::PACKET_FILTER_OPTIONS.map(|option| other_than(2, option)));
    allow(libc::SYS_setsockopt, &no_programs)?;
    allow(libc::SYS_socketpair, &[exactly(0, libc::AF_UNIX as u64)])?;
    match network {
        Network::None => allow(libc::SYS_socket, &[exactly(0, libc::AF_UNIX as u64)])?,
        Network::Host => {
            for (family, kind, protocol) in calls::INTERNET_SOCKETS {
                // The bits above these say "close on exec" and "do not block".
                allow(libc::SYS_socket, &[exactly(0, family), masked(1, 0xf, kind), exactly(2, protocol)])?;
            }
        }
    }
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, architecture)?;
    BpfProgram::try_from(filter)
}

fn rule(arguments: &[Argument]) -> Result<SeccompRule, BackendError> {
    let conditions = arguments
        .iter()
        .map(|Argument { index, test, value }| {
            SeccompCondition::new(*index, SeccompCmpArgLen::Dword, test.clone(), *value)
        })
        .collect::<Result<Vec<_>, _>>()?;
    SeccompRule::new(conditions)
}

/// All arguments that are looked at are 32 bits wide to the kernel, too.
fn exactly(index: u8, value: u64) -> Argument {
    Argument { index, test: SeccompCmpOp::Eq, value }
}

fn other_than(index: u8, value: u64) -> Argument {
    Argument { index, test: SeccompCmpOp::Ne, value }
}

/// Matches an argument whose bits under `mask` are `value`.
fn masked(index: u8, mask: u64, value: u64) -> Argument {
    Argument { index, test: SeccompCmpOp::MaskedEq(mask), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_filters_compile_and_fit_into_the_kernel() {
        let Filters(filters) = Filters::compile().unwrap();
        // The kernel takes 4096 instructions.
        assert!(filters.len() == 4 && filters.iter().all(|(_, _, filter)| filter.len() < 4096));
    }

    #[test]
    fn what_must_be_refused_is_on_no_list() {
        let listed: Vec<c_long> = calls::ANY_ARGUMENTS.iter().chain(calls::OF_THIS_MACHINE).copied().collect();
        for refused in [
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_move_mount,
            libc::SYS_open_tree,
            libc::SYS_fsopen,
            libc::SYS_mount_setattr,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_kcmp,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_open_by_handle_at,
            libc::SYS_name_to_handle_at,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_acct,
            libc::SYS_quotactl,
            libc::SYS_seccomp,
            libc::SYS_capset,
            libc::SYS_setuid,
            libc::SYS_setresuid,
            libc::SYS_setgroups,
            libc::SYS_settimeofday,
            libc::SYS_clock_settime,
            libc::SYS_sethostname,
            libc::SYS_syslog,
            libc::SYS_fanotify_init,
            libc::SYS_socket,
            libc::SYS_ioctl,
            libc::SYS_prctl,
            libc::SYS_mmap,
            libc::SYS_memfd_create,
            libc::SYS_setsockopt,
            libc::SYS_sendmsg,
            libc::SYS_inotify_init1,
        ] {
            assert!(!listed.contains(&refused), "call {refused} is allowed");
        }
    }
}
