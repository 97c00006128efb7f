//! What a workload measured.

use std::collections::BTreeMap;

use comfy_table::Cell;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::output::{Output, Row};
use crate::table::Yield;

/// One line of `-o json`. Absent figures are null: they do not apply, or could not be read.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) workload: String,
    /// The store and its durability, as the server names them.
    pub(crate) store: String,
    pub(crate) jobs: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p95_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) p999_ms: Option<f64>,
    pub(crate) max_ms: Option<f64>,
    /// Jobs that started before they were due. Must be zero.
    pub(crate) early: Option<u64>,
    /// CPU time of server and worker together; of the server alone with `--url`.
    pub(crate) cpu_us_per_job: Option<f64>,
    /// Commits of starts and outcomes; submissions are committed in groups that are not counted.
    pub(crate) commits_per_job: Option<f64>,
    /// Memory of the server.
    pub(crate) rss_mib: Option<f64>,
    /// Time that the machine's host took away. Above 2, measure again.
    pub(crate) steal_percent: Option<f64>,
    /// What is peculiar to this workload.
    #[serde(flatten)]
    pub(crate) more: BTreeMap<&'static str, f64>,
}

impl Figure {
    /// Adds a figure that only this workload has.
    pub(crate) fn with(mut self, name: &'static str, value: f64) -> Self {
        self.more.insert(name, value);
        self
    }

    pub(crate) fn with_latencies(mut self, latencies: &Latencies) -> Self {
        self.p50_ms = Some(latencies.quantile_ms(0.5));
        self.p95_ms = Some(latencies.quantile_ms(0.95));
        self.p99_ms = Some(latencies.quantile_ms(0.99));
        self.p999_ms = Some(latencies.quantile_ms(0.999));
        self.max_ms = Some(latencies.quantile_ms(1.0));
        self
    }
}

fn shown(value: Option<f64>, digits: usize) -> Cell {
    Cell::new(value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}")))
}

impl Row for Figure {
    const HEADER: &'static [&'static str] = &[
        "WORKLOAD",
        "JOBS",
        "SECONDS",
        "PER SECOND",
        "P50 MS",
        "P99 MS",
        "MAX MS",
        "EARLY",
        "CPU US/JOB",
        "RSS MIB",
        "STORE",
    ];
    const YIELDS: &'static [Yield] = &[
        Yield::Drop("STORE"),
        Yield::Drop("RSS MIB"),
        Yield::Drop("JOBS"),
        Yield::Drop("CPU US/JOB"),
        Yield::Drop("SECONDS"),
        Yield::Drop("EARLY"),
    ];

    fn name(&self) -> String {
        self.workload.clone()
    }

    fn cells(&self, _: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.workload),
            Cell::new(self.jobs),
            shown(Some(self.seconds), 2),
            shown(self.per_second, 0),
            shown(self.p50_ms, 2),
            shown(self.p99_ms, 2),
            shown(self.max_ms, 2),
            shown(self.early.map(|early| early as f64), 0),
            shown(self.cpu_us_per_job, 1),
            shown(self.rss_mib, 0),
            Cell::new(&self.store),
        ]
    }
}

/// The whole distribution, to three digits.
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

/// Longer than any workload may take.
const LONGEST_US: u64 = 3_600_000_000;

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_US, 3).expect("the bounds are valid"))
    }

    pub(crate) fn record_us(&mut self, micros: u64) {
        self.0.saturating_record(micros);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_in_json_has_every_promised_field() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|micros| latencies.record_us(micros));
        let figure = Figure {
            workload: "drain".to_owned(),
            store: "sqlite, synchronous=full".to_owned(),
            jobs: 1000,
            seconds: 0.5,
            per_second: Some(2000.0),
            p50_ms: None,
            p95_ms: None,
            p99_ms: None,
            p999_ms: None,
            max_ms: None,
            early: None,
            cpu_us_per_job: None,
            commits_per_job: None,
            rss_mib: None,
            steal_percent: None,
            more: BTreeMap::new(),
        };
        let json = serde_json::to_string_pretty(&figure.with_latencies(&latencies).with("clients", 16.0)).unwrap();
        insta::assert_snapshot!(json);
    }
}
