//! Inside the sandbox. The launcher forks the first process of a new pid namespace; it
//! builds the walls around itself, step by step, then starts the program as its only child
//! and waits. When the program ends, the first process ends, and with it the kernel ends
//! everything that is left in the namespace.
//!
//! Nothing here has any power over the machine: from its first moment on the process lives in a
//! user namespace of its own.

mod landlock;
mod privileges;
mod program;
mod root;
mod word;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::panic::AssertUnwindSafe;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::process::{PidfdFlags, Signal, WaitOptions, pidfd_open, set_parent_process_death_signal};
use rustix::thread::UnshareFlags;

use crate::channel;
use crate::filter::{Filters, SharedMemory};
use crate::job::{Limits, Network};
use crate::level::{Level, Protection};
use crate::step::SetupStep;
use crate::sys::{self, SingleThread};

pub(crate) use root::{FILES_PATH, RESULT_NAME, RESULT_PATH};
pub(crate) use word::{Failure, WORD_LEN_MAX, Word};

/// The user and group inside. Not root, and not the number that unmapped owners show as.
pub(crate) const INSIDE_ID: u32 = 1000;

/// The parts from which the first process of a sandbox builds the sandbox.
pub(crate) struct Cell<'a> {
    pub(crate) thread: &'a SingleThread,
    /// The channel to the launcher.
    pub(crate) channel: OwnedFd,
    /// Open `tasks` files of cgroup v1. A process that moves itself avoids the milliseconds that moving another process
    /// takes.
    pub(crate) cgroup_tasks: Vec<OwnedFd>,
    pub(crate) limits: Limits,
    pub(crate) network: Network,
    pub(crate) filters: &'a Filters,
    /// The level that the probe found; `None` while probing, when every step is tried.
    pub(crate) level: Option<&'a Level>,
    /// `None` while probing: the walls are built, and nothing is put into them.
    pub(crate) program: Option<Program>,
}

pub(crate) struct Program {
    pub(crate) file: OwnedFd,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) args: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) files: Vec<ProgramFile>,
}

/// A file that the program reads.
pub(crate) struct ProgramFile {
    pub(crate) name: CString,
    pub(crate) len: u64,
    pub(crate) content: OwnedFd,
}

/// The life of the first process.
pub(crate) fn live(cell: Cell<'_>) -> ! {
    // An unwinding panic would run on into the launcher's own code, in this process.
    let lived = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let failed = cell.build().and_then(|()| cell.run_program()).err();
        if let Some(failure) = failed {
            cell.say(Word::Failed(failure), &[]);
        }
    }));
    sys::exit_now(if lived.is_ok() { 0 } else { 70 })
}

fn attempt<T>(step: SetupStep, work: impl FnOnce() -> io::Result<T>) -> Result<T, Failure> {
    work().map_err(|error| Failure { step, errno: error.raw_os_error().unwrap_or(0) })
}

impl Cell<'_> {
    fn build(&self) -> Result<(), Failure> {
        attempt(SetupStep::Await, || self.await_launcher())?;
        attempt(SetupStep::Cgroup, || self.cgroup_tasks.iter().try_for_each(|tasks| write_all(tasks, b"0")))?;
        attempt(SetupStep::MapIds, || self.take_inside_id())?;
        attempt(SetupStep::Namespaces, || self.enter_namespaces())?;
        let files = self.program.as_ref().map_or(&[][..], |program| &program.files);
        attempt(SetupStep::Root, || root::build(&self.limits, self.network, files))?;
        self.unless_missing(SetupStep::Proc, root::mount_proc)?;
        attempt(SetupStep::LeaveOldRoot, root::leave_old)?;
        attempt(SetupStep::Rlimits, || privileges::lower_rlimits(&self.limits, &self.cgroup_limits()))?;
        attempt(SetupStep::Capabilities, privileges::drop_capabilities)?;
        attempt(SetupStep::NoNewPrivileges, privileges::refuse_new)
    }

    /// Does a step that this machine may not support. While probing, a failure is reported and the next step follows;
    /// later, every step that the probe found to work must work.
    fn unless_missing(&self, step: SetupStep, work: impl FnOnce() -> io::Result<()>) -> Result<(), Failure> {
        let known = |level: &Level| step.protection().is_none_or(|protection| level.has(protection));
        if !self.level.is_none_or(known) {
            return Ok(());
        }
        match attempt(step, work) {
            Err(failure) if self.level.is_none() => {
                self.say(Word::Failed(failure), &[]);
                Ok(())
            }
            done => done,
        }
    }

    fn cgroup_limits(&self) -> Vec<Protection> {
        let limits = [Protection::MemoryLimit, Protection::PidsLimit];
        limits.into_iter().filter(|limit| self.level.is_none_or(|level| level.has(*limit))).collect()
    }

    /// Without a control group nothing would count shared memory: it belongs to no process, so the limit of a process
    /// does not hold for it.
    fn shared_memory(&self) -> SharedMemory {
        match self.cgroup_limits().contains(&Protection::MemoryLimit) {
            true => SharedMemory::Counted,
            false => SharedMemory::Refused,
        }
    }

    fn await_launcher(&self) -> io::Result<()> {
        sys::close_all_except(&mut self.descriptors())?;
        // The launcher's messages are for the machine's log; nothing in here writes there.
        rustix::stdio::dup2_stderr(rustix::stdio::stdin())?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        rustix::fs::fcntl_setfl(&self.channel, OFlags::empty())?;
        match channel::receive(&self.channel, 16)? {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let mut all = vec![0, 1, 2, self.channel.as_raw_fd()];
        all.extend(self.cgroup_tasks.iter().map(AsRawFd::as_raw_fd));
        if let Some(program) = &self.program {
            let Program { file, stdin, stdout, stderr, files, .. } = program;
            all.extend([file, stdin, stdout, stderr].map(AsRawFd::as_raw_fd));
            all.extend(files.iter().map(|file| file.content.as_raw_fd()));
        }
        all
    }

    fn take_inside_id(&self) -> io::Result<()> {
        privileges::take_id(INSIDE_ID)?;
        // The change of user took the death signal away. If the launcher died in between, no
        // signal will come, but its end of the channel is closed.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let mut launcher = [PollFd::new(&self.channel, PollFlags::IN)];
        poll(&mut launcher, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        if launcher[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // Or the program could look into this process by /proc/1.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        rustix::process::setsid()?;
        Ok(())
    }

    fn enter_namespaces(&self) -> io::Result<()> {
        // Also with a network: the sockets that the launcher makes are the only way out, and what else reaches into a
        // network, such as abstract sockets, ends in an empty one.
        let namespaces = UnshareFlags::NEWNS
            | UnshareFlags::NEWIPC
            | UnshareFlags::NEWUTS
            | UnshareFlags::NEWCGROUP
            | UnshareFlags::NEWNET;
        sys::unshare(self.thread, namespaces)?;
        rustix::system::sethostname(b"sandbox")?;
        Ok(())
    }

    fn run_program(&self) -> Result<(), Failure> {
        let Some(pid) = attempt(SetupStep::ForkProgram, || sys::fork_until_exec(self.thread))? else {
            program::become_it(self)
        };
        // The program runs by now, or has said why not, or is gone again.
        let process = attempt(SetupStep::ForkProgram, || Ok(pidfd_open(pid, PidfdFlags::empty())?))?;
        let tmp = attempt(SetupStep::ForkProgram, root::open_tmp)?;
        self.say(Word::Started, &[tmp.as_fd(), process.as_fd()]);
        loop {
            match rustix::process::wait(WaitOptions::empty()) {
                Ok(Some((ended, status))) if ended == pid => {
                    self.say(Word::Ended { wait_status: status.as_raw() }, &[]);
                    return Ok(());
                }
                // An orphan of the program.
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Ok(()),
            }
        }
    }

    fn say(&self, word: Word, descriptors: &[std::os::fd::BorrowedFd<'_>]) {
        // If the launcher is gone, so is this process in a moment.
        let _ = channel::send(&self.channel, &word.encode(), descriptors);
    }
}

fn write_all(file: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    rustix::io::write(file, bytes)?;
    Ok(())
}
