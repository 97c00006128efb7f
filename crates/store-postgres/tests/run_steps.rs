//! Steps of runs that are worked out before their batch is sent, on what is known of the runs.

mod common;

use common::Database;
use punctual_core::attempt::Ending;
use punctual_core::schedule::By;
use punctual_core::shard::write::{JobWrite, Settle, SharedBatch, Write};
use punctual_core::workflow::{GateVerdict, NodeStatus, RunEvent, RunState, RunStatus};
use punctual_core::{JobKey, JobState, NamespaceId, RunId, ShardId};
use punctual_store::{Applied, JobReads, JobRecord, NewJob, RunRow, StoreError, Transitions, WorkflowRow, Workflows};
use punctual_store_postgres::PostgresStore;
use punctual_store_tests::fixture::*;
use tokio_postgres::NoTls;

use NodeStatus::{Active, Open, Succeeded, Waiting};

/// `d` waits for the others.
const JOIN: &str = r#"{"nodes":[
    {"name":"a","task":"t"},{"name":"b","task":"t"},{"name":"c","gate":{}},
    {"name":"d","task":"t","needs":["a","b","c"],"input":{"a":{"from":"a"},"b":{"from":"b"}}}]}"#;

fn run_id() -> RunId {
    RunId::new(at(0), ShardId(2), 1)
}

/// A run of it, and the jobs of `a` and `b`.
async fn started(store: &PostgresStore) -> [NewJob; 2] {
    let made = By { at: at(0), who: "ann".to_owned() };
    let (namespace, workflow) = (NamespaceId::DEFAULT, "flow".to_owned());
    let spec = JOIN.to_owned();
    store
        .put_workflow(WorkflowRow { namespace, name: workflow.clone(), version: 0, spec, made: made.clone() })
        .await
        .unwrap();
    let task = Some((task_id(1), priority(0)));
    let row = RunRow {
        id: run_id(),
        namespace,
        workflow,
        version: 1,
        made,
        input: None,
        tasks: vec![task, task, None, task],
        state: RunState::new(4, at(1_000)),
        status: RunStatus::Running,
    };
    store.start_run(row).await.unwrap().jobs.try_into().unwrap()
}

fn end(job: &NewJob, output: &str) -> Write {
    let settle = settled(JobKey::original(job.id), 1, JobState::Succeeded, Ending::Succeeded);
    Write::Job(JobWrite::Settle(Settle { node: job.node.map(Box::new), output: Some(text(output)), ..settle }))
}

async fn statuses(store: &PostgresStore) -> Vec<NodeStatus> {
    let run = store.run(run_id()).await.unwrap().unwrap();
    run.state.nodes.iter().map(|node| node.status).collect()
}

async fn input_of_last(store: &PostgresStore) -> String {
    let run = store.run(run_id()).await.unwrap().unwrap();
    let job = run.state.nodes[3].job.expect("it was released");
    let Some(JobRecord::Hot { input, .. }) = store.job(job).await.unwrap() else { panic!("it waits") };
    String::from_utf8(input.expect("it has an input").to_vec()).unwrap()
}

fn approve() -> RunEvent {
    RunEvent::Decide { node: 2, verdict: GateVerdict::Approved, by: "ann".to_owned() }
}

/// The first server knows the run as it left it, and sends its step without a look.
#[tokio::test]
async fn what_another_server_did_to_a_run_meanwhile_counts() {
    let database = Database::new();
    let (store, other) = (database.store().await, database.store().await);
    let mut owner = owner_of(&store, &[]).await;
    let [a, b] = started(&store).await;
    for job in [&a, &b] {
        owner.done(vec![start(JobKey::original(job.id), 1)]).await;
    }
    owner.done(vec![end(&a, "1")]).await;
    assert_eq!(statuses(&store).await, [Succeeded, Active, Open, Waiting]);
    other.change_run(run_id(), approve(), at(1)).await.unwrap().unwrap();
    owner.done(vec![end(&b, "2")]).await;
    assert_eq!(statuses(&store).await, [Succeeded, Succeeded, Succeeded, Active], "the approval is not lost");
    assert_eq!(input_of_last(&store).await, r#"{"a":1,"b":2}"#);
}

/// The second is worked out and sent before the first is answered.
#[tokio::test]
async fn batches_that_are_sent_behind_each_other_step_one_run() {
    let database = Database::new();
    let store = database.store().await;
    let mut owner = owner_of(&store, &[]).await;
    let [a, b] = started(&store).await;
    for job in [&a, &b] {
        owner.done(vec![start(JobKey::original(job.id), 1)]).await;
    }
    store.change_run(run_id(), approve(), at(1)).await.unwrap().unwrap();
    let batches = [end(&a, "1"), end(&b, "[2]")].map(|end| SharedBatch::new(owner.batch(vec![end])));
    let applied = futures_util::future::join_all(batches.into_iter().map(|batch| store.apply(batch))).await;
    let released = applied.into_iter().map(|applied| match applied.unwrap() {
        Applied::Done { steps, .. } => steps.released.len(),
        Applied::Fenced(shards) => panic!("{shards:?}"),
    });
    assert_eq!(released.collect::<Vec<_>>(), [0, 1], "the second releases what waits for both");
    assert_eq!(input_of_last(&store).await, r#"{"a":1,"b":[2]}"#);
}

/// What was foreseen for a batch that was refused never happened.
#[tokio::test]
async fn a_batch_behind_one_that_was_refused_steps_what_is_there() {
    let database = Database::new();
    let store = database.store().await;
    let mut owner = owner_of(&store, &[]).await;
    let [a, b] = started(&store).await;
    for job in [&a, &b] {
        owner.done(vec![start(JobKey::original(job.id), 1)]).await;
    }
    store.change_run(run_id(), approve(), at(1)).await.unwrap().unwrap();
    let unfit = succeed(original(&new_job(77, 10, 2)), 1);
    let refused = SharedBatch::new(owner.batch(vec![end(&a, "1"), unfit]));
    let good = SharedBatch::new(owner.batch(vec![end(&b, "2")]));
    let (refused, good) = tokio::join!(store.apply(refused), store.apply(good));
    assert!(matches!(refused, Err(StoreError::Inconsistent(_))), "{refused:?}");
    assert!(matches!(good, Ok(Applied::Done { steps, .. }) if steps.released.is_empty()));
    assert_eq!(statuses(&store).await, [Active, Succeeded, Succeeded, Waiting]);
    owner.done(vec![end(&a, "1")]).await;
    assert_eq!(input_of_last(&store).await, r#"{"a":1,"b":2}"#);
}

#[tokio::test]
async fn a_run_that_an_earlier_version_wrote_goes_on() {
    let database = Database::new();
    let store = database.store().await;
    let mut owner = owner_of(&store, &[]).await;
    let [a, b] = started(&store).await;
    for job in [&a, &b] {
        owner.done(vec![start(JobKey::original(job.id), 1)]).await;
    }
    let state = serde_json::to_string(&store.run(run_id()).await.unwrap().unwrap().state).unwrap();
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let as_before = "UPDATE workflow_run SET packed = NULL, stamp = NULL, state = $1";
    assert_eq!(client.execute(as_before, &[&state]).await.unwrap(), 1);
    assert_eq!(statuses(&store).await, [Active, Active, Open, Waiting]);
    // Neither what this server knows of it nor a stamp is there.
    owner.done(vec![end(&a, "1")]).await;
    assert_eq!(statuses(&store).await, [Succeeded, Active, Open, Waiting]);
    let row = client.query_one("SELECT state, packed IS NULL, stamp IS NULL FROM workflow_run", &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, bool>(1), row.get::<_, bool>(2)), ("", false, false));
    store.change_run(run_id(), approve(), at(1)).await.unwrap().unwrap();
    owner.done(vec![end(&b, "2")]).await;
    assert_eq!(input_of_last(&store).await, r#"{"a":1,"b":2}"#);
}
