//! Starts a sandbox: the part that the launcher does from outside.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::Pid;

use super::Service;
use super::active::Active;
use super::outside::{self, Family};
use crate::cell::{self, Cell, Failure, INSIDE_ID, Program, ProgramFile};
use crate::cgroup::{Cgroups, JobCgroup};
use crate::channel::{self, Packet};
use crate::filter::Filters;
use crate::job::{Limits, Network, ProgramUser};
use crate::level::Level;
use crate::step::SetupStep;
use crate::sys::{self, Fork, SingleThread};
use crate::wire::{Report, Request};

/// The user of programs as the machine sees it ("nobody"), if the launcher may choose.
pub(super) const NOBODY: u32 = 65534;

/// A sandbox whose first process runs.
pub(super) struct StartedCell {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    /// The channel to the first process.
    pub(super) channel: OwnedFd,
    pub(super) cgroup: Option<JobCgroup>,
}

pub(super) struct CellPlan<'a> {
    pub(super) limits: Limits,
    pub(super) network: Network,
    pub(super) user: ProgramUser,
    pub(super) level: Option<&'a Level>,
    pub(super) program: Option<Program>,
}

impl Service {
    /// Starts a sandbox. `None` if it could not even be begun; the worker has been told then.
    pub(super) fn start(&mut self, packet: Packet) -> Option<Active> {
        let mut descriptors = packet.descriptors;
        let contents = descriptors.split_off(descriptors.len().min(5));
        let Ok([worker, file, stdin, stdout, stderr]) = <[OwnedFd; 5]>::try_from(descriptors) else {
            // Closed again, which the worker takes for the loss that it is.
            tracing::error!("a request came without its descriptors");
            return None;
        };
        let begun = Request::decode(&packet.bytes).map_err(|_| Failure { step: SetupStep::Await, errno: 0 }).and_then(
            |Request { limits, network, user, args, env, files }| {
                if network == Network::Host && outside::device(Family::V4).is_none() {
                    return Err(Failure { step: SetupStep::Network, errno: libc::ENETUNREACH });
                }
                if files.len() != contents.len() {
                    return Err(Failure { step: SetupStep::Await, errno: 0 });
                }
                let files = files.into_iter().zip(contents);
                let files = files.map(|((name, len), content)| ProgramFile { name, len, content }).collect();
                let program = Some(Program { file, stdin, stdout, stderr, args, env, files });
                let plan = CellPlan { limits, network, user, level: Some(&self.level), program };
                begin(&self.thread, &self.filters, &mut self.cgroups, plan)
            },
        );
        match begun {
            Ok(begun) => Some(Active::new(worker, begun)),
            Err(Failure { step, errno }) => {
                let _ = channel::send(&worker, &Report::Refused { step, errno }.encode(), &[]);
                None
            }
        }
    }
}

pub(super) fn begin(
    thread: &SingleThread,
    filters: &Filters,
    cgroups: &mut Cgroups,
    plan: CellPlan<'_>,
) -> Result<StartedCell, Failure> {
    let cgroup = cgroups.create(&plan.limits).map_err(|error| failure(SetupStep::Cgroup, error))?;
    let begun = fork(thread, filters, cgroup.as_ref(), plan);
    match begun {
        Ok((pid, pidfd, channel)) => Ok(StartedCell { pid, pidfd, channel, cgroup }),
        Err(failure) => {
            cgroup.into_iter().for_each(|cgroup| cgroups.remove(cgroup));
            Err(failure)
        }
    }
}

fn fork(
    thread: &SingleThread,
    filters: &Filters,
    cgroup: Option<&JobCgroup>,
    plan: CellPlan<'_>,
) -> Result<(Pid, OwnedFd, OwnedFd), Failure> {
    let at = |step: SetupStep| move |error: io::Error| failure(step, error);
    let cgroup_tasks = cgroup.map_or(Ok(Vec::new()), JobCgroup::open_tasks).map_err(at(SetupStep::Cgroup))?;
    let cgroup_folder = cgroup.map_or(Ok(None), JobCgroup::open_folder).map_err(at(SetupStep::Cgroup))?;
    let (ours, theirs) = channel::pair().map_err(at(SetupStep::Fork))?;
    let cell = Cell {
        thread,
        channel: theirs,
        cgroup_tasks,
        limits: plan.limits,
        network: plan.network,
        filters,
        level: plan.level,
        program: plan.program,
    };
    match sys::fork_into_namespaces(thread, cgroup_folder.as_ref().map(AsFd::as_fd)).map_err(at(SetupStep::Fork))? {
        Fork::Child => cell::live(cell),
        Fork::Parent { pid, pidfd } => {
            if let Err(error) = map_ids(pid, plan.user).and_then(|()| channel::send(&ours, b"go", &[])) {
                let _ = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
                let _ = sys::reap(pid);
                return Err(failure(SetupStep::MapIds, error));
            }
            Ok((pid, pidfd, ours))
        }
    }
}

fn failure(step: SetupStep, error: io::Error) -> Failure {
    Failure { step, errno: error.raw_os_error().unwrap_or(0) }
}

/// One user and one group inside, each an unprivileged one outside.
fn map_ids(pid: Pid, user: ProgramUser) -> io::Result<()> {
    let (uid, gid) = match user {
        ProgramUser::Number(number) => (number, number),
        ProgramUser::Usual if rustix::process::geteuid().is_root() => (NOBODY, NOBODY),
        ProgramUser::Usual => (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    };
    let pid = pid.as_raw_nonzero();
    // Without this an unprivileged launcher may not map a group.
    fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
    fs::write(format!("/proc/{pid}/gid_map"), format!("{INSIDE_ID} {gid} 1\n"))?;
    fs::write(format!("/proc/{pid}/uid_map"), format!("{INSIDE_ID} {uid} 1\n"))
}
