//! What the tests of the dashboard need: Chromium, and the driver that speaks WebDriver to it.

use std::process::Command;

use crate::packages;

/// What Debian calls them.
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];

/// Or why there is none.
pub(crate) fn prepare() -> anyhow::Result<()> {
    if PROGRAMS.into_iter().all(is_there) {
        return Ok(());
    }
    packages::install("Chromium and its driver", &PACKAGES)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}
