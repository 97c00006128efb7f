//! Schedules whose owner is another server.

use punctual_api::{
    BackfillRequest, BackfillRunQuery, BackfillStanding, IfExists, OccurrenceQuery, RunRequest, ScheduleBulkRequest,
    ScheduleRequest,
};
use punctual_client::{Client, IfMatch};
use punctual_core::Span;
use punctual_core::task::{Probe, Run, TaskSpec};
use serde_json::value::RawValue;

use super::{Cluster, balanced, finished};
use crate::harness::eventually;

fn every_second(name: &str) -> ScheduleRequest {
    ScheduleRequest {
        name: Some(name.to_owned()),
        task: Some("greet".to_owned()),
        every: Some(Span::from_secs(1)),
        ..ScheduleRequest::default()
    }
}

async fn fired(client: &Client, name: &str) -> usize {
    let query = OccurrenceQuery { verdict: Some("fired".to_owned()), ..OccurrenceQuery::default() };
    client.occurrences(name, &query).await.expect("the occurrences").occurrences.len()
}

#[tokio::test]
async fn whoever_is_asked_the_owner_decides() {
    let cluster = Cluster::new();
    let scheduler = cluster.server(&["--roles", "scheduler"]);
    let api = cluster.server(&["--roles", "api"]);
    let client = api.client();
    balanced(&client, 1).await;
    let _worker = cluster.worker(&scheduler);
    client.apply_task("greet", &TaskSpec::new(Run::Probe(Probe::default())), IfMatch::Any).await.expect("the task");

    let created = client.create_schedule(&every_second("tick")).await.expect("it is created");
    assert_eq!((created.revision, created.created.who.as_str()), (1, "local"));
    eventually("it fires", || async { fired(&client, "tick").await >= 2 }).await;
    client.pause_schedule("tick", Some("lunch")).await.expect("it is paused");
    let run = client.run_schedule("tick", &RunRequest::default()).await.expect("it runs");
    let job = finished(&client, run.job.expect("nothing else runs")).await;
    assert_eq!(
        (job.state.as_str(), job.schedule.map(|made_by| made_by.kind)),
        ("succeeded", Some("manual".to_owned()))
    );
    client.resume_schedule("tick", None).await.expect("it is resumed");
    let skip = client.skip_schedule("tick", 100).await.expect("it skips");
    assert_eq!(skip.skipped.len(), 100);

    // More than one message between servers can hold: 40 inputs of 200 KB.
    let input = RawValue::from_string(format!("\"{}\"", "x".repeat(200_000))).expect("JSON");
    let schedule = |n: usize| ScheduleRequest { input: Some(input.clone()), ..every_second(&format!("large{n}")) };
    let schedules: Vec<ScheduleRequest> =
        (0..40).map(|n| ScheduleRequest { every: Some(Span::from_secs(86_400)), ..schedule(n) }).collect();
    let bulk = ScheduleBulkRequest { schedules, if_exists: IfExists::Fail };
    assert_eq!(client.create_schedules(&bulk).await.expect("they are created").created, 40);
    let large = client.schedule("large39").await.expect("it is there");
    assert_eq!(large.definition.input.map(|input| input.get().len()), Some(200_002));
    client.delete_schedule("tick").await.expect("it is deleted");
}

#[tokio::test]
async fn a_schedule_goes_on_when_its_owner_dies() {
    let cluster = Cluster::new();
    let [first, second] = cluster.pair().await;
    let client = second.client();
    let _worker = cluster.worker(&second);
    client.apply_task("greet", &TaskSpec::new(Run::Probe(Probe::default())), IfMatch::Any).await.expect("the task");
    // Enough for both servers to own some.
    let schedules = (0..20).map(|n| every_second(&format!("tick{n}"))).collect();
    let bulk = ScheduleBulkRequest { schedules, if_exists: IfExists::Fail };
    assert_eq!(first.client().create_schedules(&bulk).await.expect("they are created").created, 20);
    eventually("they fire", || async { fired(&client, "tick0").await >= 1 }).await;
    first.kill();
    // Commands are answered as soon as the shards have their new owner.
    eventually("commands are answered", || async {
        client.run_schedule("tick0", &RunRequest::default()).await.is_ok()
    })
    .await;
    let before = fired(&client, "tick19").await;
    eventually("all fire again", || async { fired(&client, "tick19").await >= before + 2 }).await;
    // Each second has one verdict: none was decided twice, none was left out.
    let query =
        OccurrenceQuery { order: Some("asc".to_owned()), limit: Some("1000".to_owned()), ..OccurrenceQuery::default() };
    let list = client.occurrences("tick19", &query).await.expect("the occurrences").occurrences;
    let seconds: Vec<i64> = list.iter().map(|row| row.at.as_micros() / 1_000_000).collect();
    assert!(seconds.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seconds:?}");
}

#[tokio::test]
async fn a_backfill_goes_on_when_its_owner_dies() {
    let cluster = Cluster::new();
    let [first, second] = cluster.pair().await;
    let client = second.client();
    let _worker = cluster.worker(&second);
    let probe = Probe { sleep: Span::from_millis(20), ..Probe::default() };
    client.apply_task("greet", &TaskSpec::new(Run::Probe(probe)), IfMatch::Any).await.expect("the task");
    // Whoever is asked to make a schedule owns it.
    first.client().create_schedule(&every_second("tick")).await.expect("it is created");
    let range = BackfillRequest {
        from: "2026-01-01T00:00:00Z".to_owned(),
        to: Some("2026-01-01T00:10:00Z".to_owned()),
        overlap: Some("allow".to_owned()),
        ..BackfillRequest::default()
    };
    let id = client.start_backfill("tick", &range).await.expect("it is made at the other server").id;
    let read = async || client.backfill(id).await.expect("the backfill");
    eventually("the owner drives it", || async { read().await.succeeded >= 20 }).await;
    first.kill();
    assert_eq!(read().await.state, BackfillStanding::Running, "it is in the middle");
    eventually("the next owner drives it to its end", || async { read().await.state == BackfillStanding::Done }).await;
    let done = read().await;
    assert_eq!((done.total, done.made, done.passed_over, done.succeeded), (600, 600, 0, 600));
    let query = BackfillRunQuery { limit: Some("1000".to_owned()), cursor: None };
    let runs = client.backfill_runs(id, &query).await.expect("its runs").runs;
    let seconds: Vec<i64> = runs.iter().map(|run| run.at.as_micros() / 1_000_000).collect();
    assert!(seconds.len() == 600 && seconds.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seconds:?}");
}
