//! What tests need of the system, installed where that is possible.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::shell::run;

/// Installs packages of Debian, or says what to install. `what` is their name for people.
pub(crate) fn install(what: &str, packages: &[&str]) -> anyhow::Result<()> {
    let apt_get = Path::new("/usr/bin/apt-get");
    let hint = format!("{what} are not installed (apt-get install {})", packages.join(" "));
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if !is_root || !apt_get.exists() {
        bail!(hint);
    }
    let quietly = |args: &[&str]| run(Command::new(apt_get).args(args).env("DEBIAN_FRONTEND", "noninteractive"));
    quietly(&["update"]).context(hint.clone())?;
    quietly(&[&["install", "--yes", "--no-install-recommends"], packages].concat()).context(hint)
}
