//! Where the programs are that a cluster runs.

use std::path::PathBuf;

use anyhow::Context;

/// Names the server's program, where it is not beside this one.
const PUNCTUAL: &str = "PUNCTUAL_BIN";

/// The folder that cargo put this program into, or, for a test, the one above.
fn target_folder() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let folder = own.parent().context("a program is in a folder")?;
    let folder = if folder.ends_with("deps") { folder.parent().context("deps is in a folder")? } else { folder };
    Ok(folder.to_owned())
}

pub fn punctual_binary() -> anyhow::Result<PathBuf> {
    let found = match std::env::var_os(PUNCTUAL) {
        Some(path) => PathBuf::from(path),
        None => target_folder()?.join("punctual"),
    };
    anyhow::ensure!(found.exists(), "{} is not there; build it: cargo build -p punctual", found.display());
    Ok(found)
}

/// This program itself, or, for a test, the one that was built with it.
pub fn verify_binary() -> anyhow::Result<PathBuf> {
    let found = target_folder()?.join("verify");
    anyhow::ensure!(found.exists(), "{} is not there; build it: cargo build -p punctual-verify", found.display());
    Ok(found)
}
