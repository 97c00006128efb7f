//! What a command finds where it starts.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;

use bytes::Bytes;
use punctual_core::attempt::{FailureClass, Outcome, Ran};
use punctual_core::run::Command;
use punctual_exec::Account;
use rustix::fs::{Mode, OFlags};

use super::{call, execute, failure, printed, run, run_line, succeeded};

#[tokio::test]
async fn its_environment_is_its_own() {
    // Tests are run with a full environment, cargo's for one.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let environment = [("GREETING".to_owned(), "hello there".to_owned()), ("USER".to_owned(), "me".to_owned())];
    let command = Command { environment: environment.into(), ..Command::new("exec env") };
    let call = call(command);
    let (log, job) = (call.log.clone(), call.job.to_string());
    assert_eq!(execute(call).await.outcome, succeeded(None));
    let text = printed(&log);
    let mut found: BTreeMap<&str, &str> = text.lines().map(|line| line.split_once('=').unwrap()).collect();
    let account = Account::own();
    let output = found.remove("PUNCTUAL_OUTPUT").expect("a place for the job's output");
    assert!(output.starts_with('/'), "{output}");
    let trace = found.remove("TRACEPARENT").expect("a trace");
    assert!(trace.starts_with("00-"), "{trace}");
    // Set by the shell itself.
    for own in ["PWD", "OLDPWD", "SHLVL", "_"] {
        found.remove(own);
    }
    let expected = BTreeMap::from([
        ("GREETING", "hello there"),
        ("HOME", account.home.to_str().unwrap()),
        ("LOGNAME", account.name.as_str()),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("PUNCTUAL_ATTEMPT", "2"),
        ("PUNCTUAL_IDEMPOTENCY_KEY", &job),
        ("PUNCTUAL_JOB_ID", &job),
        ("PUNCTUAL_RUN_TYPE", "one_off"),
        ("PUNCTUAL_SCHEDULED_AT", "1970-01-01T00:00:00.000000Z"),
        ("PUNCTUAL_TASK", "nightly"),
        ("PUNCTUAL_TRACING_ID", "order 17"),
        ("SHELL", "/bin/sh"),
        ("USER", "me"),
    ]);
    assert_eq!(found, expected);
}

#[tokio::test]
async fn open_files_of_the_worker_are_closed() {
    // As a worker inherits from whoever started it: without close-on-exec.
    let leaky = rustix::fs::open("/etc/passwd", OFlags::RDONLY, Mode::empty()).unwrap();
    assert!(leaky.as_raw_fd() > 2);
    let (ended, text) = run_line("ls /proc/$$/fd; cut -d' ' -f6 /proc/$$/stat; echo $$").await;
    assert_eq!(ended.outcome, succeeded(None));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[..3], ["0", "1", "2"], "{text}");
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(lines[3], lines[4], "the shell leads a session of its own");
}

#[tokio::test]
async fn its_input_is_that_of_the_task_or_of_the_job_or_nothing() {
    let input = || Some(Bytes::from_static(b"{\"from\":\"job\"}"));
    for (stdin, input, expected) in [
        (Some("from\ntask"), input(), "from\ntask"),
        (None, input(), "{\"from\":\"job\"}"),
        (Some(""), input(), ""),
        (None, None, ""),
    ] {
        let mut call = call(Command { stdin: stdin.map(str::to_owned), ..Command::new("cat") });
        call.input = input;
        let log = call.log.clone();
        assert_eq!(execute(call).await.outcome, succeeded(None));
        assert_eq!(printed(&log), expected);
    }
}

#[tokio::test]
async fn an_input_that_is_not_read_does_no_harm() {
    let command = Command { stdin: Some("x".repeat(64 << 10)), ..Command::new("exit 0") };
    assert_eq!(run(command).await.0.outcome, succeeded(None));
}

#[tokio::test]
async fn it_starts_in_the_folder_it_names_or_at_home() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    let named = Command { directory: Some(path.clone()), ..Command::new("pwd") };
    assert_eq!(run(named).await.1, format!("{path}\n"));
    let home =
        |home: &str| Command { environment: [("HOME".to_owned(), home.to_owned())].into(), ..Command::new("pwd") };
    assert_eq!(run(home(&path)).await.1, format!("{path}\n"));
    assert_eq!(run(home("/no/such/home")).await.1, "/\n");
    assert_eq!(run_line("pwd; echo ~").await.1.lines().collect::<std::collections::BTreeSet<_>>().len(), 1);
}

#[tokio::test]
async fn the_line_is_for_the_shell_that_it_names() {
    let (ended, text) = run_line("printf '%s ' one 'two three' | tr a-z A-Z; echo \"$0\"").await;
    assert_eq!((ended.outcome, text.as_str()), (succeeded(None), "ONE TWO THREE /bin/sh\n"));
    let shell = |path: &str| Command { shell: Some(path.to_owned()), ..Command::new("exit 7") };
    assert_eq!(failure(&run(shell("/bin/sh")).await.0).reason, "exit code 7");
    assert_eq!(run(shell("/bin/echo")).await.1, "-c exit 7\n");
}

#[tokio::test]
async fn what_this_machine_lacks_is_named_and_nothing_runs() {
    let shell = |path: &str| Command { shell: Some(path.to_owned()), ..Command::new("date") };
    let folder = |path: &str| Command { directory: Some(path.to_owned()), ..Command::new("date") };
    for (command, reason) in [
        (shell("/no/such/shell"), "cannot start /no/such/shell: No such file"),
        (shell("/etc/passwd"), "cannot start /etc/passwd: Permission denied"),
        (folder("/no/such/folder"), "cannot enter /no/such/folder: No such file"),
        (folder("/etc/passwd"), "/etc/passwd is not a folder"),
    ] {
        let (ended, _) = run(command).await;
        let failure = failure(&ended);
        assert!(failure.reason.starts_with(reason), "{}", failure.reason);
        assert_eq!((failure.class, failure.ran), (FailureClass::Environment, Ran::No));
    }
}

#[tokio::test]
async fn what_it_leaves_is_the_output_of_the_job() {
    let (ended, text) = run_line("echo printed; printf 42 > \"$PUNCTUAL_OUTPUT\"; echo $PUNCTUAL_OUTPUT").await;
    assert_eq!(ended.outcome, succeeded(Some("42")));
    let place = text.lines().nth(1).unwrap();
    assert!(text.starts_with("printed\n") && !std::path::Path::new(place).exists(), "{text}");
    // Nothing that leads elsewhere or never ends is read.
    for line in ["ln -s /etc/passwd $PUNCTUAL_OUTPUT", "mkfifo $PUNCTUAL_OUTPUT", "mkdir $PUNCTUAL_OUTPUT"] {
        assert_eq!(run_line(line).await.0.outcome, succeeded(None), "{line}");
    }
    let (ended, _) = run_line("head -c 1048577 /dev/zero > $PUNCTUAL_OUTPUT").await;
    assert_eq!(failure(&ended).class, FailureClass::Limit);
    let (ended, _) = run_line("printf 90s > $PUNCTUAL_OUTPUT; exit 75").await;
    assert_eq!(failure(&ended).retry_after, Some(punctual_core::Span::from_secs(90)));
    assert!(matches!(ended.outcome, Outcome::Failed(_)));
}
