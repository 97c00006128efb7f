use punctual_api::{JobSummary, TaskView, WorkerView};
use serde::Serialize;
use serde_json::json;

use super::*;

fn summary(state: &str, task: &str, due: &str, reason: Option<&str>) -> JobSummary {
    serde_json::from_value(json!({
        "id": "job_01m7et4344e91804jsy8wksbxz",
        "task": { "id": "task_01m7et433kee4803yssgvaf2fh", "name": task, "kind": "http", "queue": "default" },
        "state": state, "priority": 0, "attempt_count": 4, "reason": reason,
        "submitted_at": "2026-01-01T00:00:00Z", "scheduled_at": due, "due_at": due,
    }))
    .unwrap()
}

/// Long over, so that its age takes the same room for years.
fn jobs() -> Vec<JobSummary> {
    vec![
        summary("failed", "ping", "1999-01-01T00:00:00Z", Some("cannot connect to 127.0.0.1:9: connection\nrefused")),
        summary("quarantined", "nightly-report-of-everything", "1999-01-01T00:00:00Z", None),
    ]
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap()
}

#[derive(Serialize)]
struct Two(String, String);

impl Row for Two {
    const HEADER: &'static [&'static str] = &["ID", "REASON"];
    const YIELDS: &'static [Yield] = &[Yield::Cut("REASON", 8)];

    fn name(&self) -> String {
        self.0.clone()
    }

    fn cells(&self, _: &Output) -> Vec<Cell> {
        vec![Cell::new(&self.0), Cell::new(&self.1)]
    }
}

#[test]
fn a_piped_table_is_plain_and_whole() {
    let long = "x".repeat(500);
    let rows = [Two("a".to_owned(), long.clone()), Two("bbb".to_owned(), "y".to_owned())];
    assert_eq!(draw(&rows, &Output::plain(None)), format!("ID   REASON\na    {long}\nbbb  y"));
}

#[test]
fn free_text_is_cut_with_an_ellipsis_and_ids_never_are() {
    let rows = [Two("an_id_that_is_copied".to_owned(), "x".repeat(50))];
    assert_eq!(
        draw(&rows, &Output::plain(Some(40))),
        format!("ID                    REASON\nan_id_that_is_copied  {}…", "x".repeat(17))
    );
    // Too narrow for anything: the terminal folds, and no column is one letter wide.
    assert_eq!(draw(&rows, &Output::plain(Some(10))).lines().count(), 2);
}

#[test]
fn a_time_is_shown_with_its_zone_or_not_at_all() {
    let text = "missed 2026-01-02 03:04:05+01:00 and later";
    for (width, shown) in [
        (50, None),
        (39, None),
        (32, Some("missed…")),
        (20, Some("missed…")),
        (9, Some("missed…")),
        (7, None),
        (0, None),
    ] {
        assert_eq!(without_cut_time(text, width).as_deref(), shown, "{width}");
    }
    assert_eq!(without_cut_time("no time 1234567890", 12), None, "other numbers are cut like words");
    let rows = [Two("id".to_owned(), text.to_owned())];
    assert_eq!(draw(&rows, &Output::plain(Some(30))), "ID  REASON\nid  missed…");
}

#[test]
fn jobs_fit_every_usual_terminal_on_one_line_each_with_their_ids_whole() {
    for columns in [50, 60, 70, 80, 100, 120, 160] {
        let text = draw(&jobs(), &Output::plain(Some(columns)));
        assert!(widest(&text) <= columns, "{columns}:\n{text}");
        assert_eq!(text.lines().count(), 3, "{columns}:\n{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("job_01m7et4344e91804jsy8wksbxz  ")), "{text}");
    }
}

#[test]
fn a_narrow_list_of_jobs_tells_less_in_a_fixed_order() {
    let texts = [160, 100, 80, 60].map(|columns| {
        let text = draw(&jobs(), &Output::plain(Some(columns)));
        let header = text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{columns}: {header}")
    });
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn workers_and_tasks_fit_too() {
    let worker: WorkerView = serde_json::from_value(json!({
        "id": "worker_01m7et40a5e6hs5g996vdmh7f3", "name": "a-machine-with-a-long-name.example.org",
        "version": "0.1.0", "state": "connected", "queues": ["default", "mail", "reports"], "host": "host-7",
        "capabilities": ["binary", "http", "slack", "probe", "handler:resize-image"],
        "labels": { "zone": "eu" }, "slots": 64, "running": 3, "last_seen_at": "1999-01-01T00:00:00Z",
    }))
    .unwrap();
    let task: TaskView = serde_json::from_value(json!({
        "id": "task_01m7et433kee4803yssgvaf2fh", "name": "nightly-report", "revision": 3,
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        "spec": { "run": { "http": { "url": "https://example.org/a/rather/long/path/to/a/report" } } },
    }))
    .unwrap();
    for columns in [60, 80, 100, 160] {
        let out = Output::plain(Some(columns));
        for text in [draw(std::slice::from_ref(&worker), &out), draw(std::slice::from_ref(&task), &out)] {
            assert!(widest(&text) <= columns && text.lines().count() == 2, "{columns}:\n{text}");
        }
    }
}
