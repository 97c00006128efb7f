//! What the fake server answers about schedules and calendars. Its times are long over, so that they look the
//! same tomorrow.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fake::{DONE, problem, task_ref};

const ID: &str = "schedule_01m7et433kee4803yssgvaf2fh";

pub(crate) fn answers() -> BTreeMap<String, (u16, Value)> {
    let list =
        json!({ "schedules": [summary("nightly", "active"), summary("weekly", "paused")], "next_cursor": "abc" });
    let skipped = json!({ "until": "2026-01-06T01:30:00Z", "skipped": [start("05", 0), start("06", 0)] });
    let calendar = json!({
        "name": "holidays", "dates": ["2026-12-25", "2026-12-26"], "revision": 2,
        "changed": { "at": "2026-01-01T00:00:00Z", "who": "local" },
    });
    let calendars = json!({ "calendars": [{
        "name": "holidays", "date_count": 2, "first": "2026-12-25", "last": "2026-12-26", "revision": 2,
        "changed": { "at": "2026-01-01T00:00:00Z", "who": "local" },
    }] });
    let in_use = problem("calendar_in_use", 409, "the calendar is used by nightly");
    let nightly = |verb: &str| format!("POST /v1/schedules/nightly/{verb}");
    BTreeMap::from([
        ("GET /v1/schedules".to_owned(), (200, list)),
        ("POST /v1/schedules".to_owned(), (201, schedule())),
        ("GET /v1/schedules/nightly".to_owned(), (200, schedule())),
        ("PUT /v1/schedules/nightly".to_owned(), (200, edited())),
        ("DELETE /v1/schedules/nightly".to_owned(), (204, Value::Null)),
        ("GET /v1/schedules/nope".to_owned(), (404, problem("schedule_not_found", 404, "there is no schedule nope"))),
        ("GET /v1/schedules/nightly/occurrences".to_owned(), (200, occurrences())),
        ("GET /v1/schedules/nightly/preview".to_owned(), (200, preview())),
        ("POST /v1/schedules/preview".to_owned(), (200, preview())),
        (
            "POST /v1/schedules/bulk".to_owned(),
            (200, json!({ "created": 1, "replaced": 1, "skipped": 0, "names_taken": [] })),
        ),
        (nightly("pause"), (200, schedule())),
        (nightly("resume"), (200, schedule())),
        (nightly("skip"), (200, skipped)),
        (nightly("run"), (200, json!({ "outcome": "started", "job": DONE }))),
        ("GET /v1/calendars".to_owned(), (200, calendars)),
        ("GET /v1/calendars/holidays".to_owned(), (200, calendar.clone())),
        ("PUT /v1/calendars/holidays".to_owned(), (200, calendar)),
        ("DELETE /v1/calendars/holidays".to_owned(), (409, in_use)),
    ])
}

fn start(day: &str, delay_secs: u8) -> Value {
    json!({
        "at": format!("2026-01-{day}T01:30:00Z"), "local": format!("2026-01-{day}T02:30:00+01:00"),
        "start_at": format!("2026-01-{day}T01:30:{delay_secs:02}Z"),
    })
}

fn summary(name: &str, state: &str) -> Value {
    let mut summary = json!({
        "id": ID, "name": name, "task": task_ref(), "explanation": "at 02:30, Monday to Friday, Europe/Berlin",
        "zone": "Europe/Berlin", "state": state, "changed": { "at": "2026-01-01T00:00:00Z", "who": "local" }, "revision": 3, "next": [],
    });
    if state == "active" {
        summary["next"] = json!([start("05", 0)]);
    }
    summary
}

fn schedule() -> Value {
    let mut schedule = summary("nightly", "active");
    schedule["next"] = json!([start("05", 17), start("06", 0), start("07", 0), start("08", 0)]);
    schedule["definition"] = json!({
        "name": "nightly", "task": "ping", "cron": "30 2 * * MON-FRI", "zone": "Europe/Berlin", "jitter": "1m",
        "overlap": "skip", "catch_up": { "mode": "all", "max": 10 }, "max_runs": 100, "pause_after_failures": 3,
        "late_after": "1m", "input": { "day": "monday" },
    });
    schedule["runs"] = json!(7);
    schedule["failures"] = json!(1);
    schedule["created"] = json!({ "at": "2026-01-01T00:00:00Z", "who": "local" });
    schedule["changes"] = json!([
        { "at": "2026-01-02T00:00:00Z", "who": "local", "kind": "paused", "note": "the database\nmoves" },
        { "at": "2026-01-01T12:00:00Z", "who": "local", "kind": "edited", "former": "at 01:00, every day, Europe/Berlin" },
    ]);
    schedule
}

fn edited() -> Value {
    let mut schedule = schedule();
    let later = |day: &str| json!({ "at": format!("2026-01-{day}T02:00:00Z"), "local": format!("2026-01-{day}T03:00:00+01:00"), "start_at": format!("2026-01-{day}T02:00:00Z") });
    schedule["revision"] = json!(4);
    schedule["moves"] =
        json!({ "before": [start("05", 0), start("06", 0)], "after": [later("05"), later("06"), later("07")] });
    schedule
}

fn occurrences() -> Value {
    json!({ "zone": "Europe/Berlin", "occurrences": [
        {
            "at": "2026-01-03T01:30:00Z", "local": "2026-01-03T02:30:00+01:00", "start_at": "2026-01-03T01:30:00Z",
            "verdict": "skipped_overlap", "explanation": "did not run: the run of 2026-01-02T01:30:00.000000Z had not ended",
            "decided_at": "2026-01-03T01:30:00Z",
        },
        {
            "at": "2026-01-02T01:30:00Z", "local": "2026-01-02T02:30:00+01:00", "start_at": "2026-01-02T01:30:00Z",
            "verdict": "fired", "explanation": "ran 1h late: it had been missed", "decided_at": "2026-01-02T02:30:00Z",
            "late_by": "1h", "job": DONE, "marks": ["replayed", "late"],
        },
    ] })
}

fn preview() -> Value {
    json!({
        "explanation": "at 02:30, every day, Europe/Berlin", "zone": "Europe/Berlin",
        "occurrences": [
            start("05", 0),
            {
                "at": "2026-03-29T01:00:00Z", "local": "2026-03-29T03:00:00+02:00", "start_at": "2026-03-29T01:00:00Z",
                "note": "shifted: 02:30 does not exist on this day", "merged": 1,
            },
            {
                "at": "2026-12-25T01:30:00Z", "local": "2026-12-25T02:30:00+01:00", "start_at": "2026-12-25T01:30:00Z",
                "unfired": "calendar",
            },
        ],
        "clock_changes": [{
            "at": "2026-03-29T01:00:00Z", "explanation": "2026-03-29: clocks go from 02:00 to 03:00",
            "effects": ["02:30 does not exist and runs at 03:00"], "more_effects": 2,
        }],
    })
}
