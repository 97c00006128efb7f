//! Executors that end by themselves, and what is told of an attempt besides how it ended.

mod far_side;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use far_side::*;
use punctual_core::attempt::{Details, Failure, FailureClass, Outcome, Ran};
use punctual_core::task::Run;
use punctual_proto::worker as wire;
use punctual_worker::{Call, ExecutionEnd, Executor, Worker};
use tokio::time::Instant;
use tonic::async_trait;

/// Runs handlers in its own way: waits for its time to be over or to be cancelled, takes a
/// while to end, and then says all that it knows.
struct SelfEnding {
    ends_by_itself: bool,
    /// What it is given to end.
    grace: Duration,
    /// What it takes to end.
    takes: Duration,
    dropped: Arc<AtomicBool>,
}

const NEVER: Duration = Duration::from_secs(3600);
/// Long enough to be seen, and short enough to wait for.
const SHORT: Duration = Duration::from_millis(60);

impl SelfEnding {
    fn new(grace: Duration, takes: Duration) -> Self {
        Self { ends_by_itself: true, grace, takes, dropped: Arc::default() }
    }
}

fn known() -> Details {
    Details { signal: Some(15), cpu_us: Some(1234), sandbox: Some("none".into()), ..Details::default() }
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Executor for SelfEnding {
    fn kind(&self) -> &'static str {
        "handler"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["handler:any".to_owned()]
    }

    fn ends_by_itself(&self) -> bool {
        self.ends_by_itself
    }

    fn grace(&self, run: &Run) -> Duration {
        assert_eq!(run.kind(), "handler");
        self.grace
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let _dropped = Dropped(self.dropped.clone());
        let deadline = call.deadline.expect("every attempt here has one");
        call.log.line("begun");
        let outcome = tokio::select! {
            () = tokio::time::sleep_until(deadline) => {
                assert!(Instant::now() >= deadline);
                Outcome::Failed(Failure { class: FailureClass::Timeout, ..Failure::new("stopped after its time") })
            }
            () = call.cancel.cancelled() => Outcome::Cancelled,
        };
        tokio::time::sleep(self.takes).await;
        ExecutionEnd { outcome, details: Some(Box::new(known())) }
    }
}

fn worker(server: &FarServer, executor: SelfEnding) -> Running {
    run(Worker::connect(server.url()).executor(executor).slots(8).cancel_grace(Duration::from_millis(20)))
}

fn short_task() -> wire::TaskDefinition {
    wire::TaskDefinition { timeout_us: 50_000, ..handler_task("any") }
}

#[tokio::test]
async fn an_executor_that_ends_by_itself_has_its_grace_and_tells_what_it_knows() {
    let mut server = FarServer::start().await;
    let _worker = worker(&server, SelfEnding::new(NEVER, SHORT));
    let mut stream = server.welcome().await;
    let begun = Instant::now();
    stream.assign(short_task(), &[job(1)]);
    let report = stream.outcome().await;
    assert!(begun.elapsed() >= Duration::from_millis(50) + SHORT);
    assert!(report.timed_out, "it failed for want of time");
    let failure = Failure { class: FailureClass::Timeout, ..Failure::new("stopped after its time") };
    assert_eq!(report.outcome, Outcome::Failed(failure));
    assert_eq!(report.details.as_deref(), Some(&known()));
}

#[tokio::test]
async fn an_executor_that_does_not_end_within_its_grace_is_ended_by_force() {
    let mut server = FarServer::start().await;
    let executor = SelfEnding::new(SHORT, NEVER);
    let dropped = executor.dropped.clone();
    let _worker = worker(&server, executor);
    let mut stream = server.welcome().await;
    let begun = Instant::now();
    stream.assign(short_task(), &[job(1)]);
    let report = stream.outcome().await;
    assert!(begun.elapsed() >= Duration::from_millis(50) + SHORT);
    assert!(report.timed_out && dropped.load(Ordering::SeqCst));
    let Outcome::Failed(failure) = report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!((failure.class, failure.ran), (FailureClass::Timeout, Ran::Unknown));
    assert_eq!(failure.reason, "timed out after 50ms and 60ms of grace");
    assert_eq!(report.details, None, "nobody was there to say more");
}

#[tokio::test]
async fn only_an_executor_that_ends_by_itself_has_a_grace() {
    let mut server = FarServer::start().await;
    let executor = SelfEnding { ends_by_itself: false, ..SelfEnding::new(NEVER, SHORT) };
    let _worker = worker(&server, executor);
    let mut stream = server.welcome().await;
    stream.assign(short_task(), &[job(1)]);
    let report = stream.outcome().await;
    let Outcome::Failed(failure) = report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!(failure.reason, "timed out after 50ms");
    assert!(report.timed_out && report.details.is_none());
}

/// One that ends by itself, in a grace that is longer than what cancelled attempts have.
#[tokio::test]
async fn a_cancelled_attempt_has_the_longer_of_both_graces() {
    let mut server = FarServer::start().await;
    let _worker = worker(&server, SelfEnding::new(NEVER, SHORT));
    let mut stream = server.welcome().await;
    stream.assign(handler_task("any"), &[job(1)]);
    stream.printed("begun").await;
    stream.send(wire::ServerMessage { cancels: refs(&[job(1)]), ..Default::default() });
    let report = stream.outcome().await;
    assert_eq!((report.outcome, report.timed_out), (Outcome::Cancelled, false));
    assert_eq!(report.details.as_deref(), Some(&known()), "it ended by itself");
}

#[tokio::test]
async fn a_cancelled_attempt_that_does_not_end_within_its_grace_is_dropped() {
    let mut server = FarServer::start().await;
    let executor = SelfEnding::new(SHORT, NEVER);
    let dropped = executor.dropped.clone();
    let _worker = worker(&server, executor);
    let mut stream = server.welcome().await;
    stream.assign(handler_task("any"), &[job(1)]);
    stream.printed("begun").await;
    let asked = Instant::now();
    stream.send(wire::ServerMessage { cancels: refs(&[job(1)]), ..Default::default() });
    let report = stream.outcome().await;
    assert!(asked.elapsed() >= SHORT, "not already after the 20 ms of others");
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!((report.outcome, report.details), (Outcome::Cancelled, None));
}

/// Fails at once, with words that are too long.
struct Talkative;

#[async_trait]
impl Executor for Talkative {
    fn kind(&self) -> &'static str {
        "handler"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["handler:any".to_owned()]
    }

    async fn execute(self: Arc<Self>, _: Call) -> ExecutionEnd {
        let failure = Failure { class: FailureClass::Timeout, ..Failure::new("too slow for me") };
        let details = Details { host: Some("x".repeat(10_000)), ..Details::default() };
        ExecutionEnd { outcome: Outcome::Failed(failure), details: Some(Box::new(details)) }
    }
}

#[tokio::test]
async fn a_class_and_details_are_passed_on_and_long_texts_are_cut() {
    let mut server = FarServer::start().await;
    let _worker = run(Worker::connect(server.url()).executor(Talkative));
    let mut stream = server.welcome().await;
    stream.assign(handler_task("any"), &[job(1)]);
    let message = loop {
        let message = stream.message().await.expect("the worker is connected");
        if !message.outcomes.is_empty() {
            break message;
        }
    };
    let [outcome] = &message.outcomes[..] else { panic!("{:?}", message.outcomes) };
    let Some(wire::outcome::Result::Failed(failed)) = &outcome.result else { panic!("{outcome:?}") };
    assert_eq!(failed.class(), wire::FailureClass::Timeout);
    assert!(!failed.timed_out, "its own idea of time is not the task's");
    let host = outcome.details.as_ref().and_then(|details| details.host.as_deref());
    assert_eq!(host, Some(&*"x".repeat(Details::TEXT_MAX)), "the message itself is bounded");
}
