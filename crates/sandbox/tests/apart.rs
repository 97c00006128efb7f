//! Processes outside the sandbox that tell a keeper of themselves.

use std::io::{self, ErrorKind, PipeReader, Read};
use std::process::{Child, Command, Stdio};

use punctual_sandbox::set_apart_with_keeper;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, getpgid};

/// Starts it, and hands out the keeper's end of the pipe.
fn start(mut command: Command) -> (io::Result<Child>, PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    set_apart_with_keeper(command.env_clear(), writer.into()).unwrap();
    (command.spawn(), reader)
}

/// Ends when nobody holds the other end.
fn read(mut pipe: impl Read) -> String {
    let mut text = String::new();
    pipe.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_group_tells_of_itself_and_lets_go_of_the_pipe() {
    let mut command = Command::new("/bin/sleep");
    command.arg("60");
    let (child, keeper) = start(command);
    let mut child = child.unwrap();
    assert_eq!(read(keeper), format!("add {}\n", child.id()));
    let pid = Pid::from_child(&child);
    assert_eq!(getpgid(Some(pid)).unwrap(), pid);
    assert!(child.try_wait().unwrap().is_none(), "it held the pipe until its end");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_cannot_be_executed_takes_its_word_back() {
    let (child, keeper) = start(Command::new("/no/such/program"));
    assert_eq!(child.unwrap_err().kind(), ErrorKind::NotFound);
    let told = read(keeper);
    let group = told.strip_prefix("add ").and_then(|rest| rest.split_once('\n')).expect("a first line").0;
    assert_eq!(told, format!("add {group}\nremove {group}\n"));
}

#[test]
fn nothing_runs_without_a_keeper() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("witness");
    let mut command = Command::new("/usr/bin/touch");
    command.arg(&witness);
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    // What another test is just starting may hold it for a moment.
    let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&writer, PollFlags::empty())], Some(&limit)).unwrap(), 1, "somebody reads it");
    set_apart_with_keeper(command.env_clear(), writer.into()).unwrap();
    assert_eq!(command.spawn().unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(!witness.exists());
}

#[test]
fn a_program_gets_what_it_was_given_and_nothing_else() {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "echo \"$0|$1\"; grep SigIgn /proc/self/status; exec /usr/bin/env", "a b", ""])
        .env_clear()
        .envs([("ONE", "1"), ("EMPTY", ""), ("PWD", "/")])
        .current_dir("/")
        .stdout(Stdio::piped());
    let (_keeper, writer) = io::pipe().unwrap();
    set_apart_with_keeper(&mut command, writer.into()).unwrap();
    let mut child = command.spawn().unwrap();
    let printed = read(child.stdout.take().unwrap());
    assert!(child.wait().unwrap().success());
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some("a b|"));
    let ignored = lines.next().and_then(|line| line.strip_prefix("SigIgn:")).expect("a set of signals").trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    assert_eq!(ignored & 1 << (libc::SIGPIPE - 1), 0, "it would not notice that nobody reads it");
    let mut variables: Vec<_> = lines.collect();
    variables.sort_unstable();
    assert_eq!(variables, ["EMPTY=", "ONE=1", "PWD=/"]);
}

#[test]
fn an_argument_with_a_zero_byte_starts_nothing() {
    let mut command = Command::new("/bin/echo");
    command.arg("a\0b");
    let (child, keeper) = start(command);
    assert_eq!(child.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(read(keeper), "");
}
