//! What the fake server answers about backfills.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fake::DONE;

pub(crate) const ID: &str = "backfill_01m7et433kee4803yssgvaf2fh";
const OTHER: &str = "backfill_01m7et433kee4803yssgvaf2fg";

pub(crate) fn answers() -> BTreeMap<String, (u16, Value)> {
    let mut running = backfill(ID, "running");
    running["note"] = json!("it waits until the schedule itself has decided about 2026-01-31T02:30:00+01:00");
    let mut aborted = backfill(OTHER, "aborted");
    aborted["ended"] = json!({ "at": "2026-02-01T00:10:00Z", "who": "local" });
    let runs = json!({ "zone": "Europe/Berlin", "runs": [
        { "at": "2026-01-02T01:30:00Z", "local": "2026-01-02T02:30:00+01:00", "job": DONE, "state": "succeeded" },
        { "at": "2026-01-03T01:30:00Z", "local": "2026-01-03T02:30:00+01:00", "job": DONE, "state": "running" },
    ], "next_cursor": "0006" });
    BTreeMap::from([
        ("POST /v1/schedules/nightly/backfills".to_owned(), (201, backfill(ID, "running"))),
        ("GET /v1/backfills".to_owned(), (200, json!({ "backfills": [running.clone(), aborted.clone()] }))),
        (format!("GET /v1/backfills/{ID}"), (200, running)),
        (format!("GET /v1/backfills/{OTHER}"), (200, aborted.clone())),
        (format!("GET /v1/backfills/{ID}/runs"), (200, runs)),
        (format!("POST /v1/backfills/{ID}/abort"), (200, aborted)),
    ])
}

pub(crate) fn backfill(id: &str, state: &str) -> Value {
    json!({
        "id": id, "schedule": "nightly", "schedule_id": "schedule_01m7et433kee4803yssgvaf2fh",
        "from": "2025-12-31T23:00:00Z", "to": "2026-01-31T23:00:00Z", "overlap": "allow", "max_active": 4,
        "include": "not_run", "state": state, "total": 31, "made": 12, "passed_over": 9, "running": 4, "succeeded": 7,
        "failed": 1, "cancelled": 0, "remaining": 10, "reached": "2026-01-21T01:30:00Z",
        "created": { "at": "2026-02-01T00:00:00Z", "who": "local" },
    })
}
