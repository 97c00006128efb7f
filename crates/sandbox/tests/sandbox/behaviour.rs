//! An honest program gets what it needs.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;

use punctual_sandbox::{LaunchError, LevelName, Output, Status, Stdin};

use crate::canary::Canary;
use crate::lab::{User, job, launcher, run};
use crate::programs;

#[tokio::test]
async fn exit_codes_and_signals_pass_through() {
    let launcher = launcher(User::Same).await;
    for code in [0, 1, 127, 255] {
        assert_eq!(run(&launcher, job("honest", &["exit", &code.to_string()])).await.code(), code);
    }
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGPIPE] {
        let ran = run(&launcher, job("honest", &["signal", &signal.to_string()])).await;
        assert_eq!(ran.exit.status, Status::Signal(signal));
    }
}

#[tokio::test]
async fn arguments_environment_and_input_arrive() {
    let launcher = launcher(User::Same).await;
    let ran = run(&launcher, job("honest", &["args", "one", "", "drei ü"])).await;
    assert_eq!(ran.stdout, "one\n\ndrei ü\n");

    let mut with_env = job("honest", &["env"]);
    with_env.env = vec![("GREETING".into(), "hello there".into())];
    let ran = run(&launcher, with_env).await;
    assert_eq!(ran.stdout, "GREETING=hello there\nPUNCTUAL_OUTPUT=/tmp/output\nHOME=/tmp\n");

    let input: String = (0..100_000).map(|number| format!("{number}\n")).collect();
    let mut with_input = job("honest", &["cat"]);
    with_input.stdin = Stdin::Bytes(input.clone().into());
    assert!(run(&launcher, with_input).await.stdout == input);

    let mut from_file = job("honest", &["cat"]);
    let this = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sandbox/behaviour.rs");
    from_file.stdin = Stdin::Descriptor(File::open(this).unwrap().into());
    assert!(run(&launcher, from_file).await.stdout.starts_with("//! An honest program"));

    // Input that nobody reads does no harm.
    let mut ignored = job("honest", &["true"]);
    ignored.stdin = Stdin::Bytes(vec![b'x'; 4 << 20].into());
    assert_eq!(run(&launcher, ignored).await.code(), 0);
}

#[tokio::test]
async fn long_arguments_arrive_and_too_long_ones_are_refused() {
    let launcher = launcher(User::Same).await;
    let long = "x".repeat(100 << 10);
    assert_eq!(run(&launcher, job("honest", &["args", &long])).await.stdout.trim_end(), long);
    let too_long = "x".repeat(200 << 10);
    assert!(matches!(launcher.run(job("honest", &["args", &too_long])).await, Err(LaunchError::Invalid(_))));
}

#[tokio::test]
async fn both_streams_are_told_apart() {
    let launcher = launcher(User::Same).await;
    let mut running = launcher.run(job("honest", &["both"])).await.unwrap();
    let mut said = Vec::new();
    while let Some(output) = running.next_output().await {
        said.push(output);
    }
    assert!(said.contains(&Output::Stdout("out".into())) && said.contains(&Output::Stderr("err".into())), "{said:?}");
}

#[tokio::test]
async fn a_result_is_handed_over() {
    let launcher = launcher(User::Same).await;
    let ran = run(&launcher, job("honest", &["leave", "{\"answer\":42}"])).await;
    assert_eq!(ran.exit.result.as_deref(), Some(&b"{\"answer\":42}"[..]));
    // A link must not make the launcher read a file of the machine.
    let canary = Canary::new();
    let secret = canary.file().display().to_string();
    for strange in ["leave_link", "leave_magic", "leave_fifo", "leave_folder", "true"] {
        let ran = run(&launcher, job("honest", &[strange, &secret])).await;
        assert_eq!((ran.code(), ran.exit.result, ran.exit.hit), (0, None, None), "{strange}");
    }
}

#[tokio::test]
async fn what_ordinary_programs_need_is_there() {
    for user in [User::Same, User::Nobody] {
        if user == User::Nobody && !rustix::process::geteuid().is_root() {
            eprintln!("skipped: the part as another user, because only root can change users");
            continue;
        }
        let launcher = launcher(user).await;
        eprintln!("the level of {user:?} is: {}", launcher.level());
        assert_ne!(launcher.level().name, LevelName::None, "{:?}", launcher.level().sentences());
        let ran = run(&launcher, job("honest", &["needs"])).await;
        assert_eq!(ran.code(), 0, "{user:?}: {ran:?}");
        // Some programs start themselves again.
        assert_eq!(run(&launcher, job("honest", &["again", "exit", "7"])).await.code(), 7);
    }
}

#[tokio::test]
async fn a_program_has_the_usual_umask() {
    let ran = run(&launcher(User::Same).await, job("honest", &["umask"])).await;
    assert_eq!(ran.stdout, "0022\n");
}

#[tokio::test]
async fn a_file_on_disk_can_be_executed_and_other_files_cannot() {
    let launcher = launcher(User::Same).await;
    let mut from_disk = job("honest", &["exit", "3"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program");
    std::fs::copy(programs::path("honest"), &file).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    from_disk.program = File::open(&file).unwrap().into();
    assert_eq!(run(&launcher, from_disk).await.code(), 3);

    let mut text = job("honest", &[]);
    text.program = File::open("/etc/passwd").unwrap().into();
    assert!(matches!(launcher.run(text).await, Err(LaunchError::Execute(_))));
    let mut script = job("honest", &[]);
    script.program = punctual_sandbox::seal_program(&mut &b"#!/bin/sh\necho escaped\n"[..]).unwrap();
    assert!(matches!(launcher.run(script).await, Err(LaunchError::Execute(_))));
}
