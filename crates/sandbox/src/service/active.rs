//! A sandbox that runs, as the launcher sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, openat2};
use rustix::process::{Pid, Signal, WaitIdOptions, pidfd_send_signal, waitid};

use super::outside::{self, ListenerState};
use super::start::StartedCell;
use crate::cell::{Failure, RESULT_NAME, WORD_LEN_MAX, Word};
use crate::cgroup::{Cgroups, JobCgroup, Usage};
use crate::channel;
use crate::step::SetupStep;
use crate::sys;
use crate::wire::{LauncherCommand, ProgramEnd, Report};

pub(super) struct Active {
    /// `None` when the worker gave the job up.
    worker: Option<OwnedFd>,
    /// The channel to the first process; `None` after it closed its end.
    inside: Option<OwnedFd>,
    /// Where the program's calls for internet sockets arrive.
    sockets: Option<OwnedFd>,
    pid: Pid,
    pidfd: OwnedFd,
    cgroup: Option<JobCgroup>,
    begun: Instant,
    failure: Option<Failure>,
    started: Option<StartedProgram>,
    wait_status: Option<i32>,
}

struct StartedProgram {
    tmp: OwnedFd,
    program: OwnedFd,
}

impl Active {
    pub(super) fn new(worker: OwnedFd, begun: StartedCell) -> Self {
        Self {
            worker: Some(worker),
            inside: Some(begun.channel),
            sockets: None,
            pid: begun.pid,
            pidfd: begun.pidfd,
            cgroup: begun.cgroup,
            begun: Instant::now(),
            failure: None,
            started: None,
            wait_status: None,
        }
    }

    pub(super) fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let sockets = [&self.worker, &self.inside, &self.sockets];
        sockets.into_iter().flatten().map(AsFd::as_fd).chain([self.pidfd.as_fd()])
    }

    /// Handles pending events. True when every process of the sandbox is gone.
    pub(super) fn attend(&mut self) -> bool {
        let gone = self.is_gone();
        self.hear_inside();
        self.hear_worker();
        if self.sockets.as_ref().is_some_and(|listener| outside::serve(listener.as_fd()) == ListenerState::Over) {
            self.sockets = None;
        }
        gone
    }

    /// The first process becomes waitable after all others of its namespace are gone.
    fn is_gone(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        matches!(waitid(rustix::process::WaitId::PidFd(self.pidfd.as_fd()), options), Ok(Some(_)))
    }

    fn hear_inside(&mut self) {
        while let Some(inside) = &self.inside {
            let packet = match channel::receive(inside, WORD_LEN_MAX) {
                Ok(Some(packet)) => packet,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(None) | Err(_) => {
                    self.inside = None;
                    return;
                }
            };
            match Word::decode(&packet.bytes) {
                Some(Word::Failed(failure)) => {
                    self.failure.get_or_insert(failure);
                }
                // The program cannot send a second one: its end of this channel is closed by then.
                Some(Word::Sockets) => self.sockets = packet.descriptors.into_iter().next(),
                Some(Word::Started) if self.failure.is_none() && self.started.is_none() => {
                    if let Ok([tmp, program]) = <[OwnedFd; 2]>::try_from(packet.descriptors) {
                        self.started = Some(StartedProgram { tmp, program });
                        self.begun = Instant::now();
                        self.report(&Report::Started, None);
                    }
                }
                Some(Word::Started) => {}
                Some(Word::Ended { wait_status }) => self.wait_status = Some(wait_status),
                None => self.kill(),
            }
        }
    }

    fn hear_worker(&mut self) {
        while let Some(worker) = &self.worker {
            match channel::receive(worker, 16) {
                Ok(Some(packet)) => match LauncherCommand::decode(&packet.bytes) {
                    LauncherCommand::Terminate => self.terminate(),
                    LauncherCommand::Kill => self.kill(),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(None) | Err(_) => {
                    self.worker = None;
                    self.kill();
                }
            }
        }
    }

    fn terminate(&self) {
        if let Some(started) = &self.started {
            let _ = pidfd_send_signal(&started.program, Signal::TERM);
        }
    }

    pub(super) fn kill(&mut self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
    }

    fn report(&self, report: &Report, descriptor: Option<BorrowedFd<'_>>) {
        if let Some(worker) = &self.worker {
            // If this fails the worker is gone, which the next poll shows.
            let _ = channel::send(worker, &report.encode(), descriptor.as_slice());
        }
    }

    /// Everything is gone: clears up and reports.
    pub(super) fn finish(mut self, cgroups: &mut Cgroups) {
        self.hear_inside();
        let wall = self.begun.elapsed();
        let reaped = sys::reap(self.pid).ok();
        let usage = self.cgroup.as_ref().map_or(Usage::default(), JobCgroup::usage);
        if let Some(cgroup) = self.cgroup.take() {
            cgroups.remove(cgroup);
        }
        let Some(started) = &self.started else {
            let Failure { step, errno } = self.failure.unwrap_or(Failure { step: SetupStep::Died, errno: 0 });
            self.report(&Report::Refused { step, errno }, None);
            return;
        };
        let result = open_result(&started.tmp).ok();
        let ended = ProgramEnd {
            wait_status: self.wait_status,
            oom: usage.oom,
            pids: usage.pids,
            disk: self.wait_status.is_some_and(outgrew_file) || is_full(&started.tmp),
            peak_memory_bytes: usage
                .peak_memory_bytes
                .or(reaped.as_ref().map(|reaped| reaped.peak_memory_bytes))
                .unwrap_or_default(),
            cpu: usage.cpu.or(reaped.as_ref().map(|reaped| reaped.cpu)).unwrap_or_default(),
            wall,
        };
        self.report(&Report::Ended(ended), result.as_ref().map(AsFd::as_fd));
    }
}

/// Whether a program was ended by SIGXFSZ.
fn outgrew_file(wait_status: i32) -> bool {
    wait_status & 0x7f == libc::SIGXFSZ
}

fn is_full(tmp: &OwnedFd) -> bool {
    fstatfs(tmp).is_ok_and(|space| space.f_bavail == 0 || space.f_ffree == 0)
}

/// Opens the result file, which may be anything: no link is followed, and a pipe does not block.
fn open_result(tmp: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(tmp, RESULT_NAME, flags, Mode::empty(), resolve)?)
}
