//! What is printed of an import: a table of lines, and what is to be said about them.

use comfy_table::Cell;
use punctual_api::ScheduleBulkAnswer;
use punctual_core::Timestamp;
use punctual_core::schedule::recurrence::crontab::Severity;
use serde::Serialize;

use super::line::{Line, Problem};
use super::mail::MailRule;
use crate::output::{Format, Output, Row, note};
use crate::table::{self, Yield};
use crate::zone::show_in;

#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    lines: Vec<LineRow>,
    problems: Vec<ProblemRow>,
    /// What `MAILTO` becomes.
    notifications: &'a [MailRule],
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<&'a ScheduleBulkAnswer>,
}

#[derive(Debug, Serialize)]
struct LineRow {
    line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    when: String,
    zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Timestamp>,
    /// Absent if it cannot be imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    becomes: Option<String>,
}

#[derive(Debug, Serialize)]
struct ProblemRow {
    line: usize,
    severity: &'static str,
    message: String,
}

impl ProblemRow {
    fn sentence(&self) -> String {
        let Self { line, severity, message } = self;
        format!("line {line}: {severity}: {message}")
    }
}

impl Row for LineRow {
    const HEADER: &'static [&'static str] = &["LINE", "NAME", "WHEN", "ZONE", "NEXT", "BECOMES"];
    const YIELDS: &'static [Yield] = &[
        Yield::Cut("BECOMES", 40),
        Yield::Cut("NAME", 24),
        Yield::Cut("BECOMES", 20),
        Yield::Cut("WHEN", 24),
        Yield::Drop("NAME"),
        Yield::Cut("BECOMES", 12),
        Yield::Cut("WHEN", 12),
        // When it runs is in the zone beside it, which stays.
        Yield::Drop("NEXT"),
    ];

    fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("line {}", self.line))
    }

    fn cells(&self, _: &Output) -> Vec<Cell> {
        let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        vec![
            Cell::new(self.line),
            Cell::new(self.name.as_deref().unwrap_or("-")),
            Cell::new(or_none(&self.when)),
            Cell::new(or_none(&self.zone)),
            Cell::new(self.next.map_or_else(|| "-".to_owned(), |at| show_in(&self.zone, at))),
            Cell::new(self.becomes.as_deref().unwrap_or("not imported")),
        ]
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(
        lines: &[Line],
        problems: &[Problem],
        notifications: &'a [MailRule],
        made: Option<&'a ScheduleBulkAnswer>,
    ) -> Self {
        let rows = lines.iter().map(|line| LineRow {
            line: line.number,
            name: line.becomes.is_ok().then(|| line.name.clone()),
            when: line.words.clone(),
            zone: line.zone.clone(),
            next: line.next,
            becomes: line.becomes.as_ref().ok().map(super::line::Becomes::words),
        });
        // Lines that could not even be read have a row as well.
        let is_unread = |problem: &&Problem| {
            problem.severity == Severity::Error && lines.iter().all(|line| line.number != problem.line)
        };
        let unread = problems.iter().filter(is_unread).map(|problem| LineRow {
            line: problem.line,
            name: None,
            when: String::new(),
            zone: String::new(),
            next: None,
            becomes: None,
        });
        let mut rows: Vec<LineRow> = rows.chain(unread).collect();
        rows.sort_by_key(|row| row.line);
        rows.dedup_by_key(|row| row.line);
        let problems = problems.iter().map(|problem| ProblemRow {
            line: problem.line,
            severity: match problem.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            },
            message: problem.message.clone(),
        });
        Self { lines: rows, problems: problems.collect(), notifications, made }
    }

    pub(super) fn show(&self, out: &Output) -> anyhow::Result<()> {
        match out.format {
            Format::Json => return out.rows(&self.lines, self),
            // Only what has a name.
            Format::Name => {
                self.lines.iter().filter_map(|line| line.name.as_ref()).try_for_each(|name| out.line(name))?;
            }
            Format::Jsonl => out.rows(&self.lines, self)?,
            Format::Table => {
                out.rows(&self.lines, self)?;
                out.write(&self.rules_text(out))?;
            }
        }
        self.problems.iter().for_each(|problem| note(&problem.sentence()));
        Ok(())
    }

    /// Below the lines, and apart from them.
    fn rules_text(&self, out: &Output) -> String {
        if self.notifications.is_empty() {
            return String::new();
        }
        format!("\n{}\n", table::draw(self.notifications, out))
    }

    #[cfg(test)]
    pub(super) fn text(&self, out: &Output) -> String {
        let problems: Vec<String> = self.problems.iter().map(ProblemRow::sentence).collect();
        format!("{}\n{}{}\n", table::draw(&self.lines, out), self.rules_text(out), problems.join("\n"))
    }
}
