//! A Podman service of the test's own, with an image of this program in it.
//!
//! The program in the image must be static, and so is not the one that the tests are built with.
//! `cargo xtask test` builds it, sees to Podman, and names the file.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::binaries::text;
use crate::harness::eventually;

/// The static program, where agents in containers can be tested.
const PROGRAM: &str = "PUNCTUAL_TEST_STATIC";
pub(super) const IMAGE: &str = "localhost/punctual-test";

pub(super) struct Podman {
    folder: TempDir,
    service: Option<Child>,
}

impl Podman {
    /// `None` where it cannot be had, which is said.
    pub(super) async fn start() -> Option<Self> {
        let Some(program) = std::env::var_os(PROGRAM) else {
            eprintln!("skipped: agents in containers, because {PROGRAM} is not set; cargo xtask test sets it");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("punctual-podman-").tempdir().expect("a temporary folder");
        let mut podman = Self { folder, service: None };
        podman.make_image(Path::new(&program));
        let address = format!("unix://{}", podman.socket().display());
        let mut service = podman.command();
        service.args(["system", "service", "--time=0", &address]).stdout(Stdio::null()).stderr(Stdio::null());
        podman.service = Some(service.spawn().expect("podman starts"));
        let socket = podman.socket();
        eventually("podman to listen", || async { tokio::net::UnixStream::connect(&socket).await.is_ok() }).await;
        Some(podman)
    }

    fn make_image(&self, program: &Path) {
        let archive = self.folder.path().join("image.tar");
        let (folder, name) = (program.parent().expect("a path"), program.file_name().expect("a name"));
        let made = Command::new("tar")
            .arg("-C")
            .arg(folder)
            .arg("-cf")
            .arg(&archive)
            .args(["--transform", "s,.*,punctual,"])
            .arg(name)
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
