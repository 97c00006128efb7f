//! A list that is shown again and again on one screen.

use std::time::Duration;

use punctual_core::Span;

use crate::clean;
use crate::clock::now;
use crate::output::{Format, Output, Row, Size, counted};
use crate::table;

/// Faster than this, a terminal flickers and a server serves only lists.
const WATCH_MIN: Duration = Duration::from_millis(200);

/// One look at what is watched.
pub(crate) struct Look<T> {
    pub(crate) rows: Vec<T>,
    /// What one of them is called: `job`.
    pub(crate) what: &'static str,
    /// A sentence below the table.
    pub(crate) end: Option<String>,
}

/// Draws over the screen before. False if stdout is no terminal that a table could be drawn on.
pub(crate) fn show<T: Row>(look: &Look<T>, every: Span, out: &Output) -> anyhow::Result<bool> {
    let out = out.resized();
    match out.terminal {
        Some(size) if out.format == Format::Table => {
            let title = format!("{}  every {every}; Ctrl-C ends", out.zone.show(now()));
            out.write_raw(&draw(&title, look, size, &out))?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

pub(crate) async fn pause(every: Span) {
    tokio::time::sleep(every.to_std().max(WATCH_MIN)).await;
}

/// One screen, never more, drawn over the one before without a flicker.
fn draw<T: Row>(title: &str, look: &Look<T>, size: Size, out: &Output) -> String {
    // The title, the header, the line below and the cursor.
    let room = size.rows.saturating_sub(4).max(1);
    let shown = &look.rows[..look.rows.len().min(room)];
    let table = if shown.is_empty() { format!("no {}s", look.what) } else { table::draw(shown, out) };
    let table = if out.colored { clean::shown_in_color(&table) } else { clean::shown(&table) };
    let more = look.rows.len() - shown.len();
    let more = (more > 0).then(|| format!("{} more below", counted(more, look.what)));
    let end = [more, look.end.clone()].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let mut text = String::from("\x1b[H");
    // A line of ours that is too long would be folded into a second one.
    let cut = |line: &str| line.chars().take(size.columns).collect::<String>();
    for line in [cut(title).as_str()].into_iter().chain(table.lines()).chain([cut(&end).as_str()]) {
        text += line;
        text += "\x1b[K\n";
    }
    text + "\x1b[J"
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_api::JobSummary;
    use serde_json::json;

    #[test]
    fn a_screen_is_never_taller_than_the_terminal() {
        let job: JobSummary = serde_json::from_value(json!({
            "id": "job_01m7et4344e91804jsy8wksbxz",
            "task": { "id": "task_01m7et433kee4803yssgvaf2fh", "kind": "http", "queue": "default" },
            "state": "failed", "priority": 0, "attempt_count": 4, "reason": "x".repeat(300),
            "submitted_at": "2026-01-01T00:00:00Z", "scheduled_at": "2026-01-01T00:00:00Z",
            "due_at": "2026-01-01T00:00:00Z",
        }))
        .unwrap();
        let out = Output::plain(Some(80));
        let size = out.terminal.unwrap();
        let look = Look { rows: vec![job; 50], what: "job", end: Some("1 hidden".to_owned()) };
        let text = draw("now", &look, size, &out);
        assert_eq!(text.lines().count(), size.rows);
        assert!(text.contains("\n30 jobs more below; 1 hidden"), "{text}");
        let none = Look::<JobSummary> { rows: Vec::new(), what: "job", end: None };
        assert!(draw("now", &none, size, &out).contains("no jobs"));
    }
}
