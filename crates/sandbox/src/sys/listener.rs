//! Seccomp's user notification, for one call: `socket` for the internet. The program's call waits in the kernel until
//! the launcher has made the socket and put it into the program. Its arguments are numbers, so there is nothing that
//! the program could change while they are looked at.

use std::ffi::{c_int, c_long, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

const NR: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
const ARCH: u32 = std::mem::offset_of!(libc::seccomp_data, arch) as u32;
/// The lower half of the first argument, on machines with the low byte first.
const FAMILY: u32 = std::mem::offset_of!(libc::seccomp_data, args) as u32;

#[cfg(target_arch = "x86_64")]
const THIS_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const THIS_ARCH: u32 = 0xc000_00b7;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn step(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// The filter that notifies the launcher. Refusals of other filters take precedence over a notification.
const SOCKETS_OF_THE_INTERNET: [libc::sock_filter; 9] = [
    step(LOAD, ARCH, 0, 0),
    step(JUMP_IF_EQUAL, THIS_ARCH, 0, 5),
    step(LOAD, NR, 0, 0),
    step(JUMP_IF_EQUAL, libc::SYS_socket as u32, 0, 3),
    step(LOAD, FAMILY, 0, 0),
    step(JUMP_IF_EQUAL, libc::AF_INET as u32, 2, 0),
    step(JUMP_IF_EQUAL, libc::AF_INET6 as u32, 1, 0),
    step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    step(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0, 0),
];

/// Lets the launcher make this process' internet sockets from now on. Needs "no new privileges".
pub(crate) fn listen_for_sockets() -> io::Result<OwnedFd> {
    let mut filter = SOCKETS_OF_THE_INTERNET;
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its instructions outlive the call, which copies them.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            c_long::from(libc::SECCOMP_SET_MODE_FILTER),
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as c_long,
            &raw const program,
        )
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made it for us, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as c_int) })
}

/// A call of `socket` that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketCall {
    id: u64,
    pub(crate) family: c_int,
    /// The socket type, with the flags for "close on exec" and "do not block".
    pub(crate) kind: c_int,
    pub(crate) protocol: c_int,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Call(SocketCall),
    Nothing,
    /// No process is left that could call.
    End,
}

/// Reads the next call. Never blocks.
pub(crate) fn next_call(listener: BorrowedFd<'_>) -> Next {
    let mut watched = [PollFd::from_borrowed_fd(listener, PollFlags::IN)];
    let polled = poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    let found = watched[0].revents();
    if polled.is_err() || !found.contains(PollFlags::IN) {
        return if found.intersects(PollFlags::HUP | PollFlags::ERR) { Next::End } else { Next::Nothing };
    }
    // SAFETY: all zeros is a valid seccomp_notif, and the one that the kernel asks for.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    if ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV as c_ulong, &raw mut call).is_err() {
        // The caller was killed meanwhile.
        return Next::Nothing;
    }
    let [family, kind, protocol, ..] = call.data.args.map(|argument| argument as c_int);
    Next::Call(SocketCall { id: call.id, family, kind, protocol })
}

impl SocketCall {
    /// Puts the socket into the program, where it is the call's result.
    pub(crate) fn answer(&self, listener: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut given = libc::seccomp_notif_addfd {
            id: self.id,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: socket.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: (self.kind & libc::SOCK_CLOEXEC) as u32,
        };
        ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ADDFD as c_ulong, &raw mut given)
    }

    pub(crate) fn refuse(&self, listener: BorrowedFd<'_>, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(libc::EACCES);
        let mut answer = libc::seccomp_notif_resp { id: self.id, val: 0, error: -errno, flags: 0 };
        // If that fails the caller is gone.
        let _ = ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND as c_ulong, &raw mut answer);
    }
}

fn ioctl<T>(listener: BorrowedFd<'_>, request: c_ulong, argument: *mut T) -> io::Result<()> {
    // SAFETY: the callers pass the struct that the request is for, which outlives the call.
    match unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), request as _, argument) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Binds a socket to a network device permanently: undoing it needs a capability that programs do not have.
pub(crate) fn bind_to_device(socket: BorrowedFd<'_>, device: &str) -> io::Result<()> {
    // SAFETY: the name outlives the call, which copies it.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            device.as_ptr().cast(),
            device.len() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the owner of the files and sockets that this process creates from now on. Returns the previous owner.
pub(crate) fn set_owner(uid: u32) -> u32 {
    // SAFETY: takes a number only.
    unsafe { libc::setfsuid(uid) as u32 }
}
