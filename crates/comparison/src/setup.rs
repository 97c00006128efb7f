//! Installs the systems into the cache folder and builds the drivers there. The repository never holds
//! any code of these systems.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::catalogue::{Language, Store, System};

pub(crate) const DRIVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/comparison");

pub(crate) struct Setup {
    drivers: PathBuf,
    target: PathBuf,
}

pub(crate) fn prepare(systems: &[&System], cache: Option<PathBuf>) -> anyhow::Result<Setup> {
    let cache = match cache {
        Some(cache) => std::path::absolute(cache)?,
        None => default_cache()?,
    };
    let setup = Setup { drivers: cache.join("drivers"), target: cache.join("target") };
    let uses = |language| systems.iter().any(|system| system.language == language);
    if uses(Language::Node) {
        need("node", &["nodejs", "npm"])?;
        need("npm", &["npm"])?;
    }
    if uses(Language::Python) {
        need("python3", &["python3", "python3-venv"])?;
    }
    if systems.iter().any(|system| system.store == Store::Redis) {
        need("redis-server", &["redis-server"])?;
    }
    copy(Path::new(DRIVERS), &setup.drivers)?;
    for system in systems {
        setup.install(system)?;
    }
    if uses(Language::Rust) {
        setup.build()?;
    }
    Ok(setup)
}

fn default_cache() -> anyhow::Result<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    Ok(base.context("there is no home folder; name a folder with --cache")?.join("punctual/comparison"))
}

/// Installs Debian's packages if `program` is missing and we may; says what to install if not.
fn need(program: &str, packages: &[&str]) -> anyhow::Result<()> {
    let found = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    };
    if found(program) {
        return Ok(());
    }
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self")?) == 0;
    if !is_root || !found("apt-get") {
        bail!("{program} is missing; install {}", packages.join(" and "));
    }
    eprintln!("{program} is missing");
    show_and_run(Command::new("apt-get").arg("update"))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--no-install-recommends"]).args(packages);
    show_and_run(install.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Copies only files that have changed, so that nothing is rebuilt without need.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for found in std::fs::read_dir(from)? {
        let found = found?;
        let target = to.join(found.file_name());
        if found.file_type()?.is_dir() {
            copy(&found.path(), &target)?;
            continue;
        }
        let new = std::fs::read(found.path())?;
        if std::fs::read(&target).ok().as_ref() != Some(&new) {
            std::fs::write(&target, new)?;
        }
    }
    Ok(())
}

fn show_and_run(command: &mut Command) -> anyhow::Result<()> {
    let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    eprintln!("$ {program} {}", args.join(" "));
    let status = command.status().with_context(|| format!("cannot run {program}"))?;
    if !status.success() {
        bail!("{program} failed: {status}");
    }
    Ok(())
}

impl Setup {
    /// Installs the system, unless the same list of versions is installed already.
    fn install(&self, system: &System) -> anyhow::Result<()> {
        let folder = self.drivers.join(system.name);
        let list = match system.language {
            Language::Rust => return Ok(()),
            Language::Node => "package.json",
            Language::Python => "requirements.txt",
        };
        let (wanted, stamp) = (std::fs::read(folder.join(list))?, folder.join("installed"));
        if std::fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        if system.language == Language::Node {
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel", "error"]);
            show_and_run(npm.current_dir(&folder))?;
        } else {
            show_and_run(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
            let mut pip = Command::new(folder.join("venv/bin/pip"));
            show_and_run(pip.args(["install", "--quiet", "-r", list]).current_dir(&folder))?;
        }
        Ok(std::fs::write(stamp, wanted)?)
    }

    /// Builds all Rust drivers in one build. In separate builds their dependencies would have other features and be compiled again.
    fn build(&self) -> anyhow::Result<()> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--release", "--locked", "--workspace", "--target-dir"]).arg(&self.target);
        show_and_run(cargo.current_dir(&self.drivers))
    }

    /// The command that starts a system's driver, without arguments.
    pub(crate) fn driver(&self, system: &System) -> Command {
        let folder = self.drivers.join(system.name);
        let mut command = match system.language {
            Language::Rust => Command::new(self.target.join(format!("release/system-{}", system.name))),
            Language::Node => Command::new("node"),
            Language::Python => Command::new(folder.join("venv/bin/python")),
        };
        match system.language {
            Language::Rust => {}
            Language::Node => drop(command.arg(folder.join("driver.mjs"))),
            Language::Python => drop(command.arg(folder.join("driver.py"))),
        }
        command
    }
}
