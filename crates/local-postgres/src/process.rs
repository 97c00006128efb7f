//! Starting programs so that they end with us, as somebody else when we are root, and
//! sending signals to them.

use std::ffi::OsStr;
use std::io::Result;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use crate::failed;

/// PostgreSQL refuses to run as root.
#[derive(Debug, Clone)]
pub(crate) struct User {
    name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// `None` when we are not root and run it as ourselves.
    pub(crate) fn choose() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let passwd = std::fs::read_to_string("/etc/passwd")?;
        let find = |wanted: &str| {
            passwd.lines().find_map(|line| {
                let mut parts = line.split(':');
                let name = parts.next().filter(|name| *name == wanted)?.to_owned();
                let uid = parts.nth(1)?.parse().ok()?;
                let gid = parts.next()?.parse().ok()?;
                Some(Self { name, uid, gid })
            })
        };
        let user = find("postgres").or_else(|| find("nobody"));
        user.map(Some).ok_or_else(|| failed("there is neither a user `postgres` nor `nobody` to run PostgreSQL as"))
    }
}

/// A command that runs as `user`, and gets SIGQUIT when the thread that starts it ends: then
/// PostgreSQL stops at once and takes its children along.
pub(crate) fn command(user: Option<&User>, program: &Path, folder: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if let Some(user) = user {
        command.arg(format!("--reuid={}", user.name)).arg(format!("--regid={}", user.gid)).arg("--init-groups");
    }
    // The user may not enter the folder that we are in.
    command.arg(program).current_dir(folder).env("LC_ALL", "C");
    command
}

pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = shown(command);
    let output = command.output().map_err(|error| failed(format!("cannot run {name}: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{name} failed: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shown(command: &Command) -> String {
    // Of `setpriv … /path/initdb …`, the program that matters.
    let program = command.get_args().find(|arg| Path::new(arg).is_absolute());
    program.unwrap_or(command.get_program()).to_string_lossy().into_owned()
}

type Request = (Command, Sender<Result<Child>>);

/// Starts a program from a thread that lives as long as this process: the signal that a
/// child gets at its parent's death is about the thread, and a test's thread ends with it.
pub(crate) fn spawn(command: Command) -> Result<Child> {
    static STARTER: OnceLock<Mutex<Sender<Request>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (requests, inbox) = channel::<Request>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(requests)
    });
    let (reply, answer) = channel();
    let sent = starter.lock().unwrap_or_else(PoisonError::into_inner).send((command, reply));
    sent.map_err(|_| failed("the starter of programs is gone"))?;
    answer.recv().map_err(|_| failed("the starter of programs is gone"))?
}

/// A process that is gone is fine.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// The processes whose parent is `pid`.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| {
            let child: u32 = process.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
            // `12 (name) S parent …`, where the name may hold anything.
            let parent: u32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
            (parent == pid).then_some(child)
        })
        .collect()
}

pub(crate) fn is_alive(pid: impl AsRef<OsStr>) -> bool {
    Path::new("/proc").join(pid.as_ref()).exists()
}
