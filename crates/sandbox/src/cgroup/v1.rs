//! Control groups of version 1: a hierarchy of folders for each controller.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::find::Hierarchy;
use super::folder::{clear, create_locked, new_name, read_keyed, read_number, sweep};
use super::{CPU_PERIOD_US, LIMITS, Usage, cpu_quota_us, is_missing, pids_max};
use crate::job::Limits;
use crate::level::Protection;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Memory,
    Cpu,
    /// Counts only.
    Cpuacct,
    Pids,
}

impl Controller {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "memory" => Some(Self::Memory),
            "cpu" => Some(Self::Cpu),
            "cpuacct" => Some(Self::Cpuacct),
            "pids" => Some(Self::Pids),
            _ => None,
        }
    }

    fn protection(self) -> Option<Protection> {
        match self {
            Self::Memory => Some(Protection::MemoryLimit),
            Self::Cpu => Some(Protection::CpuLimit),
            Self::Pids => Some(Protection::PidsLimit),
            Self::Cpuacct => None,
        }
    }

    fn limit(self, folder: &Path, limits: &Limits) -> io::Result<()> {
        let write = |file: &str, value: u64| fs::write(folder.join(file), value.to_string());
        match self {
            Self::Memory => {
                write("memory.limit_in_bytes", limits.memory_bytes)?;
                // With swap; the file is missing where swap is not counted.
                match write("memory.memsw.limit_in_bytes", limits.memory_bytes) {
                    Err(error) if is_missing(&error) => Ok(()),
                    written => written,
                }
            }
            Self::Cpu => {
                write("cpu.cfs_period_us", CPU_PERIOD_US)?;
                write("cpu.cfs_quota_us", cpu_quota_us(limits))
            }
            Self::Pids => write("pids.max", pids_max(limits)),
            Self::Cpuacct => Ok(()),
        }
    }

    fn count(self, folder: &Path, usage: &mut Usage) {
        match self {
            Self::Memory => {
                usage.peak_memory_bytes = read_number(&folder.join("memory.max_usage_in_bytes"));
                usage.oom = read_keyed(&folder.join("memory.oom_control"), "oom_kill").is_some_and(|kills| kills > 0);
            }
            Self::Cpuacct => {
                usage.cpu = read_number(&folder.join("cpuacct.usage")).map(Duration::from_nanos);
            }
            Self::Pids => {
                usage.pids = read_keyed(&folder.join("pids.events"), "max").is_some_and(|refused| refused > 0);
            }
            Self::Cpu => {}
        }
    }
}

pub(super) struct HomeV1 {
    folders: Vec<Folder>,
    /// Kept for as long as the folders are ours.
    locks: Vec<OwnedFd>,
}

#[derive(Clone)]
struct Folder {
    controllers: Vec<Controller>,
    path: PathBuf,
}

pub(crate) struct JobV1 {
    folders: Vec<Folder>,
}

impl HomeV1 {
    /// Takes each hierarchy that can be written, and says of the limits that have none why.
    pub(super) fn open(hierarchies: &[Hierarchy]) -> (Option<Self>, Vec<(Protection, String)>) {
        let parents: Vec<Folder> = hierarchies
            .iter()
            .map(|hierarchy| Folder {
                controllers: hierarchy.controllers.iter().filter_map(|name| Controller::from_name(name)).collect(),
                path: hierarchy.own.clone(),
            })
            .filter(|folder| !folder.controllers.is_empty())
            .collect();
        let mut missing: Vec<(Protection, String)> = LIMITS
            .into_iter()
            .filter(|limit| {
                !parents.iter().flat_map(|folder| &folder.controllers).any(|it| it.protection() == Some(*limit))
            })
            .map(|limit| (limit, "no such control group is mounted".to_owned()))
            .collect();
        let name = new_name();
        let mut home = Self { folders: Vec::new(), locks: Vec::new() };
        for parent in &parents {
            sweep(&parent.path);
            let folder = Folder { controllers: parent.controllers.clone(), path: parent.path.join(&name) };
            match create_locked(&folder.path).and_then(|lock| folder.try_limits().map(|()| lock)) {
                Ok(lock) => {
                    home.locks.push(lock);
                    home.folders.push(folder);
                }
                Err(error) => {
                    let reason = format!("{}: {error}", parent.path.display());
                    let limits = parent.controllers.iter().filter_map(|controller| controller.protection());
                    missing.extend(limits.map(|limit| (limit, reason.clone())));
                    clear(&folder.path);
                }
            }
        }
        ((!home.folders.is_empty()).then_some(home), missing)
    }

    pub(super) fn create(&self, name: &str, limits: &Limits) -> io::Result<JobV1> {
        let mut job = JobV1 { folders: Vec::new() };
        for home in &self.folders {
            let folder = Folder { controllers: home.controllers.clone(), path: home.path.join(name) };
            let made = fs::create_dir(&folder.path).and_then(|()| folder.limit(limits));
            job.folders.push(folder);
            if let Err(error) = made {
                let _ = job.remove();
                return Err(error);
            }
        }
        Ok(job)
    }

    pub(super) fn remove(&self) {
        self.folders.iter().for_each(|folder| clear(&folder.path));
    }
}

impl Folder {
    fn limit(&self, limits: &Limits) -> io::Result<()> {
        self.controllers.iter().try_for_each(|controller| controller.limit(&self.path, limits))
    }

    /// Whether a job's limits could be set here.
    fn try_limits(&self) -> io::Result<()> {
        let trial = Self { controllers: self.controllers.clone(), path: self.path.join("trial") };
        fs::create_dir(&trial.path)?;
        let limited = trial.limit(&Limits::default());
        fs::remove_dir(&trial.path)?;
        limited
    }
}

impl JobV1 {
    pub(super) fn open_tasks(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |folder: &Folder| fs::OpenOptions::new().write(true).open(folder.path.join("tasks"));
        self.folders.iter().map(|folder| open(folder).map(OwnedFd::from)).collect()
    }

    pub(super) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for folder in &self.folders {
            folder.controllers.iter().for_each(|controller| controller.count(&folder.path, &mut usage));
        }
        usage
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        for folder in &self.folders {
            match fs::remove_dir(&folder.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
