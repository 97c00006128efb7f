//! What a worker says on its streams, and again on the next when one breaks.

mod far_side;

use far_side::*;
use punctual_core::attempt::Outcome;
use punctual_proto::worker as wire;
use punctual_worker::{JobContext, SLOTS_MAX, Worker};

fn worker(server: &FarServer) -> Worker {
    Worker::connect(server.url()).standard_executors().slots(8)
}

#[tokio::test]
async fn a_hello_says_who_the_worker_is_and_what_it_can_do() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server)
        .name("w1")
        .queues(["fast", "slow"])
        .label("zone", "eu")
        .handler("resize", |_: JobContext| async { Ok(None) }));
    let hello = server.accept().await.hello;
    assert_eq!(hello.name, "w1");
    assert_eq!(hello.queues, ["fast", "slow"]);
    assert_eq!(hello.capabilities, ["handler:resize", "http", "probe", "slack"]);
    assert_eq!(hello.labels["zone"], "eu");
    assert_eq!(hello.credit, 8);
    assert_eq!(hello.held, []);
    assert_eq!(hello.worker_id.len(), 16);
}

#[tokio::test]
async fn a_worker_waits_for_a_server_that_is_not_there_yet() {
    let server = FarServer::start().await;
    let worker = worker(&server);
    let addr = server.kill().await;
    let _worker = run(worker);
    let mut server = FarServer::start_at(addr).await;
    assert_eq!(server.accept().await.hello.credit, 8);
}

#[tokio::test]
async fn attempts_run_and_their_outcomes_are_reported() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server));
    let mut stream = server.welcome().await;
    let jobs: Vec<_> = (0..8).map(job).collect();
    stream.assign(probe_task(r#"{"output":"pong"}"#), &jobs);
    let mut reports = Vec::new();
    while reports.len() < jobs.len() {
        reports.extend(stream.outcomes().await);
    }
    for (report, job) in reports.iter().zip(&jobs) {
        assert_eq!(report.id, *job);
        assert_eq!(report.outcome, Outcome::Succeeded { output: Some("pong".into()) });
    }
    assert_eq!(stream.logs.len(), jobs.len());
}

#[tokio::test]
async fn a_new_stream_lists_everything_that_is_held() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server));
    let mut stream = server.welcome().await;
    let (running, unacked, acked) = (job(1), job(2), job(3));
    stream.assign(probe_task(r#"{"sleep":"1h"}"#), &[running]);
    let quick = wire::TaskDefinition { revision: 2, ..probe_task("{}") };
    stream.assign(quick.clone(), &[acked]);
    assert_eq!(stream.outcome().await.id, acked);
    stream.ack(&[acked]);
    stream.assign(quick, &[unacked]);
    assert_eq!(stream.outcome().await.id, unacked);
    let worker_id = stream.hello.worker_id.clone();
    drop(stream);

    let mut stream = server.welcome().await;
    assert_eq!(stream.hello.worker_id, worker_id);
    assert_eq!(sorted(stream.hello.held.clone()), refs(&[running, unacked]));
    assert_eq!(stream.outcome().await.id, unacked, "it is sent again");
    stream.ack(&[unacked]);
    drop(stream);
    assert_eq!(server.accept().await.hello.held, refs(&[running]));
}

#[tokio::test]
async fn an_assignment_that_was_read_before_the_stream_broke_is_held() {
    let mut server = FarServer::start().await;
    let worker = worker(&server);
    let status = worker.status();
    let _worker = run(worker);
    let stream = server.welcome().await;
    let jobs: Vec<_> = (0..8).map(job).collect();
    stream.assign(probe_task(r#"{"sleep":"1h"}"#), &jobs);
    drop(stream);
    let held = server.accept().await.hello.held;
    assert_eq!(held.len(), status.running());
    assert_eq!(sorted(held), refs(&jobs));
}

#[tokio::test]
async fn what_ended_while_the_server_was_away_is_told_to_the_next_one() {
    let mut server = FarServer::start().await;
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let opened = gate.clone();
    let worker = worker(&server).handler("wait", move |job: JobContext| {
        let gate = opened.clone();
        async move {
            job.log("before");
            gate.notified().await;
            job.log("after");
            Ok(None)
        }
    });
    let status = worker.status();
    let _worker = run(worker);
    let mut stream = server.welcome().await;
    stream.assign(handler_task("wait"), &[job(1)]);
    stream.printed("before").await;
    let addr = server.kill().await;
    gate.notify_one();
    eventually("the attempt to end", || status.unacknowledged() == 1).await;

    let mut server = FarServer::start_at(addr).await;
    let mut stream = server.welcome().await;
    assert_eq!(stream.hello.held, refs(&[job(1)]));
    assert_eq!(stream.outcome().await.outcome, Outcome::Succeeded { output: None });
    assert_eq!(stream.log_text(), "before\nafter\n", "the whole log came before the outcome");
}

#[tokio::test]
async fn surplus_is_refused_and_nothing_of_it_runs() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server).slots(2));
    let mut stream = server.welcome().await;
    stream.assign(probe_task(r#"{"sleep":"1h"}"#), &[job(1), job(2), job(3)]);
    let report = stream.outcome().await;
    assert_eq!(report.id, job(3));
    assert_eq!(report.outcome, Outcome::NotStarted { reason: "no free slot".into() });
}

#[tokio::test]
async fn what_a_worker_cannot_run_is_given_back() {
    let mut server = FarServer::start().await;
    let _worker = run(worker(&server));
    let mut stream = server.welcome().await;
    for (revision, run, reason) in [
        (1, r#"{"handler":{"name":"x"}}"#, "this worker does not run handler tasks"),
        (2, r#"{"teleport":{}}"#, "this worker cannot read the task: unknown variant `teleport`"),
    ] {
        stream.assign(wire::TaskDefinition { revision, ..task(run) }, &[job(u64::from(revision))]);
        let Outcome::NotStarted { reason: said } = stream.outcome().await.outcome else { panic!() };
        assert!(said.starts_with(reason), "{said}");
    }
    stream.send(wire::ServerMessage { tasks: vec![], ..assignments(probe_task("{}"), &[job(3)]) });
    assert!(matches!(stream.outcome().await.outcome, Outcome::NotStarted { .. }));
}

#[tokio::test]
async fn an_attempt_that_is_assigned_twice_runs_once() {
    let mut server = FarServer::start().await;
    let worker = worker(&server);
    let status = worker.status();
    let _worker = run(worker);
    let mut stream = server.welcome().await;
    stream.assign(probe_task(r#"{"sleep":"1h"}"#), &[job(1), job(1)]);
    let quick = wire::TaskDefinition { revision: 2, ..probe_task("{}") };
    stream.assign(quick, &[job(2)]);
    assert_eq!(stream.outcome().await.id, job(2));
    assert_eq!(status.running(), 1);
}

#[tokio::test]
async fn a_worker_has_as_many_slots_as_a_server_gives_credit_for_and_no_more() {
    let mut server = FarServer::start().await;
    let too_many = worker(&server).slots(SLOTS_MAX + 1).run().await.unwrap_err();
    assert_eq!(too_many.to_string(), "a worker needs between 1 and 65536 slots");
    let _worker = run(worker(&server).slots(SLOTS_MAX));
    assert_eq!(server.accept().await.hello.credit, 65_536);
}

#[tokio::test]
async fn the_slots_are_divided_among_the_servers() {
    let (mut first, mut second) = (FarServer::start().await, FarServer::start().await);
    let _worker = run(worker(&first).server(second.url()).slots(5));
    let a = first.welcome().await;
    assert_eq!(a.hello.credit, 3);
    assert_eq!(second.welcome().await.hello.credit, 2);
}
