//! One worker that serves two tenants: their programs are different users of the machine, with folders of their own.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use punctual_api::NamespaceRequest;

use super::{compile_c, text};
use crate::harness::{Home, PUNCTUAL, Process, Server, eventually};

/// The first of the range that the worker is told, for the default namespace.
const FIRST_USER: u32 = 1_700_000_000;
const RANGE: &str = "1700000000-1700000009";

/// Waits with a secret in its memory, environment and files. Every argument but the first word is for the other program: it
/// tries to signal and trace whatever it sees, and to open and change those paths. What it could do, it prints.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
static int abstract(int listening) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    strcpy(at.sun_path + 1, "punctual-test-of-users");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t len = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(at.sun_path + 1);
    if (listening) return bind(fd, (void *)&at, len) || listen(fd, 5);
    return connect(fd, (void *)&at, len);
}
int main(int count, char **args) {
    if (!strcmp(args[1], "wait")) {
        int fd = open("/tmp/secret", O_CREAT | O_WRONLY, 0666);
        if (write(fd, "planted", 7) != 7 || abstract(1)) return 3;
        printf("waiting\n");
        fflush(stdout);
        for (;;) pause();
    }
    int got = 0;
    for (int pid = 1; pid < 70000; pid++) {
        if (pid == getpid() || pid == 1) continue;
        if (!kill(pid, 0)) got += printf("signalled %d\n", pid);
        if (syscall(SYS_ptrace, PTRACE_ATTACH, pid, 0, 0) == 0) got += printf("traced %d\n", pid);
    }
    kill(-1, SIGKILL);
    for (int at = 2; at < count; at++) {
        if (open(args[at], O_RDONLY) >= 0) got += printf("read %s\n", args[at]);
        if (open(args[at], O_WRONLY) >= 0) got += printf("wrote %s\n", args[at]);
    }
    if (!abstract(0)) got += printf("connected\n");
    return got ? 9 : 0;
}
"#;

fn in_namespace(server: &Server, namespace: &str) -> Command {
    let mut command = Command::new(PUNCTUAL);
    command.args(["run", "--server", &server.url, "--namespace", namespace, "--retries", "0"]);
    command
}

/// A program that waits until it is dropped.
struct Waiting(Child);

impl Waiting {
    fn start(server: &Server, namespace: &str, program: &Path) -> Self {
        let mut command = in_namespace(server, namespace);
        let child = command.arg(program).args(["--", "wait", namespace]).stdout(Stdio::null()).spawn();
        Self(child.expect("the program starts"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The number that a waiting program of a namespace has on the machine, once it runs.
async fn process_of(namespace: &str) -> u32 {
    let arguments = format!("program\0wait\0{namespace}\0");
    let find = || {
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers.find(|number| {
            std::fs::read(format!("/proc/{number}/cmdline")).is_ok_and(|found| found == arguments.as_bytes())
        })
    };
    eventually("the program waits", || async { find().is_some() }).await;
    find().expect("it was there")
}

fn user_of(process: u32) -> (u32, u32) {
    let found = std::fs::metadata(format!("/proc/{process}/status")).expect("it runs");
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let numbers = |field: &str| -> Vec<u32> {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
        line.split_whitespace().map(|number| number.parse().expect("a number")).collect()
    };
    let (users, groups) = (numbers("Uid:"), numbers("Gid:"));
    assert!(users.iter().all(|user| *user == users[0]) && groups.iter().all(|group| *group == groups[0]), "{status}");
    assert!(numbers("Groups:").is_empty(), "{status}");
    // What another user may not look into belongs to root.
    assert!(found.uid() == 0 || found.uid() == users[0]);
    (users[0], groups[0])
}

/// What a program could do that came out of its sandbox, as its user on the machine.
fn as_user(user: u32, command: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(command);
    command.args(arguments).uid(user).gid(user).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("it starts").success()
}

async fn two_tenants(home: &Home) -> Server {
    let server = home.server();
    for name in ["team-a", "team-b"] {
        let request = NamespaceRequest { name: name.to_owned(), ..NamespaceRequest::default() };
        server.client().create_namespace(&request).await.expect("a namespace");
    }
    server
}

fn attack(home: &Home, server: &Server, namespace: &str, program: &Path, paths: &[String]) -> Output {
    let mut command = in_namespace(server, namespace);
    command.arg(program).args(["--", "attack"]).args(paths).current_dir(home.path());
    command.output().expect("the program starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_two_namespaces_are_different_users_and_cannot_reach_each_other() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: users for each namespace, because only root may give programs other users");
        return;
    }
    let home = Home::new();
    let server = two_tenants(&home).await;
    let cache = home.file("programs");
    let flags = ["--program-users", RANGE, "--cache-dir", cache.to_str().expect("UTF-8")];
    let _worker = home.worker(&server, &flags);
    let program = compile_c(&home, "tenant", PROGRAM);

    let waiting = ["default", "team-a", "team-b"].map(|namespace| Waiting::start(&server, namespace, &program));
    let mut processes = Vec::new();
    for namespace in ["default", "team-a", "team-b"] {
        processes.push(process_of(namespace).await);
    }
    let users: Vec<u32> = processes.iter().map(|process| user_of(*process).0).collect();
    assert_eq!(users, [0, 1, 2].map(|number| FIRST_USER + number), "each namespace has its own");
    assert_eq!(users, processes.iter().map(|process| user_of(*process).1).collect::<Vec<_>>(), "and its own group");

    // The same file is kept for each of them, in a folder that only the worker can enter.
    let mut secrets: Vec<PathBuf> = Vec::new();
    for number in 0..3 {
        let folder = cache.join(format!("namespace-{number}"));
        let metadata = std::fs::metadata(&folder).expect("the folder of a namespace");
        assert_eq!((metadata.permissions().mode() & 0o777, metadata.uid()), (0o700, 0));
        let kept: Vec<PathBuf> =
            std::fs::read_dir(&folder).expect("a list").flatten().map(|file| file.path()).collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        secrets.extend(kept);
    }
    let [own, other] = [processes[1], processes[2]];
    let of_other =
        ["root/tmp/secret", "environ", "mem", "cmdline"].map(|file| PathBuf::from(format!("/proc/{other}/{file}")));
    assert_eq!(std::fs::read(&of_other[0]).expect("root may read it"), b"planted");
    secrets.extend(of_other.clone());
    secrets.extend([PathBuf::from("/tmp/secret"), home.file("data/token"), home.file("spool")]);
    let paths: Vec<String> = secrets.iter().map(|path| path.to_str().expect("UTF-8").to_owned()).collect();
    let attacked = attack(&home, &server, "team-a", &program, &paths);
    let said = text(&attacked.stdout) + &text(&attacked.stderr);
    // It killed whatever it could reach, which is at most itself.
    assert_eq!(attacked.status.code(), Some(0), "{said}");
    assert_eq!(process_of("team-b").await, other, "it still waits");

    // Outside of the sandbox the kernel still keeps the two apart, and nobody apart from themselves.
    let number = |process: u32| process.to_string();
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o755)).expect("others may enter");
    for (user, process, may) in [(users[1], own, true), (users[1], other, false), (users[2], other, true)] {
        assert_eq!(as_user(user, "/bin/kill", &["-0", &number(process)]), may, "{user} signals {process}");
    }
    for path in paths.iter().filter(|path| !path.ends_with("cmdline")) {
        assert!(!as_user(users[1], "/bin/cat", &[path]), "{path}");
    }
    drop(waiting);
}

/// As a user that is not root, with the files of this one.
fn worker_without_root(home: &Home, server: &Server, spool: &str, flags: &[&str]) -> Process {
    let child = Command::new("unshare")
        .args(["--user", "--map-user=1000", "--map-group=1000", PUNCTUAL, "worker", "--exit-with-stdin"])
        .args(["--server", &server.url, "--sandbox-require", "none", "--spool-dir"])
        .arg(home.file(spool))
        .args(flags)
        .current_dir(home.path())
        .stdin(Stdio::piped())
        .spawn();
    child.expect("unshare starts").into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_not_root_runs_programs_of_one_namespace_unless_told_otherwise() {
    let probe = Command::new("unshare").args(["--user", "--map-user=1000", "--map-group=1000", "true"]).status();
    if !probe.is_ok_and(|probe| probe.success()) {
        eprintln!("skipped: a worker that is not root, because it takes unshare with --map-user");
        return;
    }
    let home = Home::new();
    let server = two_tenants(&home).await;
    let program = compile_c(&home, "tenant", "int main(void) { return 0; }");
    let worker = worker_without_root(&home, &server, "one", &[]);
    let run = |namespace: &str, flags: &[&str]| {
        let output = in_namespace(&server, namespace).args(flags).arg(&program).current_dir(home.path()).output();
        let output = output.expect("the program starts");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = run("team-a", &[]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run("team-b", &["--detach"]);
    assert_eq!(code, Some(0), "{said}");
    let job: punctual_core::JobId = said
        .split_whitespace()
        .find_map(|word| word.trim_matches('"').parse().ok())
        .unwrap_or_else(|| panic!("{said}"));
    let client = server.client().in_namespace(Some("team-b"));
    eventually("the worker says why it does not run it", || async {
        let job = client.job(job).await.expect("the job");
        format!("{job:?}").contains("runs programs of one namespace only")
    })
    .await;
    let (code, said) = run("team-a", &[]);
    assert_eq!(code, Some(0), "it goes on with its own: {said}");

    // Another worker may run all of them as its own user.
    worker.stop();
    let _worker = worker_without_root(&home, &server, "all", &["--allow-shared-user"]);
    for namespace in ["team-b", "team-a"] {
        let (code, said) = run(namespace, &[]);
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn a_range_that_the_worker_cannot_use_is_refused_at_its_start() {
    let probe = Command::new("unshare").args(["--user", "--map-user=1000", "--map-group=1000", "true"]).status();
    if !probe.is_ok_and(|probe| probe.success()) {
        eprintln!("skipped: a worker that is not root, because it takes unshare with --map-user");
        return;
    }
    let home = Home::new();
    let server = home.server();
    let output = Command::new("unshare")
        .args(["--user", "--map-user=1000", "--map-group=1000", PUNCTUAL, "worker", "--server", &server.url])
        .args(["--sandbox-require", "none", "--program-users", RANGE, "--spool-dir"])
        .arg(home.file("spool"))
        .current_dir(home.path())
        .output()
        .expect("unshare starts");
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(&format!("cannot run programs as the users {RANGE}")), "{said}");
}
