//! What servers and their figures look like.

use comfy_table::Cell;
use punctual_api::{ServerView, Stats};
use punctual_core::Span;

use crate::output::{Output, Row};
use crate::table::Yield;
use crate::zone::short;

impl Row for ServerView {
    const HEADER: &'static [&'static str] = &[
        "", "ADDRESS", "STATE", "ROLES", "SHARDS", "WORKERS", "RUNNING", "LAG", "SKEW", "SEEN", "STARTED", "DUTIES",
        "VERSION", "ID",
    ];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Drop("VERSION"),
        Yield::Drop("ROLES"),
        Yield::Drop("ID"),
        Yield::Drop("SKEW"),
        Yield::Cut("DUTIES", 9),
        Yield::Drop("STARTED"),
        Yield::Drop("DUTIES"),
        Yield::Drop("LAG"),
        Yield::Drop("WORKERS"),
        Yield::Drop("SEEN"),
        Yield::Cut("ADDRESS", 12),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        let duties: Vec<&str> = self.duties.iter().map(|duty| duty.name.as_str()).collect();
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        vec![
            Cell::new(if self.answered { "*" } else { "" }),
            Cell::new(&self.address),
            Cell::new(&self.state),
            Cell::new(self.roles.join(",")),
            Cell::new(self.shards.len()),
            Cell::new(self.workers),
            Cell::new(self.running),
            Cell::new(short(Span::from_micros(self.lag_us))),
            Cell::new(self.skew_us.map_or_else(|| "-".to_owned(), skew)),
            Cell::new(out.relative(self.last_seen_at)),
            Cell::new(out.time(self.started_at)),
            Cell::new(or_none(duties.join(","))),
            Cell::new(&self.version),
            Cell::new(self.id),
        ]
    }
}

/// How far a clock is ahead (+) or behind.
fn skew(micros: i64) -> String {
    let sign = if micros < 0 { '-' } else { '+' };
    format!("{sign}{}", short(Span::from_micros(micros.saturating_abs())))
}

/// One line for each figure, in units that people read.
pub(crate) fn figures(stats: &Stats) -> anyhow::Result<String> {
    let serde_json::Value::Object(figures) = serde_json::to_value(stats)? else {
        anyhow::bail!("figures are an object");
    };
    let mut text = String::new();
    for (name, figure) in figures {
        let (name, figure) = match name.as_str() {
            "cpu_us" => ("cpu time", short(Span::from_micros(i64::try_from(stats.cpu_us)?))),
            "rss_bytes" => ("memory", format!("{:.1} MiB", stats.rss_bytes as f64 / f64::from(1 << 20))),
            name => (name, figure.to_string()),
        };
        text += &format!("  {name:<12} {figure}\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_memory_are_shown_in_units() {
        let stats = Stats { cpu_us: 83_250_000, rss_bytes: 35 << 20, ..Stats::default() };
        let text = figures(&stats).unwrap();
        assert!(text.contains("  cpu time     1m23s\n") && text.contains("  memory       35.0 MiB\n"), "{text}");
    }
}
