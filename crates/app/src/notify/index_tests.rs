use punctual_core::notice::{Channel, NoticeKind, RuleSpec, Templates};
use punctual_core::run::Probe;
use punctual_core::schedule::By;
use punctual_core::task::{Run, Task, TaskSpec};
use punctual_core::{NamespaceId, ShardId, Span, TaskId, Timestamp};
use punctual_store::RuleRow;

use super::super::event::EventKind;
use super::*;

const TASKS: u64 = 12;
const QUEUES: u64 = 4;
const SCHEDULES: u64 = 5;

fn task_id(number: u64) -> TaskId {
    TaskId::new(Timestamp::EPOCH, number)
}

fn schedule_id(number: u64) -> ScheduleId {
    ScheduleId::new(Timestamp::EPOCH, ShardId(0), number)
}

/// Every third has no name.
fn task(number: u64) -> Task {
    let spec = TaskSpec { queue: format!("queue-{}", number % QUEUES), ..TaskSpec::new(Run::Probe(Probe::default())) };
    Task {
        namespace: NamespaceId::DEFAULT,
        id: task_id(number),
        name: (!number.is_multiple_of(3)).then(|| format!("task-{number}")),
        revision: 1,
        created_at: Timestamp::EPOCH,
        updated_at: Timestamp::EPOCH,
        spec,
        waits_for: None,
        created_by: None,
        changed_by: None,
    }
}

/// Some are of tasks that are gone, of no task, or of no schedule.
fn event(number: u64) -> Event {
    let schedule = number % (SCHEDULES + 2);
    Event {
        kind: EventKind::Failed,
        at: Timestamp::EPOCH + Span::from_secs(number as i64),
        task: (!number.is_multiple_of(7)).then(|| task_id(number % (TASKS + 2))),
        job: None,
        planned: (schedule != 0).then(|| (schedule_id(schedule), Timestamp::EPOCH)),
        count: 1,
        lateness: None,
        is_waiting: false,
    }
}

fn rule(number: u64, tasks: &[u64], queues: &[u64], schedules: &[u64]) -> Rule {
    let names = |kind: &str, numbers: &[u64]| numbers.iter().map(|number| format!("{kind}-{number}")).collect();
    let spec = RuleSpec {
        on: NoticeKind::ALL.to_vec(),
        tasks: names("task", tasks),
        queues: names("queue", queues),
        schedules: names("schedule", schedules),
        late_after: Span::from_secs(60),
        channel: Channel::Email { to: vec!["ops@example.com".to_owned()], cc: vec![], requester: false },
        window: Span::from_secs(60),
        templates: Templates::default(),
        queue: "default".to_owned(),
        enabled: true,
    };
    let by = By { at: Timestamp::EPOCH, who: "somebody".to_owned() };
    let row = RuleRow {
        namespace: NamespaceId::DEFAULT,
        name: format!("rule-{number}"),
        spec: serde_json::to_string(&spec).unwrap(),
        revision: 1,
        created: by.clone(),
        changed: by,
        state: None,
        version: 1,
    };
    let mut rule = Rule::new(row, None, Span::from_secs(120), Timestamp::EPOCH).unwrap();
    let there = (0..SCHEDULES)
        .map(|number| ((NamespaceId::DEFAULT, format!("schedule-{number}")), schedule_id(number)))
        .collect();
    rule.know_schedules(&there);
    rule
}

/// As the words of a rule say it.
fn is_about(rule: &Rule, event: &Event, context: &EventContext) -> bool {
    let spec = &rule.spec;
    let task = context.task_of(event);
    spec.is_for_all()
        || task.and_then(|task| task.name.as_ref()).is_some_and(|name| spec.tasks.contains(name))
        || task.is_some_and(|task| spec.queues.contains(&task.spec.queue))
        || event.planned.is_some_and(|(schedule, _)| rule.schedules().any(|known| known == schedule))
}

#[test]
fn a_rule_finds_what_it_is_about_and_nothing_else() {
    let context = EventContext::of_tasks((0..TASKS).map(task).collect());
    let events: Vec<Event> = (0..500).map(event).collect();
    let index = Index::new(events.iter(), &context);
    let scopes: [(&[u64], &[u64], &[u64]); 8] = [
        (&[], &[], &[]),
        (&[1, 2, 99], &[], &[]),
        (&[], &[0, 3], &[]),
        (&[], &[], &[1, 4]),
        (&[1, 1, 5], &[1, 2], &[2]),
        (&[99], &[99], &[99]),
        (&[3], &[], &[]),
        (&[2, 4, 5, 7, 8], &[0, 1, 2, 3], &[1, 2, 3, 4]),
    ];
    for (number, (tasks, queues, schedules)) in (0..).zip(scopes) {
        let rule = rule(number, tasks, queues, schedules);
        let found: Vec<usize> = index.events_for(&rule).iter().map(|(place, _)| *place).collect();
        let expected: Vec<usize> =
            (0..events.len()).filter(|place| is_about(&rule, &events[*place], &context)).collect();
        assert_eq!(found, expected, "{tasks:?} {queues:?} {schedules:?}");
    }
}

#[test]
fn a_rule_finds_nothing_of_another_namespace_nor_of_one_that_nobody_knows() {
    let other = NamespaceId(7);
    let of_either = |number: u64| Task {
        namespace: if number.is_multiple_of(2) { other } else { NamespaceId::DEFAULT },
        ..task(number)
    };
    let schedules = [(schedule_id(1), NamespaceId::DEFAULT), (schedule_id(2), other)].into();
    let context = EventContext::in_namespaces((0..TASKS).map(of_either).collect(), schedules);
    let events: Vec<Event> = (0..500).map(event).collect();
    let index = Index::new(events.iter(), &context);
    let mut found = 0;
    for namespace in [NamespaceId::DEFAULT, other] {
        let mut everything = rule(0, &[], &[], &[]);
        everything.namespace = namespace;
        for (_, event) in index.events_for(&everything) {
            let of_task = context.task_of(event).map(|task| task.namespace);
            let of_schedule = match event.planned {
                Some((schedule, _)) if schedule == schedule_id(1) => Some(NamespaceId::DEFAULT),
                Some((schedule, _)) if schedule == schedule_id(2) => Some(other),
                _ => None,
            };
            assert_eq!(of_task.or(of_schedule), Some(namespace), "{event:?}");
            found += 1;
        }
    }
    assert!(found > 100 && found < events.len(), "{found}");
}
