//! A launcher, and what tests do with it.

use std::fs;
use std::time::{Duration, Instant};

use punctual_sandbox::{
    Exit, Launcher, LauncherOptions, Limits, Network, Output, ProgramUser, Protection, RunningProgram, SandboxJob,
    Status, Stdin,
};

use crate::programs;

pub(crate) const LAB: &str = env!("CARGO_BIN_EXE_sandbox_lab");
/// No test waits longer for one program.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Whoever runs the tests.
    Same,
    Nobody,
}

pub(crate) fn options(user: User) -> LauncherOptions {
    let (command, args): (&str, &[&str]) = match user {
        User::Same => (LAB, &["launcher"]),
        User::Nobody => (
            "/usr/bin/setpriv",
            &["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", LAB, "launcher"],
        ),
    };
    LauncherOptions {
        command: command.into(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        required: vec![],
    }
}

pub(crate) async fn launcher(user: User) -> Launcher {
    Launcher::start(options(user)).await.unwrap()
}

/// Whether limits hold for a program as a whole. Without them some tests have nothing to test.
pub(crate) fn has_limits(launcher: &Launcher) -> bool {
    let level = launcher.level();
    let all = [Protection::MemoryLimit, Protection::CpuLimit, Protection::PidsLimit];
    let has = all.into_iter().all(|limit| level.has(limit));
    if !has {
        let cgroups_are_ours = rustix::fs::access("/sys/fs/cgroup", rustix::fs::Access::WRITE_OK).is_ok();
        assert!(!cgroups_are_ours, "control groups can be written, but are not used: {:?}", level.sentences());
        eprintln!("skipped: what control groups limit, because they cannot be written here ({level})");
    }
    has
}

pub(crate) fn job(program: &str, args: &[&str]) -> SandboxJob {
    SandboxJob {
        program: programs::sealed(program),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        env: vec![],
        stdin: Stdin::Empty,
        files: Vec::new(),
        limits: Limits::default(),
        network: Network::None,
        user: ProgramUser::Usual,
    }
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: Exit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn code(&self) -> i32 {
        match self.exit.status {
            Status::Code(code) => code,
            status => panic!("ended by {status:?}: {self:?}"),
        }
    }
}

pub(crate) async fn run(launcher: &Launcher, job: SandboxJob) -> Ran {
    let running = launcher.run(job).await.unwrap();
    to_end(running).await
}

pub(crate) async fn to_end(mut running: RunningProgram) -> Ran {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let ended = tokio::time::timeout(PATIENCE, async {
        while let Some(output) = running.next_output().await {
            match output {
                Output::Stdout(bytes) => stdout.extend(bytes),
                Output::Stderr(bytes) => stderr.extend(bytes),
            }
        }
        running.wait().await
    });
    let exit = ended.await.expect("the program ends in time");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { exit, stdout: text(stdout), stderr: text(stderr) }
}

pub(crate) async fn until_ready(running: &mut RunningProgram) {
    let said = tokio::time::timeout(PATIENCE, running.next_output()).await.expect("the program says something");
    assert_eq!(said, Some(Output::Stdout("ready\n".into())));
}

/// The processes of this machine that have `marker` among their arguments.
pub(crate) fn processes_with(marker: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes
        .filter(|pid: &u32| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            *pid != std::process::id() && arguments.split(|byte| *byte == 0).any(|each| each == marker.as_bytes())
        })
        .collect()
}

/// Waits for a condition, and says what was waited for if it never holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A word that no other test uses.
pub(crate) fn marker(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}
