//! Backfills that cannot be, or would be too much.

use serde_json::{Value, json};

use super::{Case, Refused, Taken, check};
use crate::raw::Request;

const INVALID: &str = "invalid_request";
const NONE: &str = "/v1/backfills/backfill_01m7et433kee4803yssgvaf2fh";

fn send(method: &str, path: &str, body: &Value) -> Request {
    Request::new(method, path).json(body.to_string())
}

#[tokio::test]
async fn backfills_that_cannot_be_are_refused() {
    let schedule = json!({ "inline": { "run": { "probe": {} } }, "every": "1s" });
    let mut cases = vec![Case::new("a schedule", send("PUT", "/v1/schedules/a", &schedule), Taken)];
    let long = "x".repeat(100_000);
    for (name, body, word) in [
        ("no beginning", json!({}), "/from: is required"),
        ("a beginning of a number", json!({ "from": 7 }), "/from"),
        ("a beginning in words", json!({ "from": "last week" }), "/from"),
        ("a beginning without end", json!({ "from": long }), "/from"),
        ("a beginning before time", json!({ "from": "1969-12-31" }), "/from"),
        ("an end in the future", json!({ "from": "2026-01-01", "to": "2099-01-01" }), "/to: must not be in the future"),
        ("an end before the beginning", json!({ "from": "2026-01-02", "to": "2026-01-01" }), "/from: must be earlier"),
        ("an age of seconds", json!({ "from": "1970-01-01" }), "/from: the range has 1000000 times or more"),
        ("its dry run", json!({ "from": "1970-01-01", "dry_run": true }), "/from: the range has 1000000 times or more"),
        ("an unknown policy", json!({ "from": "2026-01-01", "overlap": "never" }), "/overlap: `never` is not one of"),
        ("a policy that skips", json!({ "from": "2026-01-01", "overlap": "skip" }), "/overlap: `skip` is not one of"),
        ("a policy without end", json!({ "from": "2026-01-01", "overlap": long }), "/overlap"),
        (
            "none at a time",
            json!({ "from": "2026-01-01", "overlap": "allow", "max_active": 0 }),
            "/max_active: must be",
        ),
        ("many", json!({ "from": "2026-01-01", "overlap": "allow", "max_active": 1001 }), "/max_active: must be 1 to"),
        ("less than none", json!({ "from": "2026-01-01", "overlap": "allow", "max_active": -1 }), "/max_active"),
        ("some of them", json!({ "from": "2026-01-01", "include": "some" }), "/include"),
        ("a guess", json!({ "from": "2026-01-01", "unknown": "guess" }), "/unknown"),
        (
            "a decision about nothing",
            json!({ "from": "2026-11-01", "include": "all", "unknown": "skip" }),
            "/unknown: has no meaning",
        ),
        ("an unknown field", json!({ "from": "2026-01-01", "overlaps": "allow" }), "did you mean `overlap`?"),
        ("who did it", json!({ "from": "2026-01-01", "who": "root" }), "/who: there is no such field"),
    ] {
        cases.push(Case::new(name, send("POST", "/v1/schedules/a/backfills", &body), Refused(400, INVALID, word)));
    }
    let good = json!({ "from": "2026-01-01" });
    for (name, method, path, body, refused) in [
        (
            "a schedule that is not there",
            "POST",
            "/v1/schedules/b/backfills",
            good.clone(),
            Refused(404, "schedule_not_found", "no schedule named b"),
        ),
        ("a parameter", "POST", "/v1/schedules/a/backfills?dry_run=true", good, Refused(400, INVALID, "no parameters")),
        ("no id", "GET", "/v1/backfills/x", json!({}), Refused(400, INVALID, "id")),
        ("nothing", "GET", NONE, json!({}), Refused(404, "backfill_not_found", "there is no backfill")),
        ("an unknown list", "GET", "/v1/backfills?state=running", json!({}), Refused(400, INVALID, "state")),
        ("a list of many", "GET", "/v1/backfills?limit=1001", json!({}), Refused(400, INVALID, "limit")),
        ("a wrong place", "GET", "/v1/backfills?cursor=x", json!({}), Refused(400, INVALID, "cursor")),
    ] {
        cases.push(Case::new(name, send(method, path, &body), refused));
    }
    for (name, verb, body, refused) in [
        ("an abort of nothing", "abort", json!({}), Refused(404, "backfill_not_found", "there is no backfill")),
        ("an abort of some", "abort", json!({ "cancel": "some" }), Refused(400, INVALID, "/cancel")),
        ("an unknown verb", "pause", json!({}), Refused(404, "not_found", "nothing at this address")),
    ] {
        cases.push(Case::new(name, send("POST", &format!("{NONE}/{verb}"), &body), refused));
    }
    cases.push(Case::new(
        "a wrong place in runs",
        Request::new("GET", &format!("{NONE}/runs?cursor=-000000000000001")),
        Refused(400, INVALID, "cursor"),
    ));
    check(cases).await;
}
