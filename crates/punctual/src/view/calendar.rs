//! What a calendar looks like in a table and in detail.

use comfy_table::Cell;
use punctual_api::{CalendarSummary, CalendarView};

use crate::output::{Format, Output, Row};
use crate::table::Yield;

pub(crate) fn calendar(calendar: &CalendarView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(calendar),
        Format::Name => return out.line(&calendar.name),
        Format::Table => {}
    }
    let CalendarView { name, dates, revision, changed, file: _ } = calendar;
    let (at, who) = (out.zone.show(changed.at), &changed.who);
    out.line(&format!("{name}  revision {revision}, changed {at} by {who}"))?;
    dates.iter().try_for_each(|date| out.line(&format!("  {date}")))
}

impl Row for CalendarSummary {
    const HEADER: &'static [&'static str] = &["NAME", "DATES", "FIRST", "LAST", "REVISION", "CHANGED"];
    const YIELDS: &'static [Yield] =
        &[Yield::ShortTimes, Yield::Drop("REVISION"), Yield::Drop("CHANGED"), Yield::Cut("NAME", 20)];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(self.date_count),
            Cell::new(self.first.as_deref().unwrap_or("-")),
            Cell::new(self.last.as_deref().unwrap_or("-")),
            Cell::new(self.revision),
            Cell::new(out.time(self.changed.at)),
        ]
    }
}
