//! What a line of the audit log looks like in a table.

use comfy_table::Cell;
use punctual_api::AuditEntry;

use crate::output::{Output, Row};
use crate::table::Yield;

impl Row for AuditEntry {
    const HEADER: &'static [&'static str] =
        &["SEQ", "AT", "PRINCIPAL", "FROM", "ACTION", "OBJECT", "BEFORE", "OUTCOME"];
    const YIELDS: &'static [Yield] =
        &[Yield::ShortTimes, Yield::Drop("FROM"), Yield::Drop("BEFORE"), Yield::Drop("SEQ"), Yield::Cut("OBJECT", 20)];

    fn name(&self) -> String {
        self.line.seq.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        let line = &self.line;
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let outcome = match line.times {
            Some(times) => format!("{} ({times} times)", line.outcome),
            None => line.outcome.clone(),
        };
        vec![
            Cell::new(line.seq),
            Cell::new(out.time(line.at)),
            Cell::new(&line.principal),
            Cell::new(or_dash(&line.address)),
            Cell::new(&line.action),
            Cell::new(or_dash(&line.object)),
            Cell::new(or_dash(&line.before)),
            Cell::new(outcome),
        ]
    }
}
