//! What a secret looks like in a table.

use comfy_table::Cell;
use punctual_api::SecretView;

use crate::output::{Output, Row};
use crate::table::Yield;

impl Row for SecretView {
    const HEADER: &'static [&'static str] = &["NAME", "REVISION", "CHANGED", "BY", "TASKS"];
    const YIELDS: &'static [Yield] =
        &[Yield::ShortTimes, Yield::Drop("REVISION"), Yield::Drop("BY"), Yield::Cut("NAME", 20)];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(self.revision),
            Cell::new(out.time(self.changed.at)),
            Cell::new(&self.changed.who),
            Cell::new(self.used_by_tasks.map_or_else(|| "-".to_owned(), |count| count.to_string())),
        ]
    }
}
