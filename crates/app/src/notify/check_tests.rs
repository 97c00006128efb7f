use punctual_core::Timestamp;
use punctual_core::notice::NoticeKind;
use serde_json::{Value, json};

use super::*;

fn sample() -> NotificationMessage {
    NotificationMessage {
        kind: NotificationMessage::TYPE.to_owned(),
        rule: "ops".to_owned(),
        at: Timestamp::EPOCH,
        subject: String::new(),
        text: String::new(),
        since: Timestamp::EPOCH,
        until: Timestamp::EPOCH,
        counts: [("failed".to_owned(), 2)].into(),
        tasks: Vec::new(),
        more_tasks: 0,
        schedules: Vec::new(),
        has_more_schedules: false,
        events: Vec::new(),
    }
}

#[track_caller]
fn read(json: &Value) -> Result<RuleSpec> {
    rule(&serde_json::from_value(json.clone()).unwrap(), sample())
}

/// The place of what is wrong, and what is wrong.
#[track_caller]
fn refused(json: Value) -> (String, String) {
    let error = read(&json).expect_err(&json.to_string());
    (error.errors[0].pointer.clone(), error.errors[0].detail.clone())
}

fn mail() -> Value {
    json!({"email": {"to": ["ops@example.com"]}})
}

#[track_caller]
fn with(key: &str, value: Value) -> Value {
    let mut rule = mail();
    rule[key] = value;
    rule
}

#[test]
fn a_rule_of_an_address_alone_gets_the_defaults() {
    let spec = read(&mail()).unwrap();
    assert_eq!(spec.on, RuleSpec::ON_DEFAULT);
    assert!(!spec.wants(NoticeKind::Late) && spec.enabled && spec.is_for_all());
    assert_eq!((spec.window, spec.late_after), (Span::from_secs(60), Span::from_secs(300)));
    assert_eq!(spec.queue, "default");
}

#[test]
fn exactly_one_channel_is_asked_for() {
    assert!(refused(json!({})).1.contains("does not say who is told"));
    let two = json!({"email": {"to": ["a@b.example"]}, "webhook": {"url": "https://example.com"}});
    assert!(refused(two).1.contains("more than one channel"));
    let slack = json!({"slack": {"webhook": "ops"}, "webhook": {"url": "https://example.com"}});
    assert!(refused(slack).1.contains("more than one channel"));
}

#[test]
fn what_is_wrong_with_a_channel_is_told_where_it_stands_in_the_rule() {
    for (json, pointer) in [
        (json!({"email": {"to": []}}), "/email/to"),
        (json!({"email": {"to": ["ops@example.com", "ops"]}}), "/email/to/1"),
        (json!({"email": {"to": ["ops@example.com"], "cc": ["a b@c"]}}), "/email/cc/0"),
        (json!({"email": {"to": ["ops@example.com\r\nBcc: evil@example.com"]}}), "/email/to/0"),
        (json!({"slack": {"webhook": "https://evil.example/s3cret"}}), "/slack/webhook"),
        (json!({"webhook": {"url": "ftp://example.com"}}), "/webhook/url"),
        (json!({"webhook": {"url": "https://user:pw@example.com"}}), "/webhook/url"),
        (json!({"webhook": {"url": "https://example.com", "sign_with": "a key"}}), "/webhook/sign_with"),
        (with("queue", json!("a queue")), "/queue"),
    ] {
        assert_eq!(refused(json.clone()).0, pointer, "{json}");
    }
    for good in [
        json!({"slack": {"webhook": "https://hooks.slack.com/services/T0/B0/s3cret"}}),
        json!({"slack": {"webhook": "ops"}}),
        json!({"webhook": {"url": "https://example.com/hook?x=1", "sign_with": "main"}}),
    ] {
        assert!(read(&good).is_ok(), "{good}");
    }
}

#[test]
fn no_refusal_repeats_the_address_of_a_webhook_of_slack() {
    for bad in ["https://evil.example/s3cret", "https://hooks.slack.com.evil.example/s3cret", "https://s3cret"] {
        let error = read(&json!({"slack": {"webhook": bad}})).unwrap_err();
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}

#[test]
fn limits_are_named_where_they_are_passed() {
    let many: Vec<String> = (0..101).map(|n| format!("t{n}")).collect();
    for (json, pointer) in [
        (with("on", json!([])), "/on"),
        (with("window", json!("4s")), "/window"),
        (with("window", json!("25h")), "/window"),
        (with("late_after", json!("1s")), "/late_after"),
        (with("late_after", json!("8d")), "/late_after"),
        (with("tasks", json!(many)), "/tasks"),
        (with("queues", json!(["ok", "not ok"])), "/queues/1"),
        (with("schedules", json!([""])), "/schedules/0"),
    ] {
        assert_eq!(refused(json.clone()).0, pointer, "{json}");
    }
    let spec = read(&with("on", json!(["late", "failed", "late"]))).unwrap();
    assert_eq!(spec.on, [NoticeKind::Failed, NoticeKind::Late], "each once");
}

#[test]
fn a_template_is_tried_before_it_is_stored() {
    for (template, part) in [
        ("{{ rule", "syntax error"),
        ("{{ evnts }}", "undefined"),
        ("{% for e in evnts %}{% endfor %}", "undefined"),
        ("{% set x = rule %}", "`set` is not allowed"),
        ("{{ rule ~ rule }}", "`~` is not allowed"),
        ("{{ rule * 1000 }}", "`*` is not allowed"),
        ("{{ rule|replace('a', 'b') }}", "there is no filter `replace`"),
        ("{{ [rule, rule] }}", "is not allowed"),
        ("{{ range(10) }}", "is not allowed"),
        ("{% include 'x' %}", "`include` is not allowed"),
    ] {
        let (pointer, detail) = refused(with("templates", json!({"text": template})));
        assert_eq!(pointer, "/templates/text", "{template}");
        assert!(detail.contains(part), "{template}: {detail}");
    }
    for template in
        ["\n{{ rule", "\n{{ evnts }}", "\n{% set x = 1 %}", "\n{{ rule|replace }}", "\n{{ events[0].kind }}"]
    {
        let (_, detail) = refused(with("templates", json!({"text": template})));
        assert!(detail.starts_with("line 2: "), "{template}: {detail}");
    }
    let long = "x".repeat((16 << 10) + 1);
    assert_eq!(refused(with("templates", json!({"subject": long}))).0, "/templates/subject");
    let good = json!({"subject": "{{ rule }}: {{ counts.failed|number }} failed", "text": "{{ text|truncate(20) }}"});
    assert!(read(&with("templates", good)).is_ok());
}
