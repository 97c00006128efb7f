//! Mounts of our own, among which a small disk can be made without harm to the machine.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

/// Set for the process that was started inside.
const INSIDE: &str = "VERIFY_OWN_MOUNTS";
/// The server keeps a log of 40 MiB; what remains is soon full.
const SMALL_DISK: &str = "mode=0700,size=64m";
/// Removed to make room again.
pub(super) const FILLER: &str = "filler";
const FILLER_BYTES: usize = 16 << 20;

pub(super) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Starts this program again among mounts of its own, where that is allowed; returns only where it is not.
pub fn enter_own_mounts() -> anyhow::Result<()> {
    const FLAGS: [&str; 2] = ["--map-root-user", "--mount"];
    let may = || Command::new("unshare").args(FLAGS).arg("true").output().is_ok_and(|output| output.status.success());
    if is_inside() || !may() {
        return Ok(());
    }
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new("unshare");
    command.args(FLAGS).arg("--").arg(own).args(std::env::args_os().skip(1)).env(INSIDE, "1");
    Err(command.exec()).context("cannot enter mounts of our own")
}

pub(super) fn mount_small_disk(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    run(Command::new("mount").args(["-t", "tmpfs", "-o", SMALL_DISK, "tmpfs"]).arg(folder))?;
    Ok(std::fs::write(folder.join(FILLER), vec![0; FILLER_BYTES])?)
}

pub(super) fn unmount(folder: &Path) -> anyhow::Result<()> {
    run(Command::new("umount").arg(folder))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().context("cannot start it")?;
    anyhow::ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
