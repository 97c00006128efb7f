//! A Podman service of the test's own, with an image of this program in it.
//!
//! An image for users is one static file. This one has the program that the tests are built with, and the libraries that it is
//! linked to: a static one would be a second build of everything. `cargo xtask test` sees to Podman.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::binaries::text;
use crate::harness::{PUNCTUAL, eventually};

/// Set where agents in containers can be tested.
const CONTAINERS: &str = "PUNCTUAL_TEST_CONTAINERS";
pub(super) const IMAGE: &str = "localhost/punctual-test";

pub(super) struct Podman {
    folder: TempDir,
    service: Option<Child>,
}

impl Podman {
    /// `None` where it cannot be had, which is said.
    pub(super) async fn start() -> Option<Self> {
        if std::env::var_os(CONTAINERS).is_none() {
            eprintln!("skipped: agents in containers, because {CONTAINERS} is not set; cargo xtask test sets it");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("punctual-podman-").tempdir().expect("a temporary folder");
        let mut podman = Self { folder, service: None };
        podman.make_image();
        let address = format!("unix://{}", podman.socket().display());
        let mut service = podman.command();
        service.args(["system", "service", "--time=0", &address]).stdout(Stdio::null()).stderr(Stdio::null());
        podman.service = Some(service.spawn().expect("podman starts"));
        let socket = podman.socket();
        eventually("podman to listen", || async { tokio::net::UnixStream::connect(&socket).await.is_ok() }).await;
        Some(podman)
    }

    fn make_image(&self) {
        let (folder, program) = (self.folder.path(), Path::new(PUNCTUAL));
        let archive = folder.join("image.tar");
        // What only a debugger needs would be in every layer.
        let stripped = Command::new("strip").arg("-o").arg(folder.join("punctual")).arg(program).status();
        assert!(stripped.expect("there is strip").success());
        let made = Command::new("tar")
            .args(["--create", "--dereference", "--file"])
            .arg(&archive)
            .arg("-C")
            .arg(folder)
            .arg("punctual")
            .args(["-C", "/"])
            .args(libraries(program))
            .status();
        assert!(made.expect("there is tar").success());
        self.run(&["import", archive.to_str().expect("a path of letters"), IMAGE]);
    }

    fn command(&self) -> Command {
        let mut command = Command::new("podman");
        for (option, name) in [("--root", "root"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
            command.arg(option).arg(self.folder.path().join(name));
        }
        command.args(["--runtime", "runc"]);
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> String {
        let output = self.command().args(args).output().expect("podman starts");
        assert!(output.status.success(), "podman {args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("podman.sock")
    }

    /// The names of all containers, ended ones too.
    pub(super) fn containers(&self) -> Vec<String> {
        self.run(&["ps", "--all", "--format", "{{.Names}}"]).lines().map(str::to_owned).collect()
    }
}

/// The loader and the libraries of `program`, by their paths below `/`.
fn libraries(program: &Path) -> Vec<String> {
    let output = Command::new("ldd").arg(program).output().expect("there is ldd");
    let lines = text(&output.stdout);
    let paths = lines.lines().filter_map(|line| line.split_whitespace().find_map(|word| word.strip_prefix('/')));
    paths.map(str::to_owned).collect()
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.command().args(["rm", "--all", "--force", "--time=0"]).output();
        if let Some(mut service) = self.service.take() {
            let _ = service.kill();
            let _ = service.wait();
        }
        // Podman keeps its layers mounted onto themselves.
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path().join("root/overlay")).output();
    }
}
