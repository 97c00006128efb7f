//! What is printed: marks, at which the caller reads its counters, and one line of JSON for
//! each figure.

use std::io::Write;

use serde_json::{Map, Value, json};

use crate::args::Options;

/// Prints a mark and waits until the caller has read its counters.
pub(crate) fn mark(options: &Options, name: &str) {
    println!("# {name}");
    let _ = std::io::stdout().flush();
    if options.handshake {
        let _ = std::io::stdin().read_line(&mut String::new());
    }
}

pub(crate) struct Figure(Map<String, Value>);

impl Figure {
    pub(crate) fn new(workload: &str, settings: &str, jobs: u64, seconds: f64) -> Self {
        let fields = json!({ "workload": workload, "settings": settings, "jobs": jobs, "seconds": seconds });
        let Value::Object(fields) = fields else { unreachable!("it was just written as an object") };
        Self(fields)
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn with_rate(self, jobs: u64, seconds: f64) -> Self {
        self.with("per_second", jobs as f64 / seconds.max(1e-6))
    }

    pub(crate) fn with_audit(self, (lost, twice): (u64, u64)) -> Self {
        self.with("lost", lost).with("twice", twice)
    }

    /// The distribution of latencies in microseconds.
    pub(crate) fn with_latencies(self, mut us: Vec<u64>) -> Self {
        us.sort_unstable();
        let at = |quantile: f64| {
            let place = (quantile * us.len() as f64).ceil() as usize;
            us.get(place.saturating_sub(1)).map_or(Value::Null, |us| json!(*us as f64 / 1000.0))
        };
        let quantiles = [("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("p999_ms", 0.999), ("max_ms", 1.0)];
        let values = quantiles.map(|(name, quantile)| (name, at(quantile)));
        values.into_iter().fold(self, |figure, (name, value)| figure.with(name, value))
    }

    pub(crate) fn print(self) {
        println!("{}", Value::Object(self.0));
        let _ = std::io::stdout().flush();
    }
}
