use std::fs::{File, Permissions};
use std::io::Result;
use std::net::TcpListener;
use std::ops::Deref;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::address::Address;
use crate::failed;
use crate::find::{Binaries, ensure_installed};
use crate::process::{self, User};
use crate::settings::Settings;

/// Starting takes a fraction of a second on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Another process may take a free port before the server does.
const PORT_TRIES: usize = 5;

const FOLDER_PREFIX: &str = "punctual-postgres-";

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Ends connections and writes everything out.
    Fast,
    /// Leaves recovery to the next start.
    Immediate,
}

/// A running server, unless it was stopped or killed. Stopped and removed when dropped.
#[derive(Debug)]
pub struct Postgres {
    binaries: Binaries,
    user: Option<User>,
    settings: Settings,
    address: Address,
    port: u16,
    server: Option<Child>,
    // Dropped last: the folder goes when nobody uses it any more.
    folder: TempDir,
}

/// The initial content of a new server.
pub(crate) enum Origin<'a> {
    Empty,
    CopyOf(&'a Postgres),
}

impl Postgres {
    pub(crate) fn make(settings: &Settings, origin: Origin<'_>) -> Result<Self> {
        let binaries = ensure_installed()?;
        let user = User::choose()?;
        let parent = settings.parent();
        remove_leftovers(&parent);
        let prefix = format!("{FOLDER_PREFIX}{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(&parent)?;
        if let Some(user) = &user {
            chown(folder.path(), Some(user.uid), Some(user.gid))?;
        }
        let made = CreatedCluster { binaries: &binaries, user: user.as_ref(), folder: folder.path() };
        let password = match origin {
            Origin::Empty => made.initdb()?,
            Origin::CopyOf(primary) => made.basebackup(primary)?,
        };
        for (name, content) in &settings.files {
            made.write(&made.data().join(name), content)?;
        }
        let (server, port) = start_on_free_port(&made, settings)?;
        let address = Address::new(format!("postgresql://postgres:{password}@127.0.0.1:{port}/postgres"));
        Ok(Self { binaries, user, settings: settings.clone(), address, port, server: Some(server), folder })
    }

    fn made(&self) -> CreatedCluster<'_> {
        CreatedCluster { binaries: &self.binaries, user: self.user.as_ref(), folder: self.folder.path() }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the postmaster; `None` if it does not run.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// Changes a setting for the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings = self.settings.clone().set(name, value);
    }

    /// SIGKILL of the postmaster and all its children, as a machine dies that keeps its disk.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        let postmaster = server.id();
        // Stopped first, so that it starts no more children meanwhile.
        process::signal(postmaster, Signal::STOP);
        let children = process::children(postmaster);
        for pid in children.iter().chain([&postmaster]) {
            process::signal(*pid, Signal::KILL);
        }
        server.wait()?;
        let ended = || children.iter().all(|pid| !process::is_alive(pid.to_string()));
        wait_until("the killed server's children to end", STOP_LIMIT, ended)
    }

    pub fn stop(&mut self, how: Stop) -> Result<()> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        let signal = match how {
            Stop::Fast => Signal::INT,
            Stop::Immediate => Signal::QUIT,
        };
        process::signal(server.id(), signal);
        let stopped = wait_until("PostgreSQL to stop", STOP_LIMIT, || !matches!(server.try_wait(), Ok(None)));
        if stopped.is_err() {
            self.server = Some(server);
        }
        stopped
    }

    /// Starts a stopped or killed server on the same port, and waits until it answers.
    pub fn start_again(&mut self) -> Result<()> {
        if self.server.is_none() {
            self.server = Some(start(&self.made(), &self.settings, self.port)?);
        }
        Ok(())
    }

    pub fn restart(&mut self) -> Result<()> {
        self.stop(Stop::Fast)?;
        self.start_again()
    }

    /// All its processes stand still, and connections stay open: a server that hangs.
    pub fn pause(&self) {
        let Some(postmaster) = self.pid() else { return };
        process::signal(postmaster, Signal::STOP);
        for pid in process::children(postmaster) {
            process::signal(pid, Signal::STOP);
        }
    }

    pub fn resume(&self) {
        let Some(postmaster) = self.pid() else { return };
        for pid in process::children(postmaster) {
            process::signal(pid, Signal::CONT);
        }
        process::signal(postmaster, Signal::CONT);
    }

    /// Makes a standby a primary.
    pub fn promote(&self) -> Result<()> {
        let made = self.made();
        let mut command = made.command("pg_ctl");
        command.args(["promote", "--wait", "--pgdata"]).arg(made.data());
        process::run(&mut command).map(drop)
    }
}

impl Deref for Postgres {
    type Target = Address;
    fn deref(&self) -> &Address {
        &self.address
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // One that stands still would not stop.
        self.resume();
        let _ = self.stop(Stop::Immediate);
    }
}

/// A server's folder, and the user that runs programs in it.
struct CreatedCluster<'a> {
    binaries: &'a Binaries,
    user: Option<&'a User>,
    folder: &'a Path,
}

impl CreatedCluster<'_> {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn command(&self, program: &str) -> std::process::Command {
        process::command(self.user, &self.binaries.program(program), self.folder)
    }

    /// Writes a file that only the server's user can read.
    fn write(&self, file: &Path, content: &str) -> Result<()> {
        std::fs::write(file, content)?;
        std::fs::set_permissions(file, Permissions::from_mode(0o600))?;
        match self.user {
            Some(user) => chown(file, Some(user.uid), Some(user.gid)),
            None => Ok(()),
        }
    }

    /// Answers the password of the user `postgres`: other users of this machine reach the port too.
    fn initdb(&self) -> Result<String> {
        let password = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
        let file = self.folder.join("password");
        self.write(&file, &format!("{password}\n"))?;
        let mut command = self.command("initdb");
        command.args(["--username=postgres", "--auth=md5", "--encoding=UTF8", "--no-locale", "--no-sync"]);
        command.arg("--pwfile").arg(&file).arg("--pgdata").arg(self.data());
        process::run(&mut command)?;
        std::fs::remove_file(&file)?;
        Ok(password)
    }

    fn basebackup(&self, primary: &Postgres) -> Result<String> {
        let mut command = self.command("pg_basebackup");
        command.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
        command.args(["--dbname", primary.url(), "--pgdata"]).arg(self.data());
        process::run(&mut command)?;
        let password = primary.url().split(':').nth(2).and_then(|rest| rest.split('@').next());
        Ok(password.unwrap_or_default().to_owned())
    }
}

fn start(made: &CreatedCluster<'_>, settings: &Settings, port: u16) -> Result<Child> {
    // A killed server leaves the file that says how it was.
    let status = made.data().join("postmaster.pid");
    let _ = std::fs::remove_file(&status);
    let log_path = made.folder.join("server.log");
    let log = File::create(&log_path)?;
    let mut command = made.command("postgres");
    command.arg("-D").arg(made.data());
    let mut set = |name: &str, value: &str| {
        command.arg("-c").arg(format!("{name}={value}"));
    };
    for (name, value) in &settings.options {
        set(name, value);
    }
    set("listen_addresses", "127.0.0.1");
    set("port", &port.to_string());
    set("unix_socket_directories", "");
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut server = process::spawn(command)?;
    // Its eighth line says whether the server takes connections.
    let is_ready = || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        text.lines().nth(7).is_some_and(|line| line.trim() == "ready")
    };
    let mut has_ended = false;
    let up = wait_until("PostgreSQL to start", START_LIMIT, || {
        has_ended = !matches!(server.try_wait(), Ok(None));
        has_ended || is_ready()
    });
    if up.is_ok() && !has_ended {
        return Ok(server);
    }
    process::signal(server.id(), Signal::QUIT);
    let _ = server.wait();
    let said = std::fs::read_to_string(&log_path).unwrap_or_default();
    Err(failed(format!("PostgreSQL does not start: {}", said.trim())))
}

fn start_on_free_port(made: &CreatedCluster<'_>, settings: &Settings) -> Result<(Child, u16)> {
    let mut tries = 1;
    loop {
        let port = free_port()?;
        match start(made, settings, port) {
            Ok(server) => return Ok((server, port)),
            Err(error) if tries == PORT_TRIES || !error.to_string().contains("Address already in use") => {
                return Err(error);
            }
            Err(_) => tries += 1,
        }
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn wait_until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > limit {
            return Err(failed(format!("waited {} s for {what}", limit.as_secs())));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// A process that ends without dropping its server leaves the folder behind.
fn remove_leftovers(parent: &Path) {
    for found in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = found.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix(FOLDER_PREFIX)).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !process::is_alive(pid)) {
            let _ = std::fs::remove_dir_all(found.path());
        }
    }
}
