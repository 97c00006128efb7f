//! What the fake server answers about notifications, and about what is late.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fake::{DONE, FAILED, WAITING, problem};

pub(crate) fn answers() -> BTreeMap<String, (u16, Value)> {
    let rules = json!({ "notifications": [
        rule("billing"),
        of_slack(),
        of_webhook(),
    ] });
    let preview = json!({
        "subject": "[punctual] nightly-report failed", "text": "nightly-report failed at 2026-01-01 00:00:00 UTC.\n",
    });
    let mut replaced = rule("billing");
    replaced["revision"] = json!(4);
    BTreeMap::from([
        ("GET /v1/notifications".to_owned(), (200, rules)),
        ("GET /v1/notifications/billing".to_owned(), (200, rule("billing"))),
        ("PUT /v1/notifications/billing".to_owned(), (200, replaced)),
        ("GET /v1/notifications/chat".to_owned(), (200, of_slack())),
        ("PUT /v1/notifications/chat".to_owned(), (200, of_slack())),
        ("DELETE /v1/notifications/billing".to_owned(), (204, Value::Null)),
        ("POST /v1/notifications/billing/test".to_owned(), (200, json!({ "job": DONE }))),
        ("POST /v1/notifications/chat/test".to_owned(), (200, json!({ "job": WAITING }))),
        ("POST /v1/notifications/preview".to_owned(), (200, preview)),
        ("GET /v1/notifications/billing/deliveries".to_owned(), (200, deliveries())),
        ("GET /v1/notifications/chat/deliveries".to_owned(), (200, json!({ "deliveries": [] }))),
        ("GET /v1/deliveries".to_owned(), (200, deliveries())),
        ("GET /v1/overdue".to_owned(), (200, overdue())),
        (
            "GET /v1/notifications/nope".to_owned(),
            (404, problem("notification_not_found", 404, "there is no rule named nope")),
        ),
        (
            "PUT /v1/notifications/full".to_owned(),
            (409, problem("too_many_notifications", 409, "there are 1000 rules, as many as there may be")),
        ),
    ])
}

pub(crate) fn rule(name: &str) -> Value {
    let by = json!({ "at": "2026-01-01T00:00:00Z", "who": "local" });
    json!({
        "name": name, "on": ["failed", "lost", "late"], "tasks": ["invoice", "dunning"], "queues": [],
        "schedules": ["nightly"], "late_after": "10m",
        "email": { "to": ["ops@example.org", "billing@example.org"], "cc": ["boss@example.org"] },
        "window": "5m", "templates": { "subject": "{{ counts.failed }} failed", "text": "First line\nsecond\u{1b}[2J line\n" },
        "queue": "mail", "enabled": true, "revision": 1, "created": by, "changed": by,
        "waiting": { "events": 9997, "send_at": "2026-01-01T00:05:00Z" },
    })
}

fn of_slack() -> Value {
    let mut rule = rule("chat");
    rule["email"] = Value::Null;
    rule["slack"] = json!({ "webhook": "***" });
    rule["enabled"] = json!(false);
    rule["waiting"] = Value::Null;
    rule["templates"] = Value::Null;
    (rule["tasks"], rule["schedules"], rule["on"]) = (json!([]), json!([]), json!(["failed", "recovered"]));
    rule
}

fn of_webhook() -> Value {
    let mut rule = of_slack();
    rule["name"] = json!("pager");
    rule["slack"] = Value::Null;
    rule["webhook"] = json!({ "url": "https://example.org/a/rather/long/path/to/a/hook", "sign_with": "pager" });
    rule["enabled"] = json!(true);
    rule
}

fn deliveries() -> Value {
    let delivery = |job: &str, state: Option<&str>, reason: Option<&str>| {
        json!({
            "rule": "billing", "at": "2026-01-01T00:00:00Z", "job": job, "events": 9997,
            "summary": "9,995 failed, 2 missed in 3 tasks", "state": state, "reason": reason,
        })
    };
    let refused = "cannot connect to 127.0.0.1:25: connection refused at 2026-01-01T00:00:01.000000Z";
    json!({
        "deliveries": [
            delivery(WAITING, Some("scheduled"), Some(refused)), delivery(DONE, Some("succeeded"), None), delivery(FAILED, None, None),
        ],
        "next_cursor": "abc",
    })
}

fn overdue() -> Value {
    json!({
        "jobs": [{
            "job": WAITING, "task": "nightly-report", "queue": "reports", "due_at": "2026-01-01T00:00:00Z",
            "late_by": "6m 12s", "why": "It has been due for 6m 12s: no worker serves the queue reports since 2026-01-01T00:00:00.000000Z.",
        }],
        "jobs_total": 1234, "jobs_total_is_minimum": true,
        "planned": [{
            "schedule": "nightly", "at": "2026-01-01T01:30:00Z", "local": "2026-01-01T02:30:00+01:00", "late_by": "3m",
            "why": "shard 7 has no owner",
        }],
        "planned_is_partial": true, "shards_without_owner": [7, 9],
        "ailing": [{
            "task": "invoice", "since": "2026-01-01T00:00:00Z", "last": "2026-01-02T00:00:00Z", "failures": 12,
        }],
    })
}
