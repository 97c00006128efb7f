//! The system calls that no safe crate offers. All `unsafe` code of this crate is in this
//! module, each piece as small as it can be.

pub(crate) mod listener;

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::UnshareFlags;
use tokio::io::unix::AsyncFd;

use crate::keeper::{GroupWord, tell_keeper};

/// Proof that this process has one thread. Only then may a forked child go on with ordinary
/// code: no other thread can have held a lock, such as that of the allocator.
pub(crate) struct SingleThread(());

impl SingleThread {
    pub(crate) fn check() -> io::Result<Self> {
        match std::fs::read_dir("/proc/self/task")?.count() {
            1 => Ok(Self(())),
            count => Err(io::Error::other(format!("the launcher has {count} threads, and must have one"))),
        }
    }
}

/// The constant of the libc crate is too narrow for its value.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

pub(crate) enum Fork {
    Child,
    Parent { pid: Pid, pidfd: OwnedFd },
}

/// Forks a child that is the first process of a new pid namespace in a new user namespace.
/// With `cgroup`, a directory of cgroup v2, it is a member from its first moment on.
pub(crate) fn fork_into_namespaces(_: &SingleThread, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Fork> {
    let mut pidfd: c_int = -1;
    // SAFETY: all zeros is a valid clone_args, and means "nothing special" in each field.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_PIDFD) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    args.pidfd = &raw mut pidfd as u64;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: without CLONE_VM this is a fork: the child has its own copy of the memory and
    // returns from here like the parent. `args` and `pidfd` outlive the call. The process has
    // one thread, by the token.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    if pid == 0 {
        return Ok(Fork::Child);
    }
    let pid = positive_pid(pid)?;
    // SAFETY: the kernel stored a new descriptor there, and nobody else knows of it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Fork::Parent { pid, pidfd })
}

/// Forks, and lets the parent sleep until the child has executed something or is gone.
/// `None` is the child.
pub(crate) fn fork_until_exec(_: &SingleThread) -> io::Result<Option<Pid>> {
    let flags = c_long::from(libc::CLONE_VFORK | libc::SIGCHLD);
    // SAFETY: as above: no CLONE_VM, so both have their own memory, and there is one thread.
    // A stack of null means a copy of ours.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0 as c_long, 0 as c_long, 0 as c_long, 0 as c_long) };
    if pid == 0 {
        return Ok(None);
    }
    positive_pid(pid).map(Some)
}

fn positive_pid(pid: c_long) -> io::Result<Pid> {
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("fork gave no process id"))
}

pub(crate) fn unshare(_: &SingleThread, namespaces: UnshareFlags) -> io::Result<()> {
    // SAFETY: unsafe only because CLONE_FILES would let a thread lose descriptors that it
    // shares with others; there are no other threads.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }.map_err(Into::into)
}

/// Executes the file behind a descriptor. Returns only if that failed.
pub(crate) fn execute(program: BorrowedFd<'_>, args: &[CString], env: &[CString]) -> io::Error {
    let args = null_terminated(args);
    let env = null_terminated(env);
    // SAFETY: both arrays end with null and, like the strings they point to, outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            c_long::from(program.as_raw_fd()),
            c"".as_ptr(),
            args.as_ptr(),
            env.as_ptr(),
            c_long::from(libc::AT_EMPTY_PATH),
        );
    }
    io::Error::last_os_error()
}

fn null_terminated(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Closes every descriptor but the given ones. Only for a process that has just been forked and will never again use
/// what it inherited.
pub(crate) fn close_all_except(keep: &mut [RawFd]) -> io::Result<()> {
    keep.sort_unstable();
    let mut first: c_uint = 0;
    for &kept in keep.iter() {
        let kept = kept as c_uint;
        if kept > first {
            close_range(first, kept - 1, 0)?;
        }
        first = kept + 1;
    }
    close_range(first, c_uint::MAX, 0)
}

/// Makes sure that only stdin, stdout and stderr stay open across an exec.
pub(crate) fn close_all_but_stdio_on_exec() -> io::Result<()> {
    close_range(3, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// Starts `command` in a session of its own, with nothing open but stdin, stdout and stderr. It is not isolated: this
/// is for programs outside the sandbox.
pub fn set_apart(command: &mut std::process::Command) {
    let apart = || {
        rustix::process::setsid()?;
        close_all_but_stdio_on_exec()
    };
    // SAFETY: a child of a process with threads may not touch memory that they share, such as the allocator's. These
    // are two system calls with numbers only.
    unsafe { command.pre_exec(apart) };
}

/// As [`set_apart`]; and the command's process group is known to `keeper`, see [`tell_keeper`], before the command runs:
/// it says so itself. Until it has, it holds the pipe open, so that there is no moment in which its parent can die and
/// leave it behind. One that cannot be executed takes its word back while its number is still its own. Without a
/// keeper that reads nothing is executed, and the error is a broken pipe.
///
/// To be called last: the path of the program, the arguments and the environment are taken as they are now. Nothing is
/// inherited of this process' environment.
pub fn set_apart_with_keeper(command: &mut std::process::Command, keeper: OwnedFd) -> io::Result<()> {
    let image = Image::of(command)?;
    let become_it = move || {
        crate::umask::restore();
        let group = rustix::process::setsid()?;
        close_all_but_stdio_on_exec()?;
        tell_without_sigpipe(keeper.as_fd(), GroupWord::Add, group)?;
        let error = image.execute();
        // If there is no keeper any more, it knows of no group.
        let _ = tell_without_sigpipe(keeper.as_fd(), GroupWord::Remove, group);
        Err(error)
    };
    // SAFETY: as above. These are system calls with numbers, with a line on the stack, and with memory that is this
    // child's own copy and that nothing else uses.
    unsafe { command.pre_exec(become_it) };
    Ok(())
}

/// Tells the keeper from a child before its exec, with SIGPIPE ignored: by default the signal would end the child
/// silently, and the parent would believe that the program had been executed.
fn tell_without_sigpipe(keeper: BorrowedFd<'_>, word: GroupWord, group: Pid) -> io::Result<()> {
    ignore_sigpipe();
    let told = tell_keeper(keeper, word, group);
    // SAFETY: sets no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    told
}

/// A program with its arguments and environment, made before the fork, because a child of a process with threads may
/// not allocate.
struct Image {
    /// The first is the path of the program.
    args: Vec<*const c_char>,
    env: Vec<*const c_char>,
    /// The strings that the pointers point to.
    _strings: [Vec<CString>; 2],
}

// SAFETY: the pointers are to strings on the heap that it owns, and nobody changes them.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    fn of(command: &std::process::Command) -> io::Result<Self> {
        let args = std::iter::once(command.get_program()).chain(command.get_args());
        let args = args.map(|arg| CString::new(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let env = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let env = env.map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
        let env = env.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { args: null_terminated(&args), env: null_terminated(&env), _strings: [args, env] })
    }

    /// Returns only if that failed.
    fn execute(&self) -> io::Error {
        // SAFETY: both arrays end with null and, like the strings they point to, live as long as `self`.
        unsafe { libc::execvpe(self.args[0], self.args.as_ptr(), self.env.as_ptr()) };
        io::Error::last_os_error()
    }
}

fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> io::Result<()> {
    // SAFETY: takes numbers only. Whoever owns one of the descriptors does not use it again,
    // see the two callers.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Resets every signal to its default action, and unblocks all.
pub(crate) fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: sets no handler. SIGKILL and the like are refused, which changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: the set is initialised by sigemptyset before it is used.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Makes a write to a closed pipe an error, instead of the end of this process.
pub(crate) fn ignore_sigpipe() {
    // SAFETY: sets no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Removes every capability that the kernel knows from the bounding set.
pub(crate) fn clear_bounding_set() -> io::Result<()> {
    let nothing: c_ulong = 0;
    for capability in 0..64 as c_ulong {
        // SAFETY: takes numbers only.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, nothing, nothing, nothing) } == 0 {
            continue;
        }
        let error = io::Error::last_os_error();
        // The first number that the kernel does not know.
        return if capability > 0 && error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) };
    }
    Ok(())
}

/// The resources that a child and all children it waited for have used.
pub(crate) struct ReapedChild {
    pub(crate) cpu: Duration,
    pub(crate) peak_memory_bytes: u64,
}

/// Reaps a child that is known to be dead.
pub(crate) fn reap(pid: Pid) -> io::Result<ReapedChild> {
    let mut status: c_int = 0;
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to locals that outlive the call.
        if unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, 0, &raw mut usage) } >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec.unsigned_abs()) + Duration::from_micros(value.tv_usec.unsigned_abs())
    };
    Ok(ReapedChild {
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        peak_memory_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
    })
}

/// Waits for a descriptor with tokio instead of a blocked thread.
pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is one open descriptor until it is dropped, and the AsyncFd owns it.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

/// Ends this process at once, without destructors and without flushing buffers of the parent.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: does not return, touches no memory.
    unsafe { libc::_exit(code) }
}

/// Whether the filter refuses a system call that it must refuse.
pub(crate) fn keyrings_are_refused() -> bool {
    let name: &CStr = c"punctual";
    // SAFETY: the string outlives the call; the other arguments are numbers.
    let key = unsafe { libc::syscall(libc::SYS_request_key, name.as_ptr(), name.as_ptr(), 0 as c_long, 0 as c_long) };
    key < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS)
}
