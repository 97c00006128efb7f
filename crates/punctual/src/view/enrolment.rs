//! What join tokens and enrolled workers look like in a table.

use std::collections::BTreeMap;

use comfy_table::Cell;
use punctual_api::{EnrolmentView, WorkerToken};

use crate::output::{Output, Row};
use crate::table::Yield;
use crate::view::one_line;

impl Row for WorkerToken {
    const HEADER: &'static [&'static str] =
        &["ID", "STATE", "USED", "NAMESPACES", "QUEUES", "KINDS", "LABELS", "EXPIRES", "CREATED BY"];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Drop("CREATED BY"),
        Yield::Cut("LABELS", 16),
        Yield::Cut("NAMESPACES", 12),
        Yield::Cut("KINDS", 16),
        Yield::Cut("QUEUES", 12),
        Yield::Drop("LABELS"),
        Yield::Drop("NAMESPACES"),
        Yield::Drop("EXPIRES"),
        Yield::Drop("KINDS"),
        Yield::Drop("QUEUES"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(&self.state),
            Cell::new(format!("{}/{}", self.used, self.uses)),
            Cell::new(self.namespaces.join(",")),
            Cell::new(self.queues.join(",")),
            Cell::new(self.kinds.join(",")),
            Cell::new(labels(&self.labels)),
            Cell::new(out.time(self.expires_at)),
            Cell::new(one_line(&self.created_by)),
        ]
    }
}

impl Row for EnrolmentView {
    const HEADER: &'static [&'static str] =
        &["ID", "NAME", "STATE", "NAMESPACES", "QUEUES", "KINDS", "LABELS", "ENROLLED", "EXPIRES"];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Drop("ENROLLED"),
        Yield::Cut("LABELS", 16),
        Yield::Cut("NAMESPACES", 12),
        Yield::Cut("KINDS", 16),
        Yield::Cut("QUEUES", 12),
        Yield::Cut("NAME", 12),
        Yield::Drop("LABELS"),
        Yield::Drop("NAMESPACES"),
        Yield::Drop("EXPIRES"),
        Yield::Drop("KINDS"),
        Yield::Drop("QUEUES"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(one_line(&self.name)),
            Cell::new(&self.state),
            Cell::new(self.namespaces.join(",")),
            Cell::new(self.queues.join(",")),
            Cell::new(self.kinds.join(",")),
            Cell::new(labels(&self.labels)),
            Cell::new(out.time(self.enrolled_at)),
            Cell::new(out.time(self.expires_at)),
        ]
    }
}

fn labels(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "-".to_owned() } else { one_line(&pairs.join(", ")) }
}
