//! How long submissions take, and how late jobs start.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use punctual_client::Client;
use punctual_core::{JobId, Span, Timestamp};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::Memory;
use crate::check::Lateness;
use crate::clients::Order;
use crate::clock::Moment;
use crate::cluster::eventually;
use crate::witness::{Seen, WitnessLine, Work};

pub(super) const TASK: &str = "at-least-once";
const PER_SECOND: u64 = 20;
/// Jobs are due so much after they are submitted.
const AHEAD: Span = Span::from_millis(500);
/// The last of them has started by then.
const STARTED_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct Figures {
    pub(super) submits: Lateness,
    pub(super) starts: Lateness,
    pub(super) refused: usize,
}

impl Figures {
    pub(super) fn row(&self, name: &str, memory: Option<&Memory>) -> Vec<String> {
        let mut row = vec![name.to_owned()];
        for figures in [&self.submits, &self.starts] {
            row.extend([0.5, 0.9, 0.99].map(|part| format!("{:.1}", figures.at(part))));
        }
        let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
        match memory {
            None => row.extend(["", "", ""].map(str::to_owned)),
            Some(memory) => {
                let after = format!("{} in {:.0} s", mib(memory.after), memory.took.as_secs_f64());
                row.extend([mib(memory.before), mib(memory.most), after]);
            }
        }
        row
    }
}

/// Submits jobs at a steady pace and waits until all of them have started.
pub(super) async fn measure(client: &Client, seconds: u64, witness: &Path) -> anyhow::Result<Figures> {
    let mut ticks = tokio::time::interval(Duration::from_millis(1000 / PER_SECOND));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut calls = JoinSet::new();
    for _ in 0..seconds * PER_SECOND {
        ticks.tick().await;
        let client = client.clone();
        calls.spawn(async move {
            let due = Timestamp::saturating_from_micros(Moment::now().real_us) + AHEAD;
            let order = Order { key: "floods".to_owned(), task: TASK, run_at: Some(due), work: Work::default() };
            let begun = Instant::now();
            let submitted = client.submit(&order.request()).await;
            submitted.map(|answer| (answer.id, due, begun.elapsed()))
        });
    }
    let (mut submits, mut due, mut refused) = (Vec::new(), HashMap::new(), 0);
    while let Some(call) = calls.join_next().await {
        match call? {
            Ok((id, at, took)) => {
                submits.push(took.as_micros() as i64);
                due.insert(id, at);
            }
            Err(_) => refused += 1,
        }
    }
    let mut starts = HashMap::new();
    eventually("every job to start", STARTED_WITHIN, async || {
        starts = late_starts(witness, &due);
        starts.len() == due.len()
    })
    .await?;
    Ok(Figures { submits: Lateness::new(submits), starts: Lateness::new(starts.into_values().collect()), refused })
}

/// By how many microseconds each of these jobs began late.
fn late_starts(witness: &Path, due: &HashMap<JobId, Timestamp>) -> HashMap<JobId, i64> {
    let text = std::fs::read_to_string(witness).unwrap_or_default();
    let begins = text.lines().filter_map(WitnessLine::parse).filter(|line| line.seen == Seen::Begin);
    let late = begins.filter_map(|line| {
        let id: JobId = line.job.parse().ok()?;
        Some((id, line.at.real_us - due.get(&id)?.as_micros()))
    });
    late.collect()
}
