use punctual_core::ShardId;
use punctual_core::notice::{Channel, Templates};

use super::super::event::EventKind;
use super::*;

const LATE_AFTER: Span = Span::from_secs(60);

fn at(secs: i64) -> Timestamp {
    Timestamp::EPOCH + Span::from_secs(100_000 + secs)
}

fn upto(secs: i64) -> End {
    End { upto: at(secs), job: None }
}

fn rule() -> RuleSpec {
    RuleSpec {
        on: vec![NoticeKind::Late],
        tasks: vec!["one".to_owned(), "two".to_owned()],
        queues: Vec::new(),
        schedules: Vec::new(),
        late_after: LATE_AFTER,
        channel: Channel::Slack { webhook: "ops".to_owned() },
        window: Span::from_secs(60),
        templates: Templates::default(),
        queue: "default".to_owned(),
        enabled: true,
    }
}

fn begun() -> LateCursor {
    LateCursor::begin(&rule(), 1, at(0))
}

fn looked(upto_secs: i64, now: i64) -> LateCursor {
    let mut cursor = begun();
    cursor.progress.look(upto(upto_secs), at(now), false);
    cursor.looked_at = at(now);
    cursor
}

fn key(due: i64) -> JobKey {
    JobKey::original(JobId::new(at(due), ShardId(0), 1))
}

#[test]
fn what_is_stored_counts_where_it_is_ahead_of_what_is_known() {
    let (behind, ahead) = (begun(), looked(50, 110));
    assert_eq!(behind.go_on(Some(&ahead)), ahead, "not each look is stored");
    assert_eq!(ahead.go_on(Some(&behind)), ahead);
    assert_eq!(ahead.go_on(None), ahead);
    let mut of_schedules = ahead.clone();
    of_schedules.looked_at = at(112);
    of_schedules.find(Span::from_secs(200), key(40), at(112));
    assert_eq!(of_schedules.go_on(Some(&ahead)), of_schedules, "it has looked for other limits since");
    let changed = LateCursor { revision: 2, ..behind };
    assert_eq!(changed.go_on(Some(&ahead)).revision, 2, "the rule was changed since");
}

#[test]
fn what_a_rule_passed_over_before_it_was_changed_is_not_taken_as_told() {
    let cursor = looked(100, 160);
    let names = || vec!["two".to_owned()];
    let others = [
        RuleSpec { tasks: names(), ..rule() },
        RuleSpec { queues: names(), ..rule() },
        RuleSpec { schedules: names(), ..rule() },
        RuleSpec { tasks: Vec::new(), queues: rule().tasks, ..rule() },
    ];
    for other in others {
        let changed = cursor.clone().of_rule(&other, 2, at(160));
        assert_eq!((changed.progress.clone(), changed.revision), (ScanProgress::begin(at(100)), 2), "{other:?}");
        assert_eq!(changed.clone().of_rule(&other, 3, at(170)), changed);
    }
    let patient = RuleSpec { late_after: Span::from_secs(100), ..rule() };
    let longer = cursor.of_rule(&patient, 2, at(160));
    assert_eq!(longer.progress, ScanProgress::begin(at(60)), "what is not late by the new limit is looked at again");
}

#[test]
fn a_change_of_whom_a_rule_tells_when_and_how_is_no_other_question() {
    let cursor = looked(100, 160);
    let same = [
        rule(),
        RuleSpec { on: NoticeKind::ALL.to_vec(), ..rule() },
        RuleSpec { tasks: rule().tasks.into_iter().rev().collect(), ..rule() },
        RuleSpec {
            channel: Channel::Email { to: vec!["ops@example.com".to_owned()], cc: Vec::new(), requester: false },
            ..rule()
        },
        RuleSpec { window: Span::from_secs(5), ..rule() },
        RuleSpec { templates: Templates { subject: Some("late".to_owned()), text: None }, ..rule() },
        RuleSpec { queue: "urgent".to_owned(), ..rule() },
    ];
    for (rule, revision) in same.iter().zip(1..) {
        assert_eq!(cursor.clone().of_rule(rule, revision, at(160)), cursor, "{rule:?}");
    }
}

#[test]
fn longer_limits_are_few_and_forgotten_when_nobody_is_late_by_them() {
    let mut cursor = begun();
    for secs in 100..200 {
        cursor.find(Span::from_secs(secs), key(10), at(70));
    }
    assert_eq!(cursor.own.len(), OWN_MAX);
    cursor.find(Span::from_secs(101), key(20), at(5000));
    let of_limit = |cursor: &LateCursor| cursor.own.iter().map(|own| own.late_after).collect::<Vec<_>>();
    cursor.forget_unused(at(4000 + 86_400));
    assert_eq!(of_limit(&cursor), [Span::from_secs(101)]);
    assert_eq!(cursor.own[0].progress, ScanProgress::begin(at(10)), "it goes on where it was");
    let limits: Vec<Span> = cursor.scans(LATE_AFTER).map(|(limit, _)| limit).collect();
    assert_eq!(limits, [LATE_AFTER, Span::from_secs(101)]);
}

#[test]
fn a_run_is_told_by_the_limit_of_its_schedule_if_that_is_longer() {
    let own = Span::from_secs(200);
    let mut cursor = looked(100, 160);
    cursor.find(own, key(10), at(160));
    let started = Event {
        kind: EventKind::Late,
        at: at(300),
        task: None,
        job: None,
        planned: None,
        count: 1,
        lateness: Some(Span::from_secs(290)),
        is_waiting: false,
    };
    assert!(cursor.was_told(&started, LATE_AFTER, None));
    assert!(cursor.was_told(&started, LATE_AFTER, Some(Span::from_secs(30))));
    assert!(!cursor.was_told(&started, LATE_AFTER, Some(own)), "nobody has looked by that limit");
    cursor.own[0].progress.look(upto(11), at(211), true);
    assert!(cursor.was_told(&started, LATE_AFTER, Some(own)));
    assert!(!cursor.was_told(&started, LATE_AFTER, Some(Span::from_secs(250))));
    let json = serde_json::to_string(&cursor).unwrap();
    assert_eq!(serde_json::from_str::<LateCursor>(&json).unwrap(), cursor);
}

#[test]
fn what_an_earlier_version_wrote_is_read() {
    let times = [at(40), at(-10), at(100)].map(|time| time.to_string());
    let [upto, since, looked_at] = times;
    let json = format!(r#"{{"upto":"{upto}","since":"{since}","looked_at":"{looked_at}","revision":3}}"#);
    let read: LateCursor = serde_json::from_str(&json).unwrap();
    assert_eq!((read.revision, read.looked_at, read.own.len()), (3, at(100), 0));
    let same = read.clone().of_rule(&rule(), 3, at(160));
    assert_eq!(same, LateCursor { question: Some(question_of(&rule())), ..read.clone() });
    assert_eq!(read.of_rule(&rule(), 4, at(160)).revision, 4, "nobody knows what it asked");
}
