//! Finds out which protections work here, by building one empty sandbox.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};

use super::start::{CellPlan, StartedCell, begin};
use crate::cell::{Failure, WORD_LEN_MAX, Word};
use crate::cgroup::Cgroups;
use crate::channel;
use crate::filter::Filters;
use crate::job::{Limits, Network, ProgramUser};
use crate::level::{Level, NOT_TRIED, Protection};
use crate::step::SetupStep;
use crate::sys::{self, SingleThread};

/// The time limit of a probe. It takes some milliseconds; a slower machine cannot run anything in time either.
const PROBE_TIME_MAX: Duration = Duration::from_secs(5);

pub(super) fn probe(thread: &SingleThread, filters: &Filters, cgroups: &mut Cgroups) -> Level {
    let mut failures = try_once(thread, filters, cgroups);
    if let Some(failure) = failures.iter().find(|failure| failure.step == SetupStep::Cgroup) {
        cgroups.give_up(&reason(failure));
        failures = try_once(thread, filters, cgroups);
    }
    let mut missing = cgroups.missing().to_vec();
    for failure in &failures {
        // Without plumbing the walls could not be finished, so none of them can be relied on.
        let protection = failure.step.protection().unwrap_or(Protection::Namespaces);
        missing.push((protection, reason(failure)));
        if Protection::FLOOR.contains(&protection) {
            let later = Protection::ALL.into_iter().filter(|later| *later > protection);
            let untried: Vec<Protection> =
                later.filter(|later| !missing.iter().any(|(known, _)| known == later) && !is_limit(*later)).collect();
            missing.extend(untried.into_iter().map(|later| (later, NOT_TRIED.to_owned())));
        }
    }
    Level::new(&missing)
}

/// Limits are tried on their own.
fn is_limit(protection: Protection) -> bool {
    matches!(protection, Protection::MemoryLimit | Protection::CpuLimit | Protection::PidsLimit)
}

fn reason(failure: &Failure) -> String {
    let what = format!("cannot {}", failure.step.words());
    match failure.errno {
        0 => what,
        errno => format!("{what}: {}", io::Error::from_raw_os_error(errno)),
    }
}

/// Returns each step that failed. After a failure of the floor, the remaining steps are not tried.
fn try_once(thread: &SingleThread, filters: &Filters, cgroups: &mut Cgroups) -> Vec<Failure> {
    let plan = CellPlan {
        limits: Limits::default(),
        network: Network::None,
        user: ProgramUser::Usual,
        level: None,
        program: None,
    };
    let begun = match begin(thread, filters, cgroups, plan) {
        Ok(begun) => begun,
        Err(failure) => return vec![failure],
    };
    let mut failures = Vec::new();
    if !listen(&begun, &mut failures) && failures.is_empty() {
        failures.push(Failure { step: SetupStep::Died, errno: 0 });
    }
    let _ = pidfd_send_signal(&begun.pidfd, Signal::KILL);
    let _ = sys::reap(begun.pid);
    begun.cgroup.into_iter().for_each(|cgroup| cgroups.remove(cgroup));
    failures
}

/// Reads the messages of the first process. True if it ended by itself.
fn listen(begun: &StartedCell, failures: &mut Vec<Failure>) -> bool {
    let deadline = Instant::now() + PROBE_TIME_MAX;
    loop {
        match channel::receive(&begun.channel, WORD_LEN_MAX) {
            Ok(Some(packet)) => match Word::decode(&packet.bytes) {
                Some(Word::Failed(failure)) => failures.push(failure),
                Some(Word::Sockets | Word::Started) => {}
                Some(Word::Ended { .. }) => return true,
                None => return false,
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = deadline.saturating_duration_since(Instant::now());
                let Ok(left) = Timespec::try_from(left) else { return false };
                let mut watched = [PollFd::new(&begun.channel, PollFlags::IN)];
                if !matches!(poll(&mut watched, Some(&left)), Ok(1..)) {
                    return false;
                }
            }
            Ok(None) | Err(_) => return false,
        }
    }
}
