//! From a notice to the job that tells of it, on the model store.

mod faults;
mod handover;
mod late;
mod overdue;
mod requesters;
mod rules;
mod told;
mod unsent;
#[path = "../world/mod.rs"]
mod world;

use punctual_api::NotificationRequest;
use punctual_app::{Precondition, Reports, Round};
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::schedule::recurrence::{Rule, ScheduleSpec as When};
use punctual_core::schedule::{ScheduleEdit, ScheduleRow, ScheduleSpec};
use punctual_core::task::{Run, Task};
use punctual_core::{JobState, NamespaceId};
use punctual_store::{JobReads, JobRecord, NewJob, Notices, Tasks};
use punctual_store_tests::fixture::{Owner, original, start};
use punctual_store_tests::report_fixture::{ended_with, notice};
use punctual_store_tests::schedule_fixture::new_schedule;
use serde_json::{Value, json};

use crate::world::{World, by};

#[track_caller]
fn rule(json: Value) -> NotificationRequest {
    serde_json::from_value(json).unwrap()
}

fn mail() -> Value {
    json!({"email": {"to": ["ops@example.com"]}})
}

fn with(extra: Value) -> Value {
    let mut rule = mail();
    for (key, value) in extra.as_object().unwrap() {
        rule[key] = value.clone();
    }
    rule
}

async fn world_with(rules: &[(&str, Value)]) -> World {
    let world = World::new().await;
    put(&world, rules).await;
    world
}

async fn put(world: &World, rules: &[(&str, Value)]) {
    for (name, json) in rules {
        world.app.put_notification(&by(&world.app), name, rule(json.clone()), Precondition::None).await.unwrap();
    }
}

/// A job of the task `report` failed at second 102, and that is noticed.
async fn fail(owner: &mut Owner<'_>, job: &NewJob) {
    let failed = Notice { job: Some(job.id), ..notice(NoticeKind::Failed, 102, job.id.shard().0) };
    owner.done(vec![start(original(job), 1)]).await;
    owner.done(vec![ended_with(job, JobState::Failed, &failed)]).await;
}

/// Rounds until one has nothing more to do.
async fn report(world: &World, reports: &mut Reports) {
    for _ in 0..10 {
        if !matches!(reports.round(&world.app).await.unwrap(), Round::Done { is_more: true } | Round::Conflict) {
            return;
        }
    }
    panic!("there is always more to do");
}

/// What was handed to jobs, the first first.
async fn sent(world: &World) -> Vec<(String, u32, Task, NewJobInput)> {
    let mut rows = world.store.deliveries(NamespaceId::DEFAULT, None, None, 100).await.unwrap();
    rows.reverse();
    let mut all = Vec::new();
    for row in rows {
        let Some(JobRecord::Hot { job, input, .. }) = world.store.job(row.job).await.unwrap() else {
            panic!("{row:?} has no job")
        };
        assert_eq!(job.tracing_id, Some(format!("notification:{}", row.rule)));
        let task = world.store.tasks_by_id(vec![job.task]).await.unwrap().pop().unwrap();
        assert!(task.spec.quiet && task.name.is_none());
        all.push((row.summary, row.events, task, input.map(|input| serde_json::from_slice(&input).unwrap())));
    }
    all
}

type NewJobInput = Option<Value>;

/// What a mail says: the text is the input of its job, and in no task.
#[track_caller]
fn text(task: &Task, input: &NewJobInput) -> String {
    match (&task.spec.run, input) {
        (Run::Email(mail), Some(Value::String(text))) if mail.text.is_none() => text.clone(),
        other => panic!("it is no mail: {other:?}"),
    }
}

async fn summaries(world: &World) -> Vec<String> {
    sent(world).await.into_iter().map(|(summary, ..)| summary).collect()
}

fn interval(minutes: i64) -> ScheduleSpec {
    let every = jiff::SignedDuration::from_mins(minutes);
    ScheduleSpec::new(When::new(Rule::Interval { every, anchor: None }, "Europe/Berlin"))
}

fn schedule(n: u64, name: &str, shard: u16, spec: &ScheduleSpec) -> ScheduleRow {
    let row = new_schedule(n, name, shard);
    let spec = serde_json::to_string(spec).unwrap().into();
    ScheduleRow { edit: ScheduleEdit { spec, ..row.edit }, ..row }
}
