//! `punctual backfill` as people and scripts meet it.

use crate::fake_backfills::{ID, backfill};
use crate::formats::shown;
use crate::{fake, run, stderr};

fn all(lines: &[String]) -> String {
    lines.iter().map(|line| shown(line)).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn backfills_print_in_every_format() {
    let lists = ["table", "name", "jsonl"].map(|format| format!("backfill list -o {format} --tz utc"));
    insta::assert_snapshot!(all(&lists));
}

#[test]
fn what_is_done_with_a_backfill_is_answered_in_words() {
    insta::assert_snapshot!(all(&[
        "backfill create nightly --from 2026-01-01 --to 2026-02-01 --overlap allow --max-active 4".to_owned(),
        format!("backfill get {ID} --tz utc"),
        format!("backfill runs {ID}"),
        format!("backfill abort {ID}"),
        format!("backfill abort {ID} --cancel"),
        "backfill create nightly".to_owned(),
        "backfill create nightly --from 2026-01-01 --dry-run --watch".to_owned(),
        "backfill watch nightly".to_owned(),
    ]));
}

#[test]
fn a_backfill_without_jobs_is_not_said_to_be_under_way_when_it_is_not() {
    for (state, said) in [("running", "It has made no job so far: "), ("done", "It made no job: ")] {
        let none = serde_json::json!({ "zone": "Europe/Berlin", "runs": [] });
        let url = fake::start_with([
            (format!("GET /v1/backfills/{ID}/runs"), (200, none)),
            (format!("GET /v1/backfills/{ID}"), (200, backfill(ID, state))),
        ]);
        let output = run(&["backfill", "runs", ID, "--server", &url]);
        assert_eq!(stderr(&output), format!("{said}punctual backfill get {ID}\n"));
    }
}
