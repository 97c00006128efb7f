//! Starts real servers and workers as processes of their own, on free ports, with
//! their data in a temporary folder, and ends them by their process ids.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use punctual_client::Client;
use tempfile::TempDir;

pub(crate) const PUNCTUAL: &str = env!("CARGO_BIN_EXE_punctual");

/// A condition that has not come true by then never will.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Not `punctual.toml`, which may not say what these do.
const SETTINGS: &str = "settings.toml";

/// A folder for a server and its workers.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::Builder::new().prefix("punctual-e2e-").tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Settings for the servers and workers that are started from now on, in a file that they are told of.
    pub(crate) fn set(&self, settings: &str) {
        std::fs::write(self.file(SETTINGS), settings).expect("the settings are written");
    }

    /// A server or a worker, with the settings that were written.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if self.file(SETTINGS).exists() {
            command.env("PUNCTUAL_CONFIG", self.file(SETTINGS));
        }
        command
    }

    pub(crate) fn server(&self) -> Server {
        self.server_at("127.0.0.1:0", &[])
    }

    /// Starts a server and waits until it is ready.
    pub(crate) fn server_at(&self, listen: &str, flags: &[&str]) -> Server {
        self.server_with(listen, flags, &[])
    }

    /// The same with variables of the environment.
    pub(crate) fn server_with(&self, listen: &str, flags: &[&str], variables: &[(&str, &str)]) -> Server {
        self.server_logging(listen, flags, variables, Stdio::inherit())
    }

    /// The same, with its log somewhere else.
    pub(crate) fn server_logging(
        &self,
        listen: &str,
        flags: &[&str],
        variables: &[(&str, &str)],
        log: impl Into<Stdio>,
    ) -> Server {
        let mut command = self.command(PUNCTUAL);
        command.args(flags_of_server(listen)).arg(self.file("data")).args(flags).envs(variables.iter().copied());
        self.started(command, log)
    }

    /// Starts a server whose data folder is a disk of its own, of so many MiB. A part of it is taken by `filler`, which
    /// is reached through [`Server::own_view`].
    pub(crate) fn server_on_small_disk(&self, mib: u32, filler_mib: u32, log: impl Into<Stdio>) -> Server {
        let data = self.file("data");
        std::fs::create_dir(&data).expect("the data folder is made");
        let mut command = Command::new("unshare");
        let script = r#"mount -t tmpfs -o mode=0700,size="$1"m tmpfs "$3" && head -c "$2"M /dev/zero > "$3/filler" && shift 3 && exec "$@""#;
        command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        command.args([mib.to_string(), filler_mib.to_string()]).arg(&data).arg(PUNCTUAL);
        command.args(flags_of_server("127.0.0.1:0")).arg(&data);
        self.started(command, log)
    }

    fn started(&self, mut command: Command, log: impl Into<Stdio>) -> Server {
        let mut child = command
            .current_dir(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("the server says when it is ready");
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let url = ready["url"].as_str().expect("the address").to_owned();
        Server { process: Process(child), url }
    }

    pub(crate) fn worker(&self, server: &Server, flags: &[&str]) -> Process {
        self.worker_with_spool(server, "spool", flags)
    }

    /// A worker that shares no folder with others.
    pub(crate) fn worker_with_spool(&self, server: &Server, spool: &str, flags: &[&str]) -> Process {
        let usual = ["--probe-effects", "--http-allow", "127.0.0.0/8"];
        self.strict_worker(server, spool, &[&usual, flags].concat())
    }

    /// A worker with nothing allowed that users do not allow.
    pub(crate) fn strict_worker(&self, server: &Server, spool: &str, flags: &[&str]) -> Process {
        self.strict_worker_with(server, spool, flags, &[])
    }

    /// The same with variables of the environment.
    pub(crate) fn strict_worker_with(
        &self,
        server: &Server,
        spool: &str,
        flags: &[&str],
        variables: &[(&str, &str)],
    ) -> Process {
        self.worker_logging(server, spool, flags, variables, Stdio::inherit())
    }

    /// The same, with its log somewhere else.
    pub(crate) fn worker_logging(
        &self,
        server: &Server,
        spool: &str,
        flags: &[&str],
        variables: &[(&str, &str)],
        log: impl Into<Stdio>,
    ) -> Process {
        let mut command = self.command(PUNCTUAL);
        if !rustix::process::geteuid().is_root() {
            // Without root there may be no control groups, and then a worker runs no programs unless told to.
            command.env("PUNCTUAL_SANDBOX_REQUIRE", "none");
        }
        let child = command
            .args(["worker", "--exit-with-stdin", "--server", &server.url, "--spool-dir"])
            .arg(self.file(spool))
            .args(flags)
            .envs(variables.iter().copied())
            .current_dir(self.path())
            .stdin(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the worker starts");
        Process(child)
    }
}

/// All but the folder, which comes last.
fn flags_of_server(listen: &str) -> [&str; 7] {
    ["server", "--exit-with-stdin", "-o", "json", "--listen", listen, "--data-dir"]
}

/// A process that does not outlive its test.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn kill(mut self) {
        self.0.kill().expect("SIGKILL reaches the process");
        self.0.wait().expect("the process ends");
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(mut self) {
        drop(self.0.stdin.take());
        self.wait();
    }

    /// Waits until it has ended well.
    pub(crate) fn wait(mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.0.try_wait().expect("the process can be asked").is_none() {
            assert!(Instant::now() < deadline, "it did not end within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let status = self.0.wait().expect("it has ended");
        assert!(status.success(), "{status}");
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// `-STOP`, `-CONT` and others.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.id().to_string()]).status().expect("kill starts");
        assert!(sent.success());
    }

    /// Resident memory in KiB, as the kernel counts it.
    pub(crate) fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("the process lives");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has memory");
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number of KiB")
    }
}

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url).expect("the address is a URL")
    }

    /// A path as this process sees it, which may have disks of its own.
    pub(crate) fn own_view(&self, path: &Path) -> PathBuf {
        let root = format!("/proc/{}/root", self.process.id());
        Path::new(&root).join(path.strip_prefix("/").expect("an absolute path"))
    }

    /// The address to listen on again after a crash.
    pub(crate) fn address(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }

    pub(crate) fn kill(self) {
        self.process.kill();
    }
}

/// Waits until `condition` holds; says what it waited for if it never does.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// All descendants of a process, whichever of its threads started them.
pub(crate) fn processes_below(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let threads = std::fs::read_dir(format!("/proc/{}/task", found[next])).into_iter().flatten().flatten();
        for thread in threads {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        next += 1;
    }
    found.remove(0);
    found
}

pub(crate) fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
