//! What namespaces look like in a table and in detail.

use comfy_table::Cell;
use punctual_api::NamespaceView;

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
    out.line(&format!("  created      {} by {}", out.zone.show(namespace.created.at), namespace.created.who))?;
    out.line(&format!("  changed      {} by {}", out.zone.show(namespace.changed.at), namespace.changed.who))?;
    out.line(&format!("  your rights  {}", namespace.rights.join(", ")))
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
            Cell::new(out.time(self.created.at)),
            Cell::new(super::one_line(&self.created.who)),
        ]
    }
}
