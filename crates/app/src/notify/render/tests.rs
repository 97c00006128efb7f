use std::collections::BTreeMap;

use punctual_api::{MessageAttempt, MessageEvent, MessageTask, NotificationMessage};
use punctual_core::notice::Templates;
use punctual_core::{JobId, ShardId, Span, Timestamp, WorkerId};

use super::*;
use crate::schedules::zone;

fn at(secs: i64) -> Timestamp {
    Timestamp::parse("2026-11-16T03:00:00Z").unwrap() + Span::from_secs(secs)
}

fn counts(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
}

pub(super) fn failed() -> MessageEvent {
    let job = JobId::new(at(0), ShardId(3), 7);
    let attempt = |attempt, started: i64, ending: &str, reason: &str| MessageAttempt {
        worker_name: Some("reports".to_owned()),
        worker_host: Some("host-7".to_owned()),
        attempt,
        worker: WorkerId::new(at(-600), 5).to_string(),
        started_at: at(started),
        took: Some(Span::from_millis(1234)),
        ending: ending.to_owned(),
        reason: Some(reason.to_owned()),
    };
    MessageEvent {
        kind: "failed".to_owned(),
        task: "nightly-report".to_owned(),
        schedule: Some("nightly".to_owned()),
        planned_at: Some(at(0)),
        planned_local: local(at(0), &zone::find("Europe/Berlin")),
        job: Some(job),
        scheduled_at: Some(at(0)),
        state: Some("failed".to_owned()),
        tracing_id: Some("order-4711".to_owned()),
        at: at(12),
        count: 1,
        reason: Some("exit code 1".to_owned()),
        attempts: vec![attempt(1, 0, "timed_out", "took longer than 5m"), attempt(2, 10, "failed", "exit code 1")],
        earlier_attempts: 0,
        late_by: None,
        link: Some(format!("https://punctual.example.com/v1/jobs/{job}")),
    }
}

fn without_job(kind: &str, count: u64) -> MessageEvent {
    MessageEvent {
        kind: kind.to_owned(),
        job: None,
        scheduled_at: None,
        state: None,
        tracing_id: None,
        reason: (kind == "missed").then(|| "Nobody was there in time.".to_owned()),
        attempts: Vec::new(),
        link: None,
        late_by: Some(Span::from_secs(3672)),
        count,
        ..failed()
    }
}

/// A message about these, with the totals of those that are shown.
pub(super) fn message(events: Vec<MessageEvent>) -> NotificationMessage {
    let mut totals = BTreeMap::new();
    for event in &events {
        *totals.entry(event.kind.clone()).or_insert(0) += event.count;
    }
    NotificationMessage {
        kind: NotificationMessage::TYPE.to_owned(),
        rule: "ops".to_owned(),
        at: at(13),
        subject: String::new(),
        text: String::new(),
        since: at(0),
        until: at(12),
        tasks: vec![MessageTask { task: "nightly-report".to_owned(), counts: totals.clone() }],
        counts: totals,
        more_tasks: 0,
        schedules: Vec::new(),
        has_more_schedules: false,
        events,
    }
}

fn written(mut message: NotificationMessage) -> String {
    write(&mut message, &Templates::default());
    format!("{}\n\n{}", message.subject, message.text)
}

fn by_template(text: &str, message: &NotificationMessage) -> NotificationMessage {
    let mut message = message.clone();
    write(&mut message, &Templates { subject: None, text: Some(text.to_owned()) });
    message
}

#[test]
fn one_failure() {
    insta::assert_snapshot!(written(message(vec![failed()])));
}

#[test]
fn a_storm() {
    let mut storm = message(vec![failed(), without_job("missed", 2)]);
    storm.counts = counts(&[("failed", 9997), ("missed", 2)]);
    storm.tasks = vec![
        MessageTask { task: "nightly-report".to_owned(), counts: counts(&[("failed", 9990), ("missed", 2)]) },
        MessageTask { task: "resize".to_owned(), counts: counts(&[("failed", 6)]) },
        MessageTask { task: "ping".to_owned(), counts: counts(&[("failed", 1)]) },
    ];
    insta::assert_snapshot!(written(storm.clone()));
    storm.more_tasks = 181;
    write(&mut storm, &Templates::default());
    assert_eq!(storm.subject, "[punctual] 9,997 failed, 2 missed in at least 184 tasks");
}

#[test]
fn missed_times() {
    insta::assert_snapshot!(written(message(vec![without_job("missed", 1440)])));
}

#[test]
fn a_late_job() {
    let late = MessageEvent {
        state: None,
        attempts: Vec::new(),
        reason: None,
        late_by: Some(Span::from_millis(372_456)),
        kind: "late".to_owned(),
        ..failed()
    };
    insta::assert_snapshot!(written(message(vec![late])));
}

#[test]
fn an_overdue_time() {
    insta::assert_snapshot!(written(message(vec![without_job("overdue", 1)])));
}

#[test]
fn a_recovery() {
    let recovered = MessageEvent {
        kind: "recovered".to_owned(),
        state: Some("succeeded".to_owned()),
        reason: None,
        schedule: None,
        planned_at: None,
        planned_local: None,
        attempts: Vec::new(),
        ..failed()
    };
    insta::assert_snapshot!(written(message(vec![recovered])));
}

#[test]
fn lines_fit_on_a_phone() {
    let text = written(message(vec![failed(), without_job("missed", 2), without_job("late", 9)]));
    let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 72 && !line.contains("://")).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn a_template_sees_what_a_webhook_gets_and_what_is_absent_is_nothing() {
    let template = "{{ counts.missed|number }} {{ events|length }}{% for e in events if e.kind == 'missed' %}\n\
                    {{ e.task|upper }} [{{ e.job }}] {{ e.planned_at|utc }} {{ e.reason }} {{ e.job|default('-') }}\
                    {% else %}none{% endfor %}\n{% if text|length > 10 and not events == 1 %}True{% endif %}";
    let made = by_template(template, &message(vec![failed(), without_job("missed", 1440)]));
    assert_eq!(made.text, "1,440 2\nNIGHTLY-REPORT [] 2026-11-16 03:00:00 UTC Nobody was there in time. -\nTrue");
    assert_eq!(made.subject, "[punctual] nightly-report: 1 failed, 1,440 missed");
    let zero = by_template("{{ counts.lost | default(0) }}{% if counts.lost %}x{% endif %}", &message(vec![failed()]));
    assert_eq!(zero.text, "0");
}

#[test]
fn a_template_that_would_never_end_is_stopped() {
    let events = vec![failed(); 20];
    let mut endless = String::new();
    for depth in 0..8 {
        endless += &format!("{{% for e{depth} in events %}}");
    }
    endless += &"{% endfor %}".repeat(8);
    let made = by_template(&endless, &message(events));
    assert!(made.text.starts_with("The rule's own template could not be used"), "{}", made.text);
    assert!(made.text.contains("too many steps"), "{}", made.text);
    assert!(made.text.contains("nightly-report failed"), "the built-in text follows: {}", made.text);
}

#[test]
fn a_template_that_prints_too_much_is_replaced() {
    let template = "{% for a in events %}{% for b in events %}{{ text }}{% endfor %}{% endfor %}";
    let made = by_template(template, &message(vec![failed(); 20]));
    assert!(made.text.contains("it makes more than 65536 bytes"), "{}", made.text);
    assert!(made.text.len() < (64 << 10) + 1000);
}

#[test]
fn a_template_that_fails_when_it_is_sent_falls_back_and_says_so() {
    let template = "{{ events[0].attempts[1].reason }}";
    assert_eq!(by_template(template, &message(vec![failed()])).text, "exit code 1");
    let made = by_template(template, &message(vec![without_job("missed", 1)]));
    assert!(made.text.starts_with("The rule's own template could not be used"), "{}", made.text);
    assert!(made.text.contains("nightly-report missed its time"), "{}", made.text);
}

#[test]
fn a_subject_is_one_line() {
    let mut made = message(vec![failed()]);
    let subject = Some(format!("{{{{ rule }}}}\r\nBcc: evil@example.com{}", "x".repeat(500)));
    write(&mut made, &Templates { subject, text: None });
    assert!(made.subject.starts_with("ops Bcc: evil@example.com"), "{}", made.subject);
    assert!(!made.subject.contains(['\r', '\n']) && made.subject.chars().count() <= 200);
}

#[test]
fn numbers_and_texts_are_cut_for_people() {
    for (count, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(text::number(count), shown);
    }
    assert_eq!(cut("grüße", 5), "grüße");
    assert_eq!(cut("grüße", 4), "grü…");
    assert_eq!(for_people(Span::from_micros(61_999_999)), Span::from_secs(61));
    assert_eq!(for_people(Span::from_micros(1_234_567)), Span::from_millis(1234));
    assert_eq!(local(at(0), &zone::find("UTC")), None);
}
