//! Commands by real shells: what they find, what their end means, and that nothing of them stays behind.

mod ends;
mod finds;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use punctual_core::attempt::{AttemptNo, Details, Failure, Outcome};
use punctual_core::run::{Command, Run};
use punctual_core::{JobId, NamespaceId, ShardId, Span, Timestamp};
use punctual_exec::{Account, Call, Cancel, Commands, ExecutionEnd, Executor, LogOutlet, LogSink};

/// A condition that has not come true by then never will.
const PATIENCE: Duration = Duration::from_secs(20);

struct Silent;

impl LogOutlet for Silent {
    fn ready(&self, _: LogSink) {}
}

fn call(command: Command) -> Call {
    let job = JobId::new(Timestamp::EPOCH, ShardId(0), 1);
    Call {
        job,
        attempt: AttemptNo(2),
        namespace: NamespaceId::DEFAULT,
        task: "nightly".into(),
        run: Arc::new(Run::Command(command)),
        input: None,
        tracing_id: Some("order 17".to_owned()),
        scheduled_run: None,
        log: LogSink::new(job, AttemptNo(2), 1 << 20, Arc::new(Silent)),
        cancel: Cancel::default(),
        deadline: None,
    }
}

async fn execute(call: Call) -> ExecutionEnd {
    let execution = Arc::new(Commands::new(Account::own())).execute(call);
    tokio::time::timeout(PATIENCE, execution).await.expect("a command of these tests ends")
}

fn printed(log: &LogSink) -> String {
    let mut text = Vec::new();
    while let Some(piece) = log.take(usize::MAX) {
        text.extend_from_slice(&piece.bytes);
    }
    String::from_utf8(text).unwrap()
}

/// Runs it to its end; what it printed comes second.
async fn run(command: Command) -> (ExecutionEnd, String) {
    let call = call(command);
    let log = call.log.clone();
    (execute(call).await, printed(&log))
}

async fn run_line(line: &str) -> (ExecutionEnd, String) {
    run(Command::new(line)).await
}

#[track_caller]
fn failure(ended: &ExecutionEnd) -> &Failure {
    match &ended.outcome {
        Outcome::Failed(failure) => failure,
        other => panic!("it did not fail: {other:?}"),
    }
}

#[track_caller]
fn details(ended: &ExecutionEnd) -> &Details {
    ended.details.as_deref().expect("a command that ran leaves details")
}

fn succeeded(output: Option<&str>) -> Outcome {
    Outcome::Succeeded { output: output.map(|text| Bytes::copy_from_slice(text.as_bytes())) }
}

/// Whether a process runs; one that has ended and was not waited for does not.
fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let limit = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < limit, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the command has written something there, and a line break.
async fn written(path: &Path) -> String {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    eventually("the command to write", || read().ends_with('\n')).await;
    read().trim().to_owned()
}

/// Children of this process that ended and were not waited for.
fn zombies() -> Vec<String> {
    let own = format!(" {} ", std::process::id());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter(|stat| stat.contains(&format!(") Z{own}"))).collect()
}

const fn grace(millis: i64) -> Span {
    Span::from_millis(millis)
}
