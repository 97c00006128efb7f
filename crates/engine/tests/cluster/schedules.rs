//! Schedules on several servers.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::schedule::{
    By, NewSchedule, OccurrenceRow, ScheduleCommand, ScheduleEdit, ScheduleReply, ScheduleSpec, StoredCalendar,
    Verdict, recurrence,
};
use punctual_core::shard::{Answer, Ask};
use punctual_core::{NamespaceId, ScheduleId, ShardId};
use punctual_engine::Engine;
use punctual_store::{OccurrenceFilter, Order};

use crate::harness::{Harness, Worker, until};
use crate::store::START;

const EVERY_SECOND: &str = "* * * * * *";

impl Harness {
    fn edit(&self, spec: &ScheduleSpec) -> ScheduleEdit {
        ScheduleEdit {
            task: self.task,
            spec: serde_json::to_string(spec).unwrap().into(),
            calendars: spec.calendars.names().cloned().collect(),
            priority: None,
            input: None,
        }
    }

    fn new_schedule(&self, shard: u16, name: &str, spec: &ScheduleSpec) -> (ScheduleId, ScheduleCommand) {
        let id = ScheduleId::new(self.store.time(), ShardId(shard), 7);
        let new = NewSchedule { namespace: NamespaceId::DEFAULT, id, name: name.to_owned(), edit: self.edit(spec) };
        (id, ScheduleCommand::Create(Box::new(new)))
    }

    fn ledger(&self, id: ScheduleId) -> Vec<OccurrenceRow> {
        self.store.model.occurrences_now(id, &OccurrenceFilter::default(), None, Order::Ascending, usize::MAX).0
    }

    fn fired(&self, id: ScheduleId) -> usize {
        self.ledger(id).iter().filter(|row| row.verdict == Verdict::Fired).count()
    }
}

fn spec(rule: &str) -> ScheduleSpec {
    ScheduleSpec::new(recurrence::ScheduleSpec::new(rule.parse().unwrap(), "UTC"))
}

fn question(id: ScheduleId, command: ScheduleCommand) -> Ask {
    Ask::Schedule { id, command, who: "me".to_owned() }
}

async fn ask(engine: &Engine, id: ScheduleId, command: ScheduleCommand) -> ScheduleReply {
    match engine.ask(vec![question(id, command)]).await.unwrap().pop() {
        Some(Answer::Schedule(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

/// Asks until the server has read the schedules of its shards.
async fn ask_patiently(engine: &Engine, id: ScheduleId, command: ScheduleCommand) -> ScheduleReply {
    loop {
        match engine.ask(vec![question(id, command.clone())]).await.unwrap().pop() {
            Some(Answer::NotOwner) => tokio::time::sleep(Duration::from_millis(5)).await,
            Some(Answer::Schedule(reply)) => return reply,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_schedule_fires_and_goes_on_when_its_server_leaves() {
    let harness = Harness::new(2);
    let worker = Worker::new();
    let a = harness.start().await;
    worker.serve(&a);
    until("it has both", || a.owned().len() == 2).await;
    let (id, create) = harness.new_schedule(1, "every-second", &spec(EVERY_SECOND));
    assert_eq!(ask(&a, id, create).await, ScheduleReply::Done { revision: 1 });
    let (other, again) = harness.new_schedule(0, "every-second", &spec(EVERY_SECOND));
    assert_eq!(ask(&a, other, again).await, ScheduleReply::NameTaken);
    until("it fires", || harness.fired(id) >= 2).await;
    let b = harness.start().await;
    worker.serve(&b);
    assert!(a.stop().await);
    until("the other has both", || b.owned().len() == 2).await;
    let before = harness.fired(id);
    until("it goes on", || harness.fired(id) >= before + 2).await;
    let reply = ask_patiently(&b, id, ScheduleCommand::Delete).await;
    assert_eq!(reply, ScheduleReply::Done { revision: 1 });
    let ledger = harness.ledger(id);
    let seconds: BTreeSet<_> = ledger.iter().map(|row| row.at.as_micros() / 1_000_000).collect();
    let (first, last) = (seconds.first().unwrap(), seconds.last().unwrap());
    assert_eq!(seconds.len() as i64, last - first + 1, "no second is left out: {seconds:?}");
    until("all have run", || ledger.iter().all(|row| row.job.is_none_or(|job| worker.has_run(job)))).await;
    assert_eq!(ask(&b, id, ScheduleCommand::RunNow { overlap: None }).await, ScheduleReply::NotFound);
}

#[tokio::test]
async fn a_bad_definition_is_refused_and_changes_nothing() {
    let harness = Harness::new(1);
    let a = harness.start().await;
    until("it has it", || a.owned().len() == 1).await;
    let mut unknown = spec(EVERY_SECOND);
    unknown.calendars.exclude = vec!["nowhere".to_owned()];
    let (id, create) = harness.new_schedule(0, "unknown", &unknown);
    let reply = ask(&a, id, create).await;
    assert_eq!(reply, ScheduleReply::Refused("there is no calendar `nowhere`".to_owned()));
    assert_eq!(harness.store.model.schedule_now(id), None);
}

#[tokio::test]
async fn a_calendar_that_changes_is_followed() {
    let harness = Harness::new(1);
    let worker = Worker::new();
    let a = harness.start().await;
    worker.serve(&a);
    until("it has it", || a.owned().len() == 1).await;
    let put = |dates: &[&str]| {
        let dates = dates.iter().map(|date| date.parse().unwrap()).collect();
        let changed = By { at: START, who: "me".to_owned() };
        let calendar =
            StoredCalendar { namespace: NamespaceId::DEFAULT, name: "closed".to_owned(), dates, revision: 0, changed };
        harness.store.model.put_calendar_now(calendar, None).unwrap()
    };
    put(&["1999-01-01"]);
    let mut spec = spec(EVERY_SECOND);
    spec.calendars.exclude = vec!["closed".to_owned()];
    let (id, create) = harness.new_schedule(0, "open", &spec);
    assert_eq!(ask_patiently(&a, id, create).await, ScheduleReply::Done { revision: 1 });
    until("it fires", || harness.fired(id) >= 1).await;
    // The store's clock begins on this day.
    put(&["2027-01-15"]);
    a.replan().await.unwrap();
    until("it is closed", || harness.ledger(id).last().is_some_and(|row| row.verdict == Verdict::SkippedCalendar))
        .await;
}

#[tokio::test]
async fn many_are_created_at_once() {
    let harness = Harness::new(4);
    let a = harness.start().await;
    until("it has all", || a.owned().len() == 4).await;
    let yearly = spec("0 0 1 1 *");
    let commands: Vec<_> = (0..5000)
        .map(|number: u16| {
            let id = ScheduleId::new(START, ShardId(number % 4), u64::from(number));
            let new = NewSchedule {
                namespace: NamespaceId::DEFAULT,
                id,
                name: format!("schedule-{number}"),
                edit: harness.edit(&yearly),
            };
            question(id, ScheduleCommand::Create(Box::new(new)))
        })
        .collect();
    let answers = a.ask(commands).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Answer::Schedule(ScheduleReply::Done { revision: 1 }))));
    assert_eq!(a.schedule_counts().await.unwrap(), (5000, 0));
}
