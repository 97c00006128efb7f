//! Where PostgreSQL's programs are, and getting them.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failed;

/// The oldest version that the store works with.
const MAJOR_MIN: u32 = 15;

/// The folder with `postgres`, `initdb` and the rest.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
    pub major: u32,
}

impl Binaries {
    /// The newest that is installed where Debian puts it, or else the one on the path.
    pub fn find() -> Result<Self> {
        let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let newest = installed
            .filter_map(|version| {
                let major: u32 = version.file_name().to_str()?.parse().ok()?;
                Some(Self { folder: version.path().join("bin"), major })
            })
            .filter(|found| found.folder.join("initdb").exists())
            .max_by_key(|found| found.major);
        match newest.or_else(on_path) {
            Some(found) if found.major >= MAJOR_MIN => Ok(found),
            Some(found) => Err(failed(format!(
                "PostgreSQL {} is installed, and at least {MAJOR_MIN} is needed; install a newer `postgresql`",
                found.major
            ))),
            None => Err(failed("PostgreSQL is not installed; run: apt-get install postgresql")),
        }
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn on_path() -> Option<Binaries> {
    let folders = std::env::var_os("PATH")?;
    let postgres = std::env::split_paths(&folders).map(|folder| folder.join("postgres")).find(|path| path.exists())?;
    // A link on the path leads to the folder with all of them.
    let folder = postgres.canonicalize().ok()?.parent()?.to_owned();
    let major = major(&folder)?;
    Some(Binaries { folder, major })
}

/// Reads the major version from `postgres (PostgreSQL) 15.18 (…)`.
fn major(folder: &Path) -> Option<u32> {
    let output = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split_whitespace().nth(2)?;
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Installs Debian's package if it is missing and this user may. The error says what to install.
pub fn ensure_installed() -> Result<Binaries> {
    let missing = match Binaries::find() {
        Ok(found) => return Ok(found),
        Err(missing) => missing,
    };
    let apt_get = Path::new("/usr/bin/apt-get");
    if !rustix::process::geteuid().is_root() || !apt_get.exists() {
        return Err(missing);
    }
    for args in [&["update"][..], &["install", "--yes", "--no-install-recommends", "postgresql"]] {
        eprintln!("$ apt-get {}", args.join(" "));
        let status = Command::new(apt_get).args(args).env("DEBIAN_FRONTEND", "noninteractive").status()?;
        if !status.success() {
            return Err(failed(format!("{missing} (apt-get {} failed: {status})", args[0])));
        }
    }
    Binaries::find()
}
