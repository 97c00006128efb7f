//! Control groups of version 2: one tree for all controllers.
//!
//! A folder either has processes or passes controllers on, never both. A worker that is a
//! service of its own therefore moves itself one folder down before its jobs get theirs.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::folder::{clear, create_locked, new_name, open_folder, read_keyed, read_number, sweep};
use super::{CPU_PERIOD_US, Usage, cpu_quota_us, is_missing, pids_max};
use crate::job::Limits;
use crate::level::Protection;

/// Where the worker and its launcher move to.
const OURSELVES: &str = "punctual-self";

const CONTROLLERS: [(&str, Protection); 3] =
    [("memory", Protection::MemoryLimit), ("cpu", Protection::CpuLimit), ("pids", Protection::PidsLimit)];

pub(super) struct HomeV2 {
    path: PathBuf,
    controllers: Vec<&'static str>,
    _lock: OwnedFd,
}

pub(crate) struct JobV2 {
    path: PathBuf,
}

impl HomeV2 {
    pub(super) fn open(own: &Path) -> io::Result<(Self, Vec<(Protection, String)>)> {
        // An earlier launcher of this worker may have moved us.
        let parent = if own.ends_with(OURSELVES) { own.parent().unwrap_or(own) } else { own };
        sweep(parent);
        let mut controllers = Vec::new();
        let mut missing = Vec::new();
        for (controller, limit) in CONTROLLERS {
            match pass_on(parent, controller) {
                Ok(()) => controllers.push(controller),
                Err(error) => missing.push((limit, format!("{}: {error}", parent.display()))),
            }
        }
        let path = parent.join(new_name());
        let lock = create_locked(&path)?;
        for controller in &controllers {
            fs::write(path.join("cgroup.subtree_control"), format!("+{controller}"))?;
        }
        Ok((Self { path, controllers, _lock: lock }, missing))
    }

    pub(super) fn create(&self, name: &str, limits: &Limits) -> io::Result<JobV2> {
        let job = JobV2 { path: self.path.join(name) };
        fs::create_dir(&job.path)?;
        if let Err(error) = job.limit(&self.controllers, limits) {
            let _ = job.remove();
            return Err(error);
        }
        Ok(job)
    }

    pub(super) fn remove(&self) {
        clear(&self.path);
    }
}

/// Lets the folders in `parent` have a controller.
fn pass_on(parent: &Path, controller: &str) -> io::Result<()> {
    let file = parent.join("cgroup.subtree_control");
    if fs::read_to_string(&file)?.split_whitespace().any(|passed_on| passed_on == controller) {
        return Ok(());
    }
    let enable = || fs::write(&file, format!("+{controller}"));
    match enable() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            move_ourselves_down(parent)?;
            enable()
        }
        enabled => enabled,
    }
}

/// Moves the worker one folder down, if no other process is in its folder: this launcher must not move others.
fn move_ourselves_down(parent: &Path) -> io::Result<()> {
    let ours = [Some(rustix::process::getpid()), rustix::process::getppid()];
    let ours: Vec<String> = ours.into_iter().flatten().map(|pid| pid.as_raw_nonzero().to_string()).collect();
    let members = fs::read_to_string(parent.join("cgroup.procs"))?;
    if members.lines().any(|member| !ours.iter().any(|our| our == member)) {
        return Err(io::Error::other(
            "other processes are in the worker's control group; make it a service of its own",
        ));
    }
    let below = parent.join(OURSELVES);
    match fs::create_dir(&below) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    members.lines().try_for_each(|member| fs::write(below.join("cgroup.procs"), member))
}

impl JobV2 {
    fn limit(&self, controllers: &[&str], limits: &Limits) -> io::Result<()> {
        let write = |file: &str, value: &str| fs::write(self.path.join(file), value);
        for controller in controllers {
            match *controller {
                "memory" => {
                    write("memory.max", &limits.memory_bytes.to_string())?;
                    // The whole program, not its largest process.
                    write("memory.oom.group", "1")?;
                    // The file is missing where swap is not counted.
                    match write("memory.swap.max", "0") {
                        Err(error) if is_missing(&error) => {}
                        written => written?,
                    }
                }
                "cpu" => write("cpu.max", &format!("{} {CPU_PERIOD_US}", cpu_quota_us(limits)))?,
                _ => write("pids.max", &pids_max(limits).to_string())?,
            }
        }
        Ok(())
    }

    pub(super) fn open_folder(&self) -> io::Result<OwnedFd> {
        open_folder(&self.path)
    }

    pub(super) fn kill(&self) {
        // Before Linux 5.14 there is no such file; the end of the pid namespace does the same.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    pub(super) fn usage(&self) -> Usage {
        let file = |name: &str| self.path.join(name);
        Usage {
            peak_memory_bytes: read_number(&file("memory.peak")),
            cpu: read_keyed(&file("cpu.stat"), "usage_usec").map(Duration::from_micros),
            oom: read_keyed(&file("memory.events"), "oom_kill").is_some_and(|kills| kills > 0),
            pids: read_keyed(&file("pids.events"), "max").is_some_and(|refused| refused > 0),
        }
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_gets_its_limits_and_its_counters_are_read() {
        let machine = tempfile::tempdir().unwrap();
        fs::write(machine.path().join("cgroup.subtree_control"), "cpu memory pids").unwrap();
        let (home, missing) = HomeV2::open(machine.path()).unwrap();
        assert!(missing.is_empty());
        let limits = Limits { memory_bytes: 64 << 20, cpu_millis: 1500, pids: 9, ..Limits::default() };
        let job = home.create("job-1", &limits).unwrap();
        let text = |file: &str| fs::read_to_string(job.path.join(file)).unwrap();
        assert_eq!(text("memory.max"), "67108864");
        assert_eq!(text("memory.swap.max"), "0");
        assert_eq!(text("memory.oom.group"), "1");
        assert_eq!(text("cpu.max"), "150000 100000");
        assert_eq!(text("pids.max"), "10");

        fs::write(job.path.join("memory.peak"), "4096\n").unwrap();
        fs::write(job.path.join("cpu.stat"), "usage_usec 1500\nuser_usec 1\n").unwrap();
        fs::write(job.path.join("memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        fs::write(job.path.join("pids.events"), "max 0\n").unwrap();
        let usage = job.usage();
        assert_eq!(usage.peak_memory_bytes, Some(4096));
        assert_eq!(usage.cpu, Some(Duration::from_micros(1500)));
        assert!(usage.oom && !usage.pids);
        job.kill();
        assert_eq!(text("cgroup.kill"), "1");
    }

    #[test]
    fn others_in_the_workers_group_are_not_moved() {
        let machine = tempfile::tempdir().unwrap();
        fs::write(machine.path().join("cgroup.procs"), "1\n").unwrap();
        assert!(move_ourselves_down(machine.path()).is_err());
        fs::write(machine.path().join("cgroup.procs"), format!("{}\n", std::process::id())).unwrap();
        move_ourselves_down(machine.path()).unwrap();
        assert!(machine.path().join(OURSELVES).join("cgroup.procs").exists());
    }
}
