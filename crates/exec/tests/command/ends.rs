//! How commands end: by themselves, by their time, by a cancel, with their attempt.

use std::time::Duration;

use punctual_core::attempt::{FailureClass, Last, Outcome};
use punctual_core::run::Command;
use punctual_exec::Cancel;
use tokio::time::Instant;

use super::{
    PATIENCE, call, details, eventually, execute, failure, grace, is_alive, printed, run_line, succeeded, written,
    zombies,
};

#[tokio::test]
async fn the_exit_code_says_how_it_went() {
    let (ended, text) = run_line("echo out; echo err >&2").await;
    assert_eq!(ended.outcome, succeeded(None));
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["err", "out"]);
    assert_eq!((details(&ended).exit_code, details(&ended).sandbox.as_deref()), (Some(0), Some("none")));

    let (ended, text) = run_line("echo no; exit 3").await;
    assert_eq!((failure(&ended).reason.as_str(), text.as_str()), ("exit code 3", "no\n"));
    assert_eq!((details(&ended).exit_code, failure(&ended).class), (Some(3), FailureClass::Task));
    assert_eq!(failure(&run_line("exit 100").await.0).last, Last::Yes);
    let (ended, text) = run_line("no-such-program-anywhere").await;
    assert_eq!(failure(&ended).reason, "exit code 127");
    assert!(text.contains("not found"), "{text}");

    let (ended, _) = run_line("kill -SEGV $$").await;
    assert_eq!(failure(&ended).reason, "ended by signal 11 (SIGSEGV)");
    assert_eq!((details(&ended).exit_code, details(&ended).signal), (None, Some(11)));
    assert_eq!(zombies(), Vec::<String>::new());
}

#[tokio::test]
async fn the_whole_group_has_its_grace_when_the_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let (first, last) = (folder.path().join("first"), folder.path().join("last"));
    // The shell ends at once. What it started prints nothing, and has something to put in order.
    let inner =
        format!("trap \"sleep 0.5; echo tidy > {}; exit\" TERM; echo $$ > {}; ", last.display(), first.display());
    let line = format!("sh -c '{inner} while :; do sleep 0.05; done' > /dev/null 2>&1 < /dev/null; true");
    let mut call = call(Command { grace: grace(15_000), ..Command::new(line) });
    call.deadline = Some(Instant::now() + Duration::from_secs(1));
    let begun = Instant::now();
    let ended = execute(call).await;
    assert_eq!(failure(&ended).class, FailureClass::Timeout, "{ended:?}");
    assert_eq!(details(&ended).signal, Some(15));
    assert_eq!(std::fs::read_to_string(last).unwrap(), "tidy\n");
    assert!(!is_alive(&written(&first).await));
    assert!(begun.elapsed() < Duration::from_secs(10), "it did not wait for what had ended: {:?}", begun.elapsed());
    assert_eq!(zombies(), Vec::<String>::new());
}

#[tokio::test]
async fn what_ignores_sigterm_is_killed_after_the_grace() {
    let folder = tempfile::tempdir().unwrap();
    let child = folder.path().join("child");
    let line = format!("trap '' TERM; sleep 600 & echo $! > {}; echo up; wait; sleep 600", child.display());
    let mut call = call(Command { grace: grace(500), ..Command::new(line) });
    call.deadline = Some(Instant::now() + Duration::from_millis(700));
    let log = call.log.clone();
    let begun = Instant::now();
    let ended = execute(call).await;
    let lasted = begun.elapsed();
    assert_eq!((failure(&ended).class, details(&ended).signal), (FailureClass::Timeout, Some(9)), "{ended:?}");
    assert!(lasted >= Duration::from_millis(1200) && lasted < Duration::from_secs(5), "{lasted:?}");
    assert_eq!(printed(&log), "up\n");
    let child = written(&child).await;
    eventually("the child to be gone", || !is_alive(&child)).await;
}

#[tokio::test]
async fn a_cancel_ends_it_and_one_that_comes_early_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("up");
    let cancelled = call(Command::new(format!(
        "trap 'echo bye; exit 4' TERM; echo $$ > {}; while :; do sleep 0.05; done",
        path.display()
    )));
    let (log, cancel) = (cancelled.log.clone(), cancelled.cancel.clone());
    let running = tokio::spawn(execute(cancelled));
    let shell = written(&path).await;
    cancel.cancel();
    let ended = tokio::time::timeout(PATIENCE, running).await.expect("it ends").unwrap();
    assert_eq!((ended.outcome.clone(), details(&ended).exit_code), (Outcome::Cancelled, Some(4)));
    // The shell may say as well that its child was ended.
    assert!(printed(&log).contains("bye\n"));
    assert!(!is_alive(&shell));

    let unstarted = folder.path().join("unstarted");
    let mut early = call(Command::new(format!("touch {}", unstarted.display())));
    early.cancel = Cancel::default();
    early.cancel.cancel();
    assert_eq!(execute(early).await.outcome, Outcome::Cancelled);
    assert!(!unstarted.exists());
}

#[tokio::test]
async fn a_dropped_attempt_takes_all_its_processes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("up");
    let line = format!("trap '' TERM; (sleep 600; :) & sleep 600 & echo $$ $! > {}; wait", path.display());
    let attempt = tokio::spawn(execute(call(Command::new(line))));
    let pids: Vec<String> = written(&path).await.split(' ').map(str::to_owned).collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    attempt.abort();
    assert!(attempt.await.unwrap_err().is_cancelled());
    eventually("all to be gone", || pids.iter().all(|pid| !is_alive(pid))).await;
    eventually("the shell to be waited for", || zombies().is_empty()).await;
}

#[tokio::test]
async fn what_the_shell_left_behind_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pid");
    // It holds the output open.
    let begun = Instant::now();
    let (ended, text) = run_line(&format!("sleep 600 & echo $! > {}; echo done", path.display())).await;
    let lasted = begun.elapsed();
    assert_eq!((ended.outcome, text.as_str()), (succeeded(None), "done\n"));
    assert!(lasted >= Duration::from_secs(2) && lasted < Duration::from_secs(6), "{lasted:?}");
    let left = written(&path).await;
    eventually("it to be gone", || !is_alive(&left)).await;

    // It does not.
    let begun = Instant::now();
    run_line(&format!("sleep 600 > /dev/null 2>&1 & echo $! > {}", path.display())).await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    let left = written(&path).await;
    eventually("it to be gone", || !is_alive(&left)).await;

    // It left the group as well, and is the only one that we do not reach.
    let begun = Instant::now();
    let (ended, _) = run_line(&format!("setsid sleep 30 & echo $! > {}", path.display())).await;
    assert_eq!(ended.outcome, succeeded(None));
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    let escaped = written(&path).await.parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
    let _ = rustix::process::kill_process(escaped, rustix::process::Signal::KILL);
}

#[tokio::test]
async fn what_is_printed_late_is_in_the_log() {
    let (ended, text) = run_line("(sleep 0.5; echo late) & echo early").await;
    assert_eq!((ended.outcome, text.as_str()), (succeeded(None), "early\nlate\n"));
}

#[tokio::test]
async fn an_output_file_that_is_too_long_is_not_called_printed() {
    let (ended, _) = run_line("head -c 3000000 /dev/zero | tr '\\0' a > $PUNCTUAL_OUTPUT").await;
    let failure = failure(&ended);
    assert_eq!((failure.class, details(&ended).limit.as_deref()), (FailureClass::Limit, Some("output")));
    assert_eq!(failure.reason, "output: it wrote more than 256KiB to PUNCTUAL_OUTPUT");
    assert_eq!(details(&ended).exit_code, Some(0));
}

#[tokio::test]
async fn a_flood_ends_the_command_and_does_not_fill_the_memory() {
    let resident_kib = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let before = resident_kib();
    let (ended, text) = run_line("trap '' PIPE; head -c 1073741824 /dev/zero | tr '\\0' x; echo $? >&2").await;
    let failure = failure(&ended);
    assert_eq!((failure.class, details(&ended).limit.as_deref()), (FailureClass::Limit, Some("output")));
    assert_eq!(failure.reason, "output: it printed more than 10MiB");
    assert!(text.len() <= 1 << 20, "{}", text.len());
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB");
    assert_eq!(zombies(), Vec::<String>::new());
}
