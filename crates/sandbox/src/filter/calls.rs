//! The lists of the filter. Before you add a call, check what it can reach outside the sandbox.

use libc::c_long;

/// The flags of `clone` that make namespaces.
pub(super) const NEW_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

pub(super) const PRCTL_OPTIONS: &[u64] = &[
    libc::PR_SET_PDEATHSIG as u64,
    libc::PR_GET_PDEATHSIG as u64,
    libc::PR_GET_DUMPABLE as u64,
    libc::PR_SET_DUMPABLE as u64,
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_GET_SECCOMP as u64,
    libc::PR_CAPBSET_READ as u64,
    libc::PR_SET_TIMERSLACK as u64,
    libc::PR_GET_TIMERSLACK as u64,
    libc::PR_SET_NO_NEW_PRIVS as u64,
    libc::PR_GET_NO_NEW_PRIVS as u64,
    libc::PR_SET_THP_DISABLE as u64,
    libc::PR_GET_THP_DISABLE as u64,
    // PR_SET_VMA, by which allocators name their memory.
    0x5356_4d41,
];

/// None of them pushes anything into a terminal. By number, since their type differs between
/// C libraries; the numbers are the same on both machines.
pub(super) const IOCTL_REQUESTS: &[u64] = &[
    0x5401, // TCGETS, by which a program asks whether it talks to a terminal
    0x5413, // TIOCGWINSZ
    0x541b, // FIONREAD
    0x5421, // FIONBIO
    0x5450, // FIONCLEX
    0x5451, // FIOCLEX
];

/// Family, kind and protocol. Others would make the kernel load rarely used modules.
pub(super) const INTERNET_SOCKETS: [(u64, u64, u64); 8] = {
    const STREAM: u64 = libc::SOCK_STREAM as u64;
    const DATAGRAM: u64 = libc::SOCK_DGRAM as u64;
    const V4: u64 = libc::AF_INET as u64;
    const V6: u64 = libc::AF_INET6 as u64;
    [
        (V4, STREAM, 0),
        (V4, STREAM, libc::IPPROTO_TCP as u64),
        (V4, DATAGRAM, 0),
        (V4, DATAGRAM, libc::IPPROTO_UDP as u64),
        (V6, STREAM, 0),
        (V6, STREAM, libc::IPPROTO_TCP as u64),
        (V6, DATAGRAM, 0),
        (V6, DATAGRAM, libc::IPPROTO_UDP as u64),
    ]
};

/// Calls on sockets, and which of their arguments has flags.
pub(super) const WITH_MESSAGE_FLAGS: [(c_long, u8); 6] = [
    (libc::SYS_sendto, 3),
    (libc::SYS_recvfrom, 3),
    (libc::SYS_sendmsg, 2),
    (libc::SYS_recvmsg, 2),
    (libc::SYS_sendmmsg, 3),
    (libc::SYS_recvmmsg, 3),
];

/// The calls that send control messages.
pub(super) const WITH_CONTROL_MESSAGES: [c_long; 2] = [libc::SYS_sendmsg, libc::SYS_sendmmsg];

/// Options of sockets that take a program: SO_ATTACH_FILTER, SO_ATTACH_BPF, and the two for ports that are shared.
pub(super) const PACKET_FILTER_OPTIONS: [u64; 4] = [26, 50, 51, 52];

pub(super) const ANY_ARGUMENTS: &[c_long] = &[
    // Files: reading and writing.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_copy_file_range,
    libc::SYS_readahead,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_flock,
    libc::SYS_fcntl,
    // Files: names and attributes.
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_umask,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_membarrier,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    // Processes and threads.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getpgid,
    libc::SYS_setpgid,
    libc::SYS_getsid,
    libc::SYS_setsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_setparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_getcpu,
    // Signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sigaltstack,
    libc::SYS_signalfd4,
    libc::SYS_restart_syscall,
    // Time.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    // Waiting.
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    // Sockets, once there is one.
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    // About the machine.
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
];

/// The old names of calls above, which only x86_64 has.
#[cfg(target_arch = "x86_64")]
pub(super) const OF_THIS_MACHINE: &[c_long] = &[
    libc::SYS_arch_prctl,
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_setrlimit,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_signalfd,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
];

#[cfg(not(target_arch = "x86_64"))]
pub(super) const OF_THIS_MACHINE: &[c_long] = &[libc::SYS_getrlimit, libc::SYS_setrlimit];
