//! What queues look like in a table and in detail.

use comfy_table::Cell;
use punctual_api::{QueueDefaults, QueueView};

use super::{Detail, one_line};
use crate::output::{Format, Output, Row};
use crate::table::Yield;

pub(crate) fn queue(queue: &QueueView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(queue),
        Format::Name => return out.line(&queue.name),
        Format::Table => {}
    }
    let mut detail = Detail::new(&queue.name, 13);
    detail.optional("description", queue.description.as_ref());
    let state = match &queue.state_changed {
        Some(changed) => format!("{} since {} by {}", queue.state, out.zone.show(changed.at), changed.who),
        None => queue.state.clone(),
    };
    detail.line("state", state);
    detail.optional("note", queue.note.as_ref());
    detail.line("waiting", waiting(queue));
    if let Some(since) = queue.waiting_since {
        detail.line("oldest", format!("due {}", out.relative(since)));
    }
    detail.line("running", queue.running);
    if !queue.is_served {
        detail.line("workers", format!("none serves it; start one: punctual worker --queues {}", queue.name));
    }
    for (name, value) in defaults(&queue.defaults) {
        detail.line("default", format!("{name} {value}"));
    }
    if let Some(changed) = &queue.changed {
        detail.line("changed", format!("{} by {}", out.zone.show(changed.at), changed.who));
        detail.line("revision", queue.revision);
    }
    if queue.uncertain {
        detail.line("uncertain", "some servers did not answer; more may wait and run than is shown");
    }
    out.write(&detail.text)
}

fn waiting(queue: &QueueView) -> String {
    if queue.has_more_waiting { format!("more than {}", queue.waiting) } else { queue.waiting.to_string() }
}

fn defaults(defaults: &QueueDefaults) -> Vec<(&'static str, String)> {
    let QueueDefaults { priority, retry, node_retry, timeout, queue_timeout } = defaults;
    let all = [
        ("priority", priority.map(|priority| priority.get().to_string())),
        ("retries", retry.map(|policy| policy.max.to_string())),
        ("retries after the loss of a worker", node_retry.map(|policy| policy.max.to_string())),
        ("timeout", timeout.map(|span| span.to_string())),
        ("queue timeout", queue_timeout.map(|span| span.to_string())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

impl Row for QueueView {
    const HEADER: &'static [&'static str] = &["NAME", "STATE", "WAITING", "OLDEST", "RUNNING", "SERVED", "NOTE"];
    const YIELDS: &'static [Yield] = &[
        Yield::Cut("NOTE", 40),
        Yield::ShortTimes,
        Yield::Cut("NOTE", 20),
        Yield::Drop("SERVED"),
        Yield::Cut("NAME", 24),
        Yield::Drop("NOTE"),
        Yield::Drop("OLDEST"),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        let more = if self.has_more_waiting { "+" } else { "" };
        vec![
            Cell::new(&self.name),
            Cell::new(&self.state),
            Cell::new(format!("{}{more}", self.waiting)),
            Cell::new(self.waiting_since.map_or_else(|| "-".to_owned(), |since| out.relative(since))),
            Cell::new(self.running),
            Cell::new(if self.is_served { "yes" } else { "no" }),
            Cell::new(self.note.as_deref().map_or_else(|| "-".to_owned(), one_line)),
        ]
    }
}
