//! Limits for all processes of a program together. Linux has two kinds of control groups, and
//! machines that mix them; each has a driver here. A launcher has one folder of its own, with
//! a folder for each job in it; what a killed launcher left is swept by the next.
//!
//! Where no cgroup may be written, there is none, and [`Cgroups::missing`] says why.

mod find;
mod folder;
mod v1;
mod v2;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::job::Limits;
use crate::level::Protection;

/// The part of this machine's control groups that is ours.
pub(crate) struct Cgroups {
    home: Home,
    missing: Vec<(Protection, String)>,
    jobs: u64,
    /// Folders that could not be removed when their job had ended.
    leftover: Vec<JobCgroup>,
}

enum Home {
    V1(v1::HomeV1),
    V2(v2::HomeV2),
    None,
}

/// One job's folder, or folders.
pub(crate) enum JobCgroup {
    V1(v1::JobV1),
    V2(v2::JobV2),
}

/// The resource usage that the kernel counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) peak_memory_bytes: Option<u64>,
    pub(crate) cpu: Option<Duration>,
    pub(crate) oom: bool,
    pub(crate) pids: bool,
}

const LIMITS: [Protection; 3] = [Protection::MemoryLimit, Protection::CpuLimit, Protection::PidsLimit];

impl Cgroups {
    /// Opens the control groups that are available here, and removes what dead launchers left behind.
    pub(crate) fn open() -> Self {
        let (home, missing) = match find::find_here() {
            Err(error) => (Home::None, all_missing(&error.to_string())),
            Ok(found) => match found.v2_with_memory() {
                Some(own) => match v2::HomeV2::open(own) {
                    Ok((home, missing)) => (Home::V2(home), missing),
                    Err(error) => (Home::None, all_missing(&error.to_string())),
                },
                None => {
                    let (home, missing) = v1::HomeV1::open(&found.v1);
                    (home.map_or(Home::None, Home::V1), missing)
                }
            },
        };
        Self { home, missing, jobs: 0, leftover: Vec::new() }
    }

    pub(crate) fn missing(&self) -> &[(Protection, String)] {
        &self.missing
    }

    /// Continues without control groups, because a process could not join.
    pub(crate) fn give_up(&mut self, reason: &str) {
        self.close();
        self.home = Home::None;
        self.missing = all_missing(reason);
    }

    /// A folder with these limits; `None` where there are no cgroups.
    pub(crate) fn create(&mut self, limits: &Limits) -> io::Result<Option<JobCgroup>> {
        self.jobs += 1;
        let name = format!("job-{}", self.jobs);
        Ok(match &self.home {
            Home::V1(home) => Some(JobCgroup::V1(home.create(&name, limits)?)),
            Home::V2(home) => Some(JobCgroup::V2(home.create(&name, limits)?)),
            Home::None => None,
        })
    }

    /// Removes a folder whose processes are gone, and tries again those that were not empty.
    pub(crate) fn remove(&mut self, job: JobCgroup) {
        self.leftover.push(job);
        self.leftover.retain(|job| job.remove().is_err());
    }

    /// Removes everything of this launcher.
    pub(crate) fn close(&mut self) {
        self.leftover.retain(|job| job.remove().is_err());
        match &self.home {
            Home::V1(home) => home.remove(),
            Home::V2(home) => home.remove(),
            Home::None => {}
        }
    }
}

impl JobCgroup {
    /// Opens the files that the process that joins the control group writes to.
    pub(crate) fn open_tasks(&self) -> io::Result<Vec<OwnedFd>> {
        match self {
            Self::V1(job) => job.open_tasks(),
            Self::V2(_) => Ok(Vec::new()),
        }
    }

    /// Opens the folder for the fork, which makes the child a member of the control group.
    pub(crate) fn open_folder(&self) -> io::Result<Option<OwnedFd>> {
        match self {
            Self::V1(_) => Ok(None),
            Self::V2(job) => job.open_folder().map(Some),
        }
    }

    pub(crate) fn kill(&self) {
        match self {
            // The end of the pid namespace has to do.
            Self::V1(_) => {}
            Self::V2(job) => job.kill(),
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        match self {
            Self::V1(job) => job.usage(),
            Self::V2(job) => job.usage(),
        }
    }

    fn remove(&self) -> io::Result<()> {
        match self {
            Self::V1(job) => job.remove(),
            Self::V2(job) => job.remove(),
        }
    }
}

fn all_missing(reason: &str) -> Vec<(Protection, String)> {
    LIMITS.into_iter().map(|limit| (limit, reason.to_owned())).collect()
}

/// Microseconds of processor time in each 100 ms.
fn cpu_quota_us(limits: &Limits) -> u64 {
    u64::from(limits.cpu_millis) * CPU_PERIOD_US / 1000
}

const CPU_PERIOD_US: u64 = 100_000;

/// The first process of a sandbox is not the program's.
fn pids_max(limits: &Limits) -> u64 {
    u64::from(limits.pids) + 1
}

/// Whether the error means that a file does not exist. A missing file cannot be created there either, and the kernel
/// reports that instead.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}
