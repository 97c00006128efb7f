//! What namespaces look like in a table and in detail.

use comfy_table::Cell;
use punctual_api::{DoneBy, NamespaceView, Quotas};
use punctual_core::Timestamp;
use punctual_core::size::ByteSize;

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
    out.line(&format!("  your rights  {}", namespace.rights.join(", ")))?;
    quotas(namespace, out)
}

/// What it uses, beside what it may.
fn quotas(namespace: &NamespaceView, out: &Output) -> anyhow::Result<()> {
    let Quotas {
        stored_jobs,
        running_attempts,
        submissions_per_second,
        schedules,
        artifact_bytes,
        log_bytes,
        retention,
    } = namespace.quotas;
    let usage = namespace.usage.unwrap_or_default();
    let count = |figure: u64| figure.to_string();
    let bytes = |figure: u64| ByteSize::bytes(figure).to_string();
    let rows = [
        ("stored_jobs", Some(count(usage.stored_jobs)), stored_jobs.map(count)),
        ("running_attempts", usage.running_attempts.map(count), running_attempts.map(count)),
        ("submissions_per_second", None, submissions_per_second.map(count)),
        ("schedules", Some(count(usage.schedules)), schedules.map(count)),
        ("artifact_bytes", Some(bytes(usage.artifact_bytes)), artifact_bytes.map(bytes)),
        ("log_bytes", usage.log_bytes.map(bytes), log_bytes.map(bytes)),
        ("retention", None, retention.map(|retention| retention.to_string())),
    ];
    let has_usage = namespace.usage.is_some();
    let shown = rows.into_iter().filter_map(|(name, used, quota)| {
        let used = used.filter(|_| has_usage);
        let text = match (used, quota) {
            (Some(used), Some(quota)) => format!("{used} of {quota}"),
            (Some(used), None) => format!("{used}, no quota"),
            (None, Some(quota)) => quota,
            (None, None) => return None,
        };
        Some((name, text))
    });
    let mut is_first = true;
    for (name, text) in shown {
        let heading = if is_first { "quotas" } else { "" };
        out.line(&format!("  {heading:<12} {name:<22} {text}"))?;
        is_first = false;
    }
    Ok(())
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
