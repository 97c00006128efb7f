//! The launcher: a process with one thread beside the worker. It forks a sandbox for each
//! request, watches it, and reports how it ended. When its worker is gone it ends everything
//! and itself.
//!
//! It holds no secrets and decides nothing; the worker tells it what to run.

mod active;
mod outside;
mod probe;
mod start;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cgroup::Cgroups;
use crate::channel;
use crate::filter::Filters;
use crate::level::Level;
use crate::sys::{self, SingleThread};
use crate::wire;

use active::Active;

/// How long the sandboxes of a worker that is gone are waited for. They are killed already; only
/// their control groups would be left for the next launcher to remove.
const FAREWELL_MAX: Duration = Duration::from_secs(10);

/// The main function of the launcher, which the hidden argument of the worker's program runs. Must be called before any
/// other thread exists. Does not return.
pub fn launcher_main() -> ! {
    // For whoever looks at the list of processes.
    let _ = rustix::thread::set_name(c"punctual-launch");
    let code = match serve() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("punctual: the sandbox launcher failed: {error}");
            1
        }
    };
    sys::exit_now(code)
}

fn serve() -> io::Result<()> {
    let thread = SingleThread::check()?;
    let worker = detach()?;
    let filters = Filters::compile()?;
    let mut cgroups = Cgroups::open();
    let level = probe::probe(&thread, &filters, &mut cgroups);
    channel::send(&worker, &wire::encode_level(&level), &[])?;
    let mut service = Service { thread, worker, filters, cgroups, level, active: Vec::new() };
    let served = service.run();
    service.end_everything();
    served
}

/// Becomes independent of whatever the worker's surroundings were. The socket to the worker
/// is standard input.
fn detach() -> io::Result<OwnedFd> {
    sys::reset_signals();
    sys::ignore_sigpipe();
    // Away from the terminal: an interrupt is for the worker, which ends its jobs in good order.
    let _ = rustix::process::setsid();
    let worker = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::process::chdir("/")?;
    raise_descriptor_limit()?;
    if rustix::process::geteuid().is_root() {
        // Groups of root would stay with the programs. In some containers root may not change
        // them; there they mean nothing outside.
        let _ = rustix::thread::set_thread_groups(&[]);
    }
    Ok(worker)
}

/// Raises the limit of descriptors: five are open for each job. Programs get a limit of their own.
fn raise_descriptor_limit() -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(())
}

struct Service {
    thread: SingleThread,
    worker: OwnedFd,
    filters: Filters,
    cgroups: Cgroups,
    level: Level,
    active: Vec<Active>,
}

impl Service {
    /// Serves requests until the worker is gone.
    fn run(&mut self) -> io::Result<()> {
        loop {
            let requested = self.wait_and_attend(None, true)?;
            if requested && !self.take_request()? {
                return Ok(());
            }
        }
    }

    fn end_everything(&mut self) {
        let deadline = Instant::now() + FAREWELL_MAX;
        self.active.iter_mut().for_each(Active::kill);
        while !self.active.is_empty() && Instant::now() < deadline {
            if self.wait_and_attend(Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }), false).is_err() {
                break;
            }
        }
        self.cgroups.close();
    }

    /// Waits for something to happen, and attends to the sandboxes. True if the worker has
    /// something to say.
    fn wait_and_attend(&mut self, timeout: Option<&Timespec>, with_worker: bool) -> io::Result<bool> {
        let mut watched = vec![PollFd::from_borrowed_fd(self.worker.as_fd(), PollFlags::IN)];
        if !with_worker {
            // What the worker wants is of no interest any more; its end would wake us for ever.
            watched.clear();
        }
        let others = watched.len();
        for active in &self.active {
            watched.extend(active.watched().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        match poll(&mut watched, timeout) {
            Err(rustix::io::Errno::INTR) => return Ok(false),
            polled => polled?,
        };
        let stirred: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
        let requested = with_worker && stirred[0];
        let mut stirred = stirred[others..].iter();
        let mut still_active = Vec::with_capacity(self.active.len());
        for mut active in std::mem::take(&mut self.active) {
            let mine = stirred.by_ref().take(active.watched().count());
            if mine.fold(false, |any, each| any | each) && active.attend() {
                active.finish(&mut self.cgroups);
            } else {
                still_active.push(active);
            }
        }
        self.active = still_active;
        Ok(requested)
    }

    /// False if the worker is gone.
    fn take_request(&mut self) -> io::Result<bool> {
        match channel::receive(&self.worker, wire::MESSAGE_LEN_MAX) {
            Ok(None) => Ok(false),
            Ok(Some(packet)) => {
                if let Some(active) = self.start(packet) {
                    self.active.push(active);
                }
                Ok(true)
            }
            // Not all descriptors of the request found room here. What came of it is closed again, which tells the
            // worker, and all other programs go on.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }
}
