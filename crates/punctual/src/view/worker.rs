//! What a worker looks like in a table.

use comfy_table::Cell;
use punctual_api::WorkerView;

use crate::output::{Output, Row};
use crate::table::Yield;
use crate::view::one_line;

impl Row for WorkerView {
    const HEADER: &'static [&'static str] = &[
        "ID",
        "NAME",
        "HOST",
        "STATE",
        "RUNNING",
        "SERVERS",
        "NAMESPACES",
        "QUEUES",
        "RUNS",
        "LABELS",
        "SEEN",
        "VERSION",
    ];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Cut("RUNS", 32),
        Yield::Cut("LABELS", 24),
        Yield::Drop("VERSION"),
        Yield::Drop("HOST"),
        Yield::Drop("SERVERS"),
        Yield::Cut("RUNS", 20),
        Yield::Cut("LABELS", 16),
        Yield::Cut("NAMESPACES", 12),
        Yield::Cut("QUEUES", 12),
        Yield::Drop("NAMESPACES"),
        Yield::Drop("SEEN"),
        Yield::Cut("NAME", 12),
        Yield::Drop("QUEUES"),
        Yield::Drop("LABELS"),
        Yield::Drop("RUNNING"),
        Yield::Cut("RUNS", 14),
        Yield::Cut("NAME", 8),
        Yield::Drop("NAME"),
        Yield::Drop("RUNS"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(one_line(&self.name)),
            Cell::new(one_line(self.host.as_deref().unwrap_or("-"))),
            Cell::new(&self.state),
            Cell::new(if self.is_gone() { "-".to_owned() } else { format!("{}/{}", self.running, self.slots) }),
            Cell::new(if self.servers.is_empty() { "-".to_owned() } else { self.servers.len().to_string() }),
            Cell::new(namespaces(self)),
            Cell::new(or_dash(self.queues.join(","))),
            Cell::new(or_dash(one_line(&self.capabilities.join(", ")))),
            Cell::new(or_dash(one_line(&labels(self)))),
            Cell::new(out.relative(self.last_seen_at)),
            Cell::new(&self.version),
        ]
    }
}

fn namespaces(worker: &WorkerView) -> String {
    match &worker.namespaces {
        Some(names) => or_dash(names.join(",")),
        None if worker.is_gone() => "-".to_owned(),
        None => "all".to_owned(),
    }
}

fn labels(worker: &WorkerView) -> String {
    worker.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}
