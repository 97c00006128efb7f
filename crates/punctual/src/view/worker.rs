//! What a worker looks like in a table.

use comfy_table::Cell;
use punctual_api::WorkerView;

use crate::output::{Output, Row};
use crate::table::Yield;

impl Row for WorkerView {
    const HEADER: &'static [&'static str] = &["ID", "NAME", "STATE", "RUNNING", "QUEUES", "SEEN", "VERSION"];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Drop("VERSION"),
        Yield::Cut("QUEUES", 12),
        Yield::Drop("SEEN"),
        Yield::Cut("NAME", 8),
        Yield::Drop("QUEUES"),
        Yield::Drop("RUNNING"),
        Yield::Drop("NAME"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(&self.name),
            Cell::new(&self.state),
            Cell::new(format!("{}/{}", self.running, self.slots)),
            Cell::new(self.queues.join(",")),
            Cell::new(out.relative(self.last_seen_at)),
            Cell::new(&self.version),
        ]
    }
}
