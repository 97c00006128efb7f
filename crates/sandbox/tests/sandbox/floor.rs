//! Where the walls do not stand, nothing runs.

use punctual_sandbox::{LaunchError, Launcher, LauncherOptions, LevelName, Network, Protection};

use crate::ends::{kill, launchers_of};
use crate::lab::{LAB, User, eventually, job, launcher, marker, options, processes_with, run, until_ready};

/// The namespaces of a process of this machine, as the program `honest` shows its own.
fn namespaces_here() -> Vec<String> {
    ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"]
        .iter()
        .map(|name| std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap().display().to_string())
        .collect()
}

#[tokio::test]
async fn every_namespace_is_its_own() {
    let launcher = launcher(User::Same).await;
    let here = namespaces_here();
    let ran = run(&launcher, job("honest", &["namespaces"])).await;
    let first: Vec<&str> = ran.stdout.lines().collect();
    let ran = run(&launcher, job("honest", &["namespaces"])).await;
    let second: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(first.len(), here.len());
    for ((here, first), second) in here.iter().zip(first).zip(second) {
        assert_ne!(here, first);
        assert_ne!(here, second);
    }
    let mut with_network = job("honest", &["namespaces"]);
    with_network.network = Network::Host;
    let ran = run(&launcher, with_network).await;
    let shared: Vec<&str> = ran.stdout.lines().filter(|each| here.iter().any(|here| here == each)).collect();
    assert!(shared.is_empty(), "{shared:?}: its sockets are the machine's, and its network is not");
}

#[tokio::test]
async fn outside_a_program_is_nobody() {
    let own = rustix::process::geteuid();
    let launcher = if own.is_root() {
        // Some groups, to see that they are left behind.
        let args = ["--groups=4,20", LAB, "launcher"].map(str::to_owned);
        let options = LauncherOptions { command: "/usr/bin/setpriv".into(), args: args.into(), required: vec![] };
        Launcher::start(options).await.unwrap()
    } else {
        launcher(User::Same).await
    };
    let marker = marker("nobody");
    let mut running = launcher.run(job("honest", &["terminate", &marker])).await.unwrap();
    until_ready(&mut running).await;
    let [pid] = processes_with(&marker)[..] else { panic!("one process is expected") };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let expected = if own.is_root() { 65534 } else { own.as_raw() };
    assert!(line("Uid:").split_whitespace().all(|id| id == expected.to_string()), "{}", line("Uid:"));
    if own.is_root() {
        assert!(line("Gid:").split_whitespace().all(|id| id == "65534"), "{}", line("Gid:"));
        assert_eq!(line("Groups:"), "");
    }
}

#[tokio::test]
async fn landlock_keeps_signals_inside() {
    let launcher = launcher(User::Same).await;
    if !launcher.level().has(Protection::Landlock) {
        eprintln!("skipped: this kernel has no Landlock");
        return;
    }
    assert_eq!(run(&launcher, job("processes", &["reach_init"])).await.code(), 0);
}

#[tokio::test]
async fn without_namespaces_nothing_is_executed() {
    // A user namespace in which no other may be made.
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {LAB} launcher");
    let options = LauncherOptions {
        command: "/usr/bin/unshare".into(),
        args: ["--user", "--map-root-user", "/bin/sh", "-c", &script].map(str::to_owned).into(),
        required: vec![],
    };
    let launcher = Launcher::start(options).await.unwrap();
    let level = launcher.level();
    assert_eq!(level.name, LevelName::None, "{level}");
    assert!(Protection::FLOOR.iter().all(|protection| !level.has(*protection)), "{level}");
    let sentences = level.sentences().join("\n");
    assert!(
        sentences.contains("namespaces is missing (cannot start a process in new user and pid namespaces"),
        "{sentences}"
    );
    match launcher.run(job("honest", &["true"])).await {
        Err(LaunchError::BelowRequired { missing }) => assert!(missing[0].starts_with("namespaces is missing")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_required_beyond_the_floor_is_required() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a launcher as another user");
        return;
    }
    let all = Protection::ALL.to_vec();
    let strict = Launcher::start(LauncherOptions { required: all, ..options(User::Nobody) }).await.unwrap();
    assert_eq!(strict.level().name, LevelName::Partial, "{}", strict.level());
    assert!(matches!(strict.run(job("honest", &["true"])).await, Err(LaunchError::BelowRequired { .. })));

    let lenient = launcher(User::Nobody).await;
    assert_eq!(run(&lenient, job("honest", &["true"])).await.code(), 0);
}

#[tokio::test]
async fn a_launcher_that_cannot_be_started_is_an_error() {
    let options = LauncherOptions { command: "/bin/false".into(), args: vec![], required: vec![] };
    assert!(Launcher::start(options).await.is_err());
}

/// Attempts are recorded with what the first launcher found.
#[tokio::test]
async fn a_launcher_that_finds_less_than_the_one_before_runs_nothing() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root has something to lose here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let less = folder.path().join("less");
    // As root the first time, and as nobody, without control groups, ever after.
    let script = format!(
        "if [ -e {0} ]; then exec setpriv --reuid=65534 --regid=65534 --clear-groups {LAB} launcher; fi; exec {LAB} launcher",
        less.display()
    );
    let args = ["-c", &script].map(str::to_owned).into();
    let launcher =
        Launcher::start(LauncherOptions { command: "/bin/sh".into(), args, required: vec![] }).await.unwrap();
    if !launcher.level().has(Protection::MemoryLimit) {
        eprintln!("skipped: control groups cannot be written here");
        return;
    }
    assert_eq!(run(&launcher, job("honest", &["true"])).await.code(), 0);
    std::fs::write(&less, "").unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let [process] = launchers_of(std::process::id())[..] else { panic!("one launcher is expected") };
    kill(process);
    eventually("the launcher ends", || launchers_of(std::process::id()).is_empty()).await;
    match launcher.run(job("honest", &["true"])).await {
        Err(LaunchError::BelowRequired { missing }) => assert!(missing[0].starts_with("memory_limit"), "{missing:?}"),
        other => panic!("{other:?}"),
    }
    std::fs::remove_file(&less).unwrap();
    assert_eq!(run(&launcher, job("honest", &["true"])).await.code(), 0);
}
