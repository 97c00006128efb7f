//! What all that is listed and shown looks like: in tables, and in detail.

mod artifact;
mod audit;
pub(crate) mod backfill;
pub(crate) mod batch;
mod calendar;
mod enrolment;
mod identity;
mod job;
mod namespace;
pub(crate) mod notification;
mod occurrence;
mod overdue;
mod queue;
pub(crate) mod schedule;
mod secret;
mod server;
mod task;
mod task_changes;
mod wait_reasons;
mod worker;
pub(crate) mod workflow;

use std::fmt::Write as _;

pub(crate) use artifact::artifact;
pub(crate) use calendar::calendar;
pub(crate) use identity::{key, user, whoami};
pub(crate) use job::{job, late_line, lost_words, notification_line, task_ref};
pub(crate) use namespace::namespace;
pub(crate) use occurrence::backfilled_words;
pub(crate) use overdue::without_lateness;
pub(crate) use queue::queue;
pub(crate) use server::figures;
pub(crate) use task::{run_summary, task};
pub(crate) use task_changes::task_changes;
pub(crate) use wait_reasons::most_frequent;

/// What others wrote, without whatever would break a line or steer a terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.split(|letter: char| letter.is_control() || letter.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A word as a shell would read it back.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-+=:,./@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// As the wire format and the flags write it.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}

/// A title and lines of name and value.
pub(crate) struct Detail {
    pub(crate) text: String,
    name_width: usize,
}

impl Detail {
    pub(crate) fn new(title: &str, name_width: usize) -> Self {
        Self { text: format!("{title}\n"), name_width }
    }

    pub(crate) fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        // A line break in a value would make a line that looks like ours.
        let value = value.to_string().replace(['\n', '\r'], " ");
        let _ = writeln!(self.text, "  {name:<width$} {value}", width = self.name_width);
    }

    /// A text of several lines, below its name.
    pub(crate) fn block(&mut self, name: &str, value: &str) {
        let _ = writeln!(self.text, "  {name}");
        for line in value.lines() {
            let printable: String = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
            let _ = writeln!(self.text, "    {printable}");
        }
    }

    pub(crate) fn optional(&mut self, name: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.line(name, value);
        }
    }
}
