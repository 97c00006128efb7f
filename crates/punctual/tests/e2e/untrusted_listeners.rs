//! While a server is down, any user of the machine can listen at its address. Commands send nothing there, and workers take no work
//! from there.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use crate::harness::{Home, PUNCTUAL, Process, eventually};

/// Another user: `nobody` on most machines.
const STRANGER: u32 = 65534;

/// Takes one connection, answers nothing, and prints what arrives on it, until its stdin closes.
const SCRIPT: &str = "
import select, socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
l = socket.socket(family)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind((sys.argv[1], int(sys.argv[2])))
l.listen()
print('up', l.getsockname()[1], flush=True)
if l in select.select([l, sys.stdin], [], [])[0]:
    c, _ = l.accept()
    print(c.recv(65536).decode(errors='replace'), flush=True)
";

struct Listener {
    process: Child,
    stdout: BufReader<ChildStdout>,
    port: u16,
}

impl Listener {
    /// Listens as `user`. `None` where that is not possible here, with a reason on stderr.
    fn start(user: u32, ip: &str, port: u16) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can start a process as another user");
            return None;
        }
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", SCRIPT, ip, &port.to_string()]).uid(user).gid(user).current_dir("/");
        let Ok(mut process) = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            eprintln!("skipped: there is no /usr/bin/python3");
            return None;
        };
        let mut stdout = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("it says where it listens");
        let port = line.trim().strip_prefix("up ").expect("it listens").parse().expect("a port");
        Some(Self { process, stdout, port })
    }

    fn stranger() -> Option<Self> {
        Self::start(STRANGER, "127.0.0.1", 0)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What arrived.
    fn heard(mut self) -> String {
        drop(self.process.stdin.take());
        let mut heard = String::new();
        self.stdout.read_to_string(&mut heard).expect("what it heard");
        self.process.wait().expect("it ends");
        heard
    }
}

fn command(home: &Home, url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(PUNCTUAL);
    command.args(["--server", url]).args(arguments).current_dir(home.path());
    command.env("XDG_RUNTIME_DIR", home.file("run"));
    command
}

fn write_token(file: &Path) {
    std::fs::write(file, "punctual_secret\n").expect("a file");
    std::fs::set_permissions(file, Permissions::from_mode(0o600)).expect("it is closed to others");
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_sends_nothing_to_another_user() {
    let home = Home::new();
    let file = home.file("token-of-root");
    write_token(&file);
    let file = file.to_str().expect("a path");
    for arguments in [&["ps"][..], &["run", "--command", "echo secret"], &["ps", "--token-file", file]] {
        let Some(listener) = Listener::stranger() else { return };
        let mut command = command(&home, &listener.url(), arguments);
        if !arguments.contains(&file) {
            command.env("PUNCTUAL_TOKEN", "punctual_secret");
        }
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(4), "{}", said(&output));
        let reason = format!("the user with the id {STRANGER} listens at 127.0.0.1:{}", listener.port);
        let hints = said(&output).matches("--server-user").count();
        assert!(said(&output).contains(&reason) && hints == 1, "{}", said(&output));
        assert_eq!(listener.heard(), "", "{arguments:?}");
    }
}

#[test]
fn the_user_of_the_server_can_be_named_or_owns_the_token_file() {
    let home = Home::new();
    let file = home.file("token-of-stranger");
    write_token(&file);
    let number = STRANGER.to_string();
    let path = file.to_str().expect("a path");
    for arguments in [&["ps", "--server-user", &number][..], &["ps", "--token-file", path]] {
        let Some(listener) = Listener::stranger() else { return };
        std::os::unix::fs::chown(&file, Some(STRANGER), None).expect("root gives files away");
        let mut command = command(&home, &listener.url(), arguments);
        if !arguments.contains(&path) {
            command.env("PUNCTUAL_TOKEN", "punctual_secret");
        }
        command.output().expect("it runs");
        assert!(listener.heard().contains("Bearer punctual_secret"), "{arguments:?}");
    }
    let unknown = command(&home, "http://127.0.0.1:1", &["ps", "--server-user", "no-such-user"]).output();
    let unknown = unknown.expect("it runs");
    assert_eq!(unknown.status.code(), Some(2), "{}", said(&unknown));
    assert!(said(&unknown).contains("there is no user `no-such-user`"), "{}", said(&unknown));
}

#[tokio::test]
async fn a_token_that_was_found_is_shown_to_its_own_user_alone() {
    let home = Home::new();
    let runtime = home.file("run");
    let server = home.server_with("127.0.0.1:0", &[], &[("XDG_RUNTIME_DIR", runtime.to_str().expect("a path"))]);
    let port = server.address().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let token = std::fs::read_to_string(home.file("data/token")).expect("a token");
    // Killed, it leaves its note, and its address to whoever takes it first.
    server.kill();
    for (user, is_shown) in [(STRANGER, false), (0, true)] {
        let Some(listener) = Listener::start(user, "127.0.0.1", port) else { return };
        command(&home, &listener.url(), &["ps"]).output().expect("it runs");
        assert_eq!(listener.heard().contains(token.trim()), is_shown, "uid {user}");
    }
}

/// A worker with its log in a file.
fn worker(home: &Home, url: &str, arguments: &[&str]) -> Process {
    let mut worker = command(home, url, &["worker", "--exit-with-stdin", "--allow-commands", "--spool-dir"]);
    worker.arg(home.file("spool")).args(arguments).stdin(Stdio::piped());
    worker.stderr(std::fs::File::create(home.file("worker.log")).expect("a file"));
    Process::from(worker.spawn().expect("the worker starts"))
}

async fn logs(home: &Home, words: &str) {
    eventually(words, || async {
        std::fs::read_to_string(home.file("worker.log")).is_ok_and(|text| text.contains(words))
    })
    .await;
}

/// The token exempted the worker from the check, and the stranger received it.
#[tokio::test]
async fn a_worker_sends_no_token_to_another_user_and_takes_no_work() {
    let home = Home::new();
    let file = home.file("token-of-root");
    write_token(&file);
    for arguments in [&[][..], &["--token-file", file.to_str().expect("a path")]] {
        let Some(listener) = Listener::stranger() else { return };
        let worker = worker(&home, &listener.url(), arguments);
        logs(&home, &format!("the user with the id {STRANGER} listens at")).await;
        assert_eq!(listener.heard(), "", "{arguments:?}");
        worker.stop();
    }
}

/// The name has two addresses, and a stranger listens at the one that is tried first.
#[tokio::test]
async fn a_stranger_at_one_address_of_a_name_does_not_keep_a_worker_from_the_other() {
    let home = Home::new();
    let server = home.server();
    let port = server.address().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    if TcpListener::bind("[::1]:0").is_err() {
        return eprintln!("skipped: no IPv6 here");
    }
    let Some(stranger) = Listener::start(STRANGER, "::1", port) else { return };
    let url = format!("http://localhost:{port}");
    let output = command(&home, &url, &["ps"]).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let worker = worker(&home, &url, &[]);
    let client = server.client();
    eventually("the worker is connected", || async { !client.workers().await.expect("a list").workers.is_empty() })
        .await;
    assert_eq!(stranger.heard(), "");
    worker.stop();
}
