//! How attempts end, and what is told about it.

mod far_side;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use far_side::*;
use punctual_core::attempt::{Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::{Span, Timestamp};
use punctual_proto::worker as wire;
use punctual_worker::{HandlerError, JobContext, Worker};

fn worker(server: &FarServer) -> Worker {
    Worker::connect(server.url()).standard_executors().slots(8)
}

fn failed(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_handler_sees_its_job_and_its_answer_is_the_output() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server).handler("echo", |job: JobContext| async move {
        job.log(format!("{} {} {:?}", job.task(), job.attempt(), job.tracing_id()));
        assert_eq!(job.idempotency_key(), job.job().to_string());
        Ok(job.input().cloned())
    }));
    let mut stream = server.welcome().await;
    let mut message = assignments(handler_task("echo"), &[job(1)]);
    message.assignments[0].input = Some("hello".into());
    message.assignments[0].tracing_id = "trace-7".to_owned();
    stream.send(message);
    assert_eq!(stream.outcome().await.outcome, Outcome::Succeeded { output: Some("hello".into()) });
    assert_eq!(stream.log_text(), "a task 1 Some(\"trace-7\")\n");
}

#[tokio::test]
async fn a_handler_says_how_its_failure_is_to_be_treated() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server)
        .handler("retry", |_: JobContext| async { Err(HandlerError::new("busy").retry_after(Duration::from_secs(9))) })
        .handler("fatal", |_: JobContext| async { Err(HandlerError::fatal("no such user")) })
        .handler("error", |_: JobContext| async {
            "x".parse::<u8>()?;
            Ok(None)
        }));
    let mut stream = server.welcome().await;
    for (revision, name, reason, last, retry_after) in [
        (1, "retry", "busy", Last::No, Some(Span::from_secs(9))),
        (2, "fatal", "no such user", Last::Yes, None),
        (3, "error", "invalid digit found in string", Last::No, None),
    ] {
        let task = wire::TaskDefinition { revision, ..handler_task(name) };
        stream.assign(task, &[job(u64::from(revision))]);
        let expected = Failure { last, retry_after, ..Failure::new(reason) };
        assert_eq!(failed(stream.outcome().await.outcome), expected);
    }
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt_and_the_worker_goes_on() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server).handler("panic", |_: JobContext| async { panic!("at the disco") }));
    let mut stream = server.welcome().await;
    stream.assign(handler_task("panic"), &[job(1)]);
    assert_eq!(failed(stream.outcome().await.outcome).reason, "the handler panicked: at the disco");
    stream.assign(wire::TaskDefinition { revision: 2, ..probe_task("{}") }, &[job(2)]);
    assert_eq!(stream.outcome().await.id, job(2));
}

#[tokio::test]
async fn an_attempt_that_outlives_its_timeout_is_ended_as_timed_out() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server));
    let mut stream = server.welcome().await;
    let task = wire::TaskDefinition { timeout_us: 50_000, ..probe_task(r#"{"sleep":"1h"}"#) };
    stream.assign(task, &[job(1)]);
    let report = stream.outcome().await;
    assert!(report.timed_out);
    assert_eq!(report.details, None);
    let failure = failed(report.outcome);
    assert_eq!(failure.reason, "timed out after 50ms");
    assert_eq!((failure.class, failure.ran, failure.last), (FailureClass::Timeout, Ran::Unknown, Last::No));
}

/// Says when it was dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_cancelled_probe_ends_at_once() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server));
    let mut stream = server.welcome().await;
    stream.assign(probe_task(r#"{"sleep":"1h"}"#), &[job(1)]);
    stream.send(wire::ServerMessage { cancels: refs(&[job(1)]), ..Default::default() });
    assert_eq!(stream.outcome().await.outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn an_attempt_that_is_cancelled_before_it_began_never_runs() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server));
    let mut stream = server.welcome().await;
    let message = assignments(probe_task(r#"{"output":"ran"}"#), &[job(1)]);
    stream.send(wire::ServerMessage { cancels: refs(&[job(1)]), ..message });
    assert_eq!(stream.outcome().await.outcome, Outcome::Cancelled);
    assert_eq!(stream.log_text(), "");
}

#[tokio::test]
async fn a_handler_that_hears_of_its_cancellation_decides_how_it_ends() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server)
        .handler("finish", |job: JobContext| async move {
            job.log("finish begun");
            job.cancelled().await;
            Ok(Some("was done anyway".into()))
        })
        .handler("yield", |job: JobContext| async move {
            job.log("yield begun");
            job.cancelled().await;
            Err(HandlerError::cancelled())
        }));
    let mut stream = server.welcome().await;
    for (revision, name, expected) in
        [(1, "finish", Outcome::Succeeded { output: Some("was done anyway".into()) }), (2, "yield", Outcome::Cancelled)]
    {
        let job = job(u64::from(revision));
        stream.assign(wire::TaskDefinition { revision, ..handler_task(name) }, &[job]);
        stream.printed(&format!("{name} begun")).await;
        stream.send(wire::ServerMessage { cancels: refs(&[job]), ..Default::default() });
        assert_eq!(stream.outcome().await.outcome, expected);
    }
}

#[tokio::test]
async fn a_handler_that_ignores_its_cancellation_is_dropped_after_the_grace() {
    let mut server = FarServer::start().await;
    let dropped = Arc::new(AtomicBool::new(false));
    let guard = dropped.clone();
    let deaf = move |job: JobContext| {
        let guard = Dropped(guard.clone());
        async move {
            let _guard = guard;
            job.log("begun");
            std::future::pending().await
        }
    };
    let _worker = run(worker(&server).handler("deaf", deaf).cancel_grace(Duration::from_millis(20)));
    let mut stream = server.welcome().await;
    stream.assign(handler_task("deaf"), &[job(1)]);
    stream.printed("begun").await;
    stream.send(wire::ServerMessage { cancels: refs(&[job(1)]), ..Default::default() });
    assert_eq!(stream.outcome().await.outcome, Outcome::Cancelled);
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_stopped_attempt_is_dropped_and_never_reported() {
    let mut server = FarServer::start().await;
    let (begun, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (set, guard) = (begun.clone(), dropped.clone());
    let long = move |_: JobContext| {
        let (set, guard) = (set.clone(), Dropped(guard.clone()));
        async move {
            let _guard = guard;
            set.store(true, Ordering::SeqCst);
            std::future::pending().await
        }
    };
    let _worker = run(worker(&server).handler("long", long));
    let mut stream = server.welcome().await;
    stream.assign(handler_task("long"), &[job(1)]);
    eventually("the attempt to begin", || begun.load(Ordering::SeqCst)).await;
    stream.send(wire::ServerMessage { stops: refs(&[job(1)]), ..Default::default() });
    eventually("the attempt to be dropped", || dropped.load(Ordering::SeqCst)).await;

    stream.assign(wire::TaskDefinition { revision: 2, ..probe_task("{}") }, &[job(2)]);
    assert_eq!(stream.outcome().await.id, job(2), "the first thing heard after the stop");
    stream.ack(&[job(2)]);
    drop(stream);
    assert_eq!(server.accept().await.hello.held, []);
}

#[tokio::test]
async fn a_probe_fails_as_often_as_it_was_asked_to() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server));
    let mut stream = server.welcome().await;
    stream.assign(probe_task(r#"{"fail_times":2}"#), &[job(1)]);
    let reason = "attempt 1 failed as asked: the first 2 do";
    assert_eq!(failed(stream.outcome().await.outcome), Failure::new(reason));
}

#[tokio::test]
async fn probes_have_effects_only_where_the_worker_was_built_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let witness = dir.path().join("witness");
    let probe = serde_json::json!({ "witness": witness }).to_string();
    for (build, allowed) in [
        (Worker::standard_executors as fn(Worker) -> Worker, false),
        (|worker: Worker| worker.standard_executors().probe_effects(), true),
        (|worker: Worker| worker.probe_effects().standard_executors(), true),
    ] {
        let mut server = FarServer::start().await;
        let _worker = run(build(Worker::connect(server.url())));
        let mut stream = server.welcome().await;
        stream.assign(probe_task(&probe), &[job(1)]);
        let outcome = stream.outcome().await.outcome;
        assert_eq!(matches!(outcome, Outcome::Succeeded { .. }), allowed, "{outcome:?}");
        assert_eq!(witness.exists(), allowed);
    }
}

#[tokio::test]
async fn a_probe_reports_the_time_at_which_it_began() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server));
    let mut stream = server.welcome().await;
    stream.assign(probe_task(r#"{"report_time":true,"sleep":"20ms"}"#), &[job(1)]);
    let Outcome::Succeeded { output: Some(output) } = stream.outcome().await.outcome else { panic!() };
    let began: i64 = std::str::from_utf8(&output).unwrap().parse().unwrap();
    let began = Timestamp::from_micros(began).unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as i64;
    let age = Timestamp::from_micros(now).unwrap().since(began);
    assert!((Span::from_millis(20)..Span::from_secs(20)).contains(&age), "{age}");
}

#[tokio::test]
async fn lines_arrive_while_the_attempt_still_runs() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server).handler("chatty", |job: JobContext| async move {
        job.log("still here");
        std::future::pending().await
    }));
    let mut stream = server.welcome().await;
    stream.assign(handler_task("chatty"), &[job(1)]);
    stream.printed("still here").await;
}

#[tokio::test]
async fn the_begin_and_the_end_of_a_long_log_come_before_the_outcome_within_the_servers_limit() {
    const LIMIT_BYTES: u32 = 3 << 20;
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server).handler("chatty", |job: JobContext| async move {
        for n in 0..100_000 {
            job.log(format!("line {n:>40}"));
        }
        Ok(None)
    }));
    let mut stream = server.accept().await;
    stream.send(welcome_message(60_000, LIMIT_BYTES));
    stream.assign(handler_task("chatty"), &[job(1)]);
    stream.outcome().await;
    let text = stream.log_text();
    assert!(text.len() <= LIMIT_BYTES as usize && text.len() > LIMIT_BYTES as usize - 400, "{}", text.len());
    assert!(text.ends_with(&format!("line {:>40}\n", 99_999)), "{:?}", &text[text.len() - 100..]);
    let notes: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
    let [reached, left_out] = notes[..] else { panic!("{notes:?}") };
    assert!(reached.starts_with("[log limit of 3 MiB reached: "), "{reached}");
    let kept = text.lines().count() - 2;
    assert_eq!(left_out, format!("[{} bytes ({} lines) left out]", (100_000 - kept) * 46, 100_000 - kept));
}
