//! The last steps, taken by the process that becomes the program.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::Mode;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::{Cell, Failure, Program, Word, attempt, landlock, privileges};
use crate::channel;
use crate::job::Network;
use crate::step::SetupStep;
use crate::sys;

/// The umask that most systems have by default. The program's files are not visible outside the sandbox.
const USUAL_UMASK: Mode = Mode::WGRP.union(Mode::WOTH);

/// Does not return: this process is the program afterwards, or gone.
pub(super) fn become_it(cell: &Cell<'_>) -> ! {
    if let Err(failure) = close_in(cell).and_then(|()| execute(cell)) {
        cell.say(Word::Failed(failure), &[]);
        sys::exit_now(127);
    }
    sys::exit_now(0)
}

fn close_in(cell: &Cell<'_>) -> Result<(), Failure> {
    attempt(SetupStep::Stdio, || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if let Some(Program { stdin, stdout, stderr, .. }) = &cell.program {
            dup2_stdin(stdin)?;
            dup2_stdout(stdout)?;
            dup2_stderr(stderr)?;
        }
        rustix::process::umask(USUAL_UMASK);
        sys::reset_signals();
        sys::close_all_but_stdio_on_exec()
    })?;
    let program = cell.program.as_ref().map(|program| program.file.as_fd());
    cell.unless_missing(SetupStep::Landlock, || landlock::restrict(cell.network, program))?;
    if cell.network == Network::Host {
        // Before the limit on descriptors, below which none can be sent.
        attempt(SetupStep::Network, || {
            let listener = sys::listener::listen_for_sockets()?;
            channel::send(&cell.channel, &Word::Sockets.encode(), &[listener.as_fd()])
        })?;
    }
    attempt(SetupStep::Rlimits, || privileges::limit_descriptors(&cell.limits))?;
    // Last, since the filter refuses most of the calls above.
    attempt(SetupStep::Seccomp, || cell.filters.install(cell.network, cell.shared_memory()))
}

fn execute(cell: &Cell<'_>) -> Result<(), Failure> {
    match &cell.program {
        Some(Program { file, args, env, .. }) => {
            attempt(SetupStep::Execute, || Err(sys::execute(file.as_fd(), args, env)))
        }
        None if sys::keyrings_are_refused() => Ok(()),
        // It was installed, and does nothing.
        None => attempt(SetupStep::Seccomp, || Err(io::Error::from_raw_os_error(libc::ENOSYS))),
    }
}
