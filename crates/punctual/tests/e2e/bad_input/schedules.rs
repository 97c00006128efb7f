//! Schedules and calendars that cannot be, or would be too much.

use serde_json::{Value, json};

use super::{Case, Refused, Taken, check};
use crate::raw::Request;

const INVALID: &str = "invalid_request";

/// A schedule that is fine but for what is put over it. Its task is its own, as none is defined.
fn schedule_with(fields: Value) -> Value {
    let mut schedule = json!({ "inline": { "run": { "probe": {} } } });
    for (key, value) in fields.as_object().expect("an object of fields") {
        schedule[key] = value.clone();
    }
    schedule
}

fn send(method: &str, path: &str, body: &Value) -> Request {
    Request::new(method, path).json(body.to_string())
}

#[tokio::test]
async fn schedules_that_cannot_be_are_refused() {
    let long = "x".repeat(100_000);
    let fields = [
        ("no rule", json!({}), "nothing says when it fires"),
        ("two rules", json!({ "cron": "0 9 * * *", "every": "1h" }), "more than one rule"),
        ("33 rules", json!({ "rules": vec![json!({ "every": "1h" }); 33] }), "/rules: must be at most 32"),
        ("four fields", json!({ "cron": "0 9 * *" }), "/cron: "),
        ("an hour of 25", json!({ "cron": "0 25 * * *" }), "hour field"),
        ("30 February", json!({ "cron": "0 0 30 2 *" }), "/cron: "),
        ("an expression without end", json!({ "cron": long }), "/cron: "),
        ("a million commas", json!({ "cron": format!("{} 9 * * *", "1,".repeat(50_000)) }), "/cron: "),
        ("an interval of nothing", json!({ "every": "0s" }), "/every: "),
        ("an interval of ages", json!({ "every": "99999999h" }), "/every"),
        ("an interval backwards", json!({ "every": "-1s" }), "/every"),
        ("a time of day that is none", json!({ "daily": "24:30" }), "/daily: `24:30` is no time of day"),
        ("a time without a zone", json!({ "at": "2030-01-01T00:00:00" }), "/at"),
        ("a time that has passed", json!({ "at": "2020-01-01T00:00:00Z" }), "it would never fire"),
        ("an unknown zone", json!({ "daily": "09:00", "zone": "Mars/Olympus" }), "is not a known time zone"),
        ("a zone without end", json!({ "daily": "09:00", "zone": long }), "is not a known time zone"),
        ("a path as a zone", json!({ "daily": "09:00", "zone": "../../etc/passwd" }), "is not a known time zone"),
        ("a zone of a number", json!({ "daily": "09:00", "zone": 7 }), "/zone"),
        ("an unknown calendar", json!({ "daily": "09:00", "calendars": { "exclude": ["none"] } }), "PUT /v1/calendars"),
        (
            "a list of calendars",
            json!({ "daily": "09:00", "calendars": { "exclude": vec!["none"; 10_000] } }),
            "/calendars",
        ),
        ("an unknown field", json!({ "daily": "09:00", "overlaps": "skip" }), "did you mean `overlap`?"),
        ("an unknown overlap", json!({ "daily": "09:00", "overlap": "never" }), "/overlap"),
        ("an unknown mode", json!({ "daily": "09:00", "catch_up": "some" }), "/catch_up"),
        ("a budget without end", json!({ "daily": "09:00", "catch_up": { "max": 10_001 } }), "/catch_up/max"),
        ("no runs", json!({ "daily": "09:00", "max_runs": 0 }), "/max_runs"),
        ("a jitter of two days", json!({ "daily": "09:00", "jitter": "48h" }), "/jitter"),
        ("a priority of 101", json!({ "daily": "09:00", "priority": 101 }), "/priority"),
        ("a name with a slash", json!({ "daily": "09:00", "name": "a/b" }), "/name"),
        ("a name that is part of an address", json!({ "daily": "09:00", "name": "bulk" }), "/name"),
        (
            "the name of somebody else's id",
            json!({ "daily": "09:00", "name": "schedule_01m7g530mse5zvbtps1q930fas" }),
            "/name",
        ),
        ("who did it", json!({ "daily": "09:00", "who": "root" }), "/who: there is no such field"),
        (
            "an input 65 deep",
            json!({ "daily": "09:00", "input": (0..65).fold(json!(1), |inner, _| json!([inner])) }),
            "/input",
        ),
    ];
    let mut cases = Vec::new();
    for (name, fields, word) in fields {
        let body = schedule_with(fields);
        cases.push(Case::new(name, send("POST", "/v1/schedules", &body), Refused(400, INVALID, word)));
        let bulk = json!({ "schedules": [body] });
        cases.push(Case::new(
            format!("{name}, in bulk"),
            send("POST", "/v1/schedules/bulk", &bulk),
            Refused(400, INVALID, "/schedules/0"),
        ));
    }
    let many = json!({ "schedules": vec![json!({}); 10_001] });
    let good = schedule_with(json!({ "daily": "09:00" }));
    for (name, method, path, body, refused) in [
        ("none at once", "POST", "/v1/schedules/bulk", json!({ "schedules": [] }), Refused(400, INVALID, "/schedules")),
        ("10,001 at once", "POST", "/v1/schedules/bulk", many, Refused(400, INVALID, "/schedules: must be 1 to 10000")),
        (
            "another name in the body",
            "PUT",
            "/v1/schedules/a",
            schedule_with(json!({ "daily": "09:00", "name": "b" })),
            Refused(400, INVALID, "/name"),
        ),
        (
            "a revision that is none",
            "PUT",
            "/v1/schedules/a?revision=x",
            good.clone(),
            Refused(400, INVALID, "revision"),
        ),
        ("an unknown parameter", "PUT", "/v1/schedules/a?force=true", good.clone(), Refused(400, INVALID, "force")),
        ("a name with a dot in front", "PUT", "/v1/schedules/.a", good.clone(), Refused(400, INVALID, "name")),
        (
            "a revision of nothing",
            "PUT",
            "/v1/schedules/a?revision=1",
            good,
            Refused(412, "revision_conflict", "does not exist"),
        ),
        (
            "a note without end",
            "POST",
            "/v1/schedules/a/pause",
            json!({ "note": long }),
            Refused(400, INVALID, "/note"),
        ),
        (
            "a pause of nothing",
            "POST",
            "/v1/schedules/a/pause",
            json!({}),
            Refused(404, "schedule_not_found", "no schedule named a"),
        ),
        ("a skip of none", "POST", "/v1/schedules/a/skip", json!({ "count": 0 }), Refused(400, INVALID, "/count")),
        (
            "a skip of many",
            "POST",
            "/v1/schedules/a/skip",
            json!({ "count": 4_000_000_000_u32 }),
            Refused(400, INVALID, "/count"),
        ),
        (
            "a preview of many",
            "POST",
            "/v1/schedules/preview?count=1001",
            json!({ "daily": "09:00" }),
            Refused(400, INVALID, "count"),
        ),
        (
            "a preview of all rules",
            "POST",
            "/v1/schedules/preview?count=1000",
            json!({ "rules": vec![json!({ "cron": "30 2 29 2 */7" }); 32], "gap": "skip", "zone": "Europe/Berlin" }),
            Taken,
        ),
    ] {
        cases.push(Case::new(name, send(method, path, &body), refused));
    }
    for (path, status, code, word) in [
        ("/v1/schedules?limit=0", 400, INVALID, "limit"),
        ("/v1/schedules?paused=maybe", 400, INVALID, "paused"),
        ("/v1/schedules?cursor=%2F", 400, INVALID, "cursor"),
        ("/v1/schedules?prefix=%00", 400, INVALID, "prefix"),
        ("/v1/schedules?task=nobody", 404, "task_not_found", "nobody"),
        ("/v1/schedules/nobody", 404, "schedule_not_found", "nobody"),
        ("/v1/schedules/schedule_7zzzzzzzzze5zvbtps1q930fas", 404, "schedule_not_found", "schedule_"),
        ("/v1/schedules/a/occurrences?verdict=lucky", 400, INVALID, "verdict"),
        ("/v1/schedules/a/occurrences?order=up", 400, INVALID, "order"),
        ("/v1/schedules/a/occurrences?cursor=zz", 400, INVALID, "cursor"),
        ("/v1/schedules/a/preview?count=0", 400, INVALID, "count"),
        ("/v1/calendars/nobody", 404, "calendar_not_found", "nobody"),
    ] {
        cases.push(Case::new(path, Request::new("GET", path), Refused(status, code, word)));
    }
    check(cases).await;
}

#[tokio::test]
async fn calendars_that_cannot_be_are_refused() {
    let file = |lines: &str| format!("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n{lines}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n");
    let garbage: String =
        (0..(1_u32 << 20) - 100).map(|n| char::from((n.wrapping_mul(2_654_435_761) >> 24) as u8 & 0x7f)).collect();
    let put = |content_type: &str, body: Vec<u8>| {
        Request::new("PUT", "/v1/calendars/c").header("content-type", content_type).body(body)
    };
    let mut cases = Vec::new();
    for (name, text, word) in [
        ("garbage", garbage.clone(), "begins with BEGIN:VCALENDAR"),
        ("lines folded without end", file(&format!("DTSTART:{}", "\r\n 1".repeat(200_000))), "is not a date"),
        ("a weekly event", file("DTSTART;VALUE=DATE:20261225\r\nRRULE:FREQ=WEEKLY"), "line 4"),
        (
            "a count without end",
            file("DTSTART:00010101T000000\r\nDTEND:00010201T000000\r\nRRULE:FREQ=YEARLY;COUNT=4000000000"),
            "10000 dates",
        ),
        ("a holiday of 9,998 years", file("DTSTART;VALUE=DATE:00010101\r\nDTEND;VALUE=DATE:99991231"), "10000 dates"),
        ("an event without a day", file("SUMMARY:x"), "DTSTART"),
    ] {
        cases.push(Case::new(name, put("text/calendar", text.into_bytes()), Refused(400, INVALID, word)));
    }
    let after_begin = format!("BEGIN:VCALENDAR\r\n{garbage}");
    cases.push(Case::new("garbage in a calendar", put("text/calendar", after_begin.into_bytes()), Taken));
    cases.push(Case::new("not UTF-8", put("text/calendar", vec![0xff; 100]), Refused(400, INVALID, "UTF-8")));
    let large = vec![b'x'; (1 << 20) + 1];
    cases.push(Case::new("too large", put("text/calendar", large), Refused(413, "payload_too_large", "1048576")));
    for (name, body, word) in [
        ("no dates", json!({}), "dates"),
        ("a date that is none", json!({ "dates": ["2026-02-30"] }), "/dates/0"),
        ("a number for a date", json!({ "dates": [20_261_225] }), "/dates/0"),
        ("10,001 dates", json!({ "dates": vec!["2026-12-25"; 10_001] }), "/dates: must be at most 10000"),
    ] {
        cases.push(Case::new(name, send("PUT", "/v1/calendars/c", &body), Refused(400, INVALID, word)));
    }
    check(cases).await;
}
