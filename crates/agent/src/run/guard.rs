//! Protects the agent's own process, before anything else happens in it.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal, setsid};

/// What an agent's life is tied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// The container in which the agent runs.
    Environment,
    /// The worker that started the agent as a process beside itself. The agent's stdin is a pipe that the worker holds
    /// open for as long as it lives.
    Worker,
}

/// Protects this process. Must be called before other threads start.
pub fn guard_this_process(tie: Tie) -> io::Result<()> {
    // Nobody of the same user may look into it: its token is in its environment, which a process cannot
    // take back.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    match tie {
        Tie::Environment => Ok(()),
        Tie::Worker => tie_to_worker(),
    }
}

fn tie_to_worker() -> io::Result<()> {
    // Away from the worker's terminal: an interrupt is for the worker.
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the worker died before that, no signal will come, but its end of the pipe is closed.
    let stdin = rustix::stdio::stdin();
    let mut worker = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut worker, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    if worker[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the worker is gone"));
    }
    Ok(())
}
