//! What namespaces look like in a table and in detail.

use comfy_table::Cell;
use punctual_api::{DoneBy, NamespaceView};
use punctual_core::Timestamp;

use crate::output::{Format, Output, Row};
use crate::table::Yield;

pub(crate) fn namespace(namespace: &NamespaceView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(namespace),
        Format::Name => return out.line(&namespace.name),
        Format::Table => {}
    }
    out.line(&namespace.name)?;
    if let Some(description) = &namespace.description {
        out.line(&format!("  description  {}", super::one_line(description)))?;
    }
    out.line(&format!("  revision     {}", namespace.revision))?;
    for (what, done) in [("created", &namespace.created), ("changed", &namespace.changed)] {
        match has_time(done) {
            true => out.line(&format!("  {what}      {} by {}", out.zone.show(done.at), done.who))?,
            false => out.line(&format!("  {what}      with the database"))?,
        }
    }
    out.line(&format!("  your rights  {}", namespace.rights.join(", ")))
}

/// The namespace default comes with the database, and has no time of its own.
fn has_time(done: &DoneBy) -> bool {
    done.at != Timestamp::EPOCH
}

impl Row for NamespaceView {
    const HEADER: &'static [&'static str] = &["NAME", "DESCRIPTION", "CREATED", "CREATED BY"];
    const YIELDS: &'static [Yield] =
        &[Yield::ShortTimes, Yield::Drop("CREATED BY"), Yield::Cut("DESCRIPTION", 30), Yield::Drop("CREATED")];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(self.description.as_deref().map_or_else(|| "-".to_owned(), super::one_line)),
            Cell::new(if has_time(&self.created) { out.time(self.created.at) } else { "-".to_owned() }),
            Cell::new(super::one_line(&self.created.who)),
        ]
    }
}
