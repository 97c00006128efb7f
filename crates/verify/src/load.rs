//! `verify load`: three servers, five workers, sixty thousand jobs in ten minutes, of which
//! ten thousand are due in single minutes. Each is done once, and soon after it is due.

use std::ops::Range;
use std::time::Duration;

use clap::Args;
use comfy_table::Table;
use futures_util::{StreamExt, TryStreamExt, stream};
use punctual_core::Timestamp;
use punctual_core::random::SplitMix64;

use crate::check::{Lateness, late_by_due};
use crate::clients::{Caller, Order, counted, define_tasks, dump, wait_until_all_ended};
use crate::clock::Moment;
use crate::cluster::{Cluster, DatabaseKind, Programs, Shape};
use crate::findings::Findings;
use crate::history::{FinalJob, History, RunFolder};
use crate::witness::Work;

#[derive(Debug, Clone, Args)]
pub struct Load {
    #[arg(long, default_value_t = 60_000)]
    pub jobs: u64,
    #[arg(long, default_value_t = 3)]
    pub servers: usize,
    #[arg(long, default_value_t = 5)]
    pub workers: usize,
    /// The time in which they are due
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Ten minutes, in real time
    #[arg(long)]
    pub full: bool,
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
    /// With the embedded database, which has one server
    #[arg(long)]
    pub embedded: bool,
    /// The p99 of the lateness within spikes, in milliseconds, at most
    #[arg(long, default_value_t = 100.0)]
    pub spike_p99_ms: f64,
    /// And outside of them
    #[arg(long, default_value_t = 10.0)]
    pub p99_ms: f64,
}

const FULL_SECONDS: u64 = 600;
/// The time is divided into so many parts; some of them are spikes.
const PARTS: u64 = 10;
const SPIKES: [u64; 2] = [3, 7];
/// Of twelve jobs, a spike has two and another part one.
const SHARES: u64 = PARTS + SPIKES.len() as u64;
const BULK_LEN: usize = 1000;
const BULKS_AT_ONCE: usize = 3;
/// From the first submission to the first job that is due: for each thousand jobs, and at least.
const LEAD_MS_PER_1000: u64 = 250;
const LEAD_MS_MIN: u64 = 3000;
/// Of a hundred jobs, so many fail once.
const FAIL_PERCENT: u64 = 5;
const END_WITHIN: Duration = Duration::from_secs(120);

impl Load {
    fn seconds(&self) -> u64 {
        if self.full { FULL_SECONDS } else { self.seconds }
    }

    pub async fn round(&self, round: u32, folder: &RunFolder) -> anyhow::Result<Findings> {
        let database = if self.embedded { DatabaseKind::Embedded } else { DatabaseKind::Postgres };
        let servers = if self.embedded { 1 } else { self.servers };
        let mut shape = Shape::new(servers, self.workers, database);
        shape.slots = 400;
        let cluster = Cluster::start(shape, folder.clone(), Programs::find()?).await?;
        let journal = folder.client_journal()?;
        define_tasks(&cluster.servers[0].client()?, &journal).await?;
        let caller = Caller::new(cluster.clients()?, journal);

        let submitting = Moment::now();
        let lead_ms = LEAD_MS_MIN.max(self.jobs / 1000 * LEAD_MS_PER_1000);
        let first_us = submitting.plus_ms(lead_ms as i64).real_us;
        let orders = self.orders(round, first_us);
        let bulks = stream::iter(orders.chunks(BULK_LEN).enumerate());
        bulks
            .map(|(place, bulk)| caller.submit_bulk(place, bulk))
            .buffer_unordered(BULKS_AT_ONCE)
            .try_collect::<()>()
            .await?;
        let took_ms = Moment::now().ms_since(submitting);
        eprintln!("  {} jobs accepted in {:.1} s", orders.len(), took_ms as f64 / 1e3);
        let mut findings = Findings::default();
        findings
            .expect(took_ms < lead_ms as i64, || "jobs were submitted after they were due; give more time".to_owned());
        self.wait_for_the_last(&caller, first_us).await;

        let jobs = dump(&caller.clients[0]).await?;
        folder.write_jobs(&jobs, &[])?;
        folder.write_counted(&counted(&caller.clients).await?)?;
        cluster.stop().await?;
        let history = folder.read()?;
        findings.faults.extend(Findings::of(&history).faults);
        self.judge(&jobs, &history, first_us, &mut findings);
        Ok(findings)
    }

    async fn wait_for_the_last(&self, caller: &Caller, first_us: i64) {
        // Asking all the time would be a load of its own.
        let last_us = first_us + self.seconds() as i64 * 1_000_000;
        let wait_us = (last_us - Moment::now().real_us).max(0);
        tokio::time::sleep(Duration::from_micros(wait_us.unsigned_abs())).await;
        wait_until_all_ended(&caller.clients, END_WITHIN).await;
    }

    fn orders(&self, round: u32, first_us: i64) -> Vec<Order> {
        let mut chance = SplitMix64::new(u64::from(round));
        let part_us = self.seconds() * 1_000_000 / PARTS;
        let mut orders = Vec::new();
        for part in 0..PARTS {
            let share = if SPIKES.contains(&part) { 2 } else { 1 };
            for _ in 0..self.jobs * share / SHARES {
                let due_us = first_us + (part * part_us + chance.below(part_us)) as i64;
                let fail_first = u32::from(chance.percent(FAIL_PERCENT));
                orders.push(Order {
                    key: format!("{round}-{}", orders.len()),
                    task: "at-least-once",
                    run_at: Some(Timestamp::saturating_from_micros(due_us)),
                    work: Work { sleep_ms: chance.below(20), fail_first },
                });
            }
        }
        orders
    }

    fn spikes(&self, first_us: i64) -> Vec<Range<i64>> {
        let part_us = (self.seconds() * 1_000_000 / PARTS) as i64;
        SPIKES.iter().map(|part| first_us + *part as i64 * part_us..first_us + (*part as i64 + 1) * part_us).collect()
    }

    fn judge(&self, jobs: &[FinalJob], history: &History, first_us: i64, findings: &mut Findings) {
        let succeeded = jobs.iter().filter(|job| job.state == "succeeded").count();
        let retried = jobs.iter().filter(|job| job.attempts.len() > 1).count();
        findings.expect(succeeded == jobs.len(), || format!("{} jobs did not succeed", jobs.len() - succeeded));
        let spikes = self.spikes(first_us);
        let (inside, outside) = late_by_due(history, |due_us| spikes.iter().any(|spike| spike.contains(&due_us)));
        let per_s = |lateness: &Lateness, parts: u64| lateness.count() as u64 * PARTS / (parts * self.seconds()).max(1);
        let spike_parts = SPIKES.len() as u64;
        eprintln!("  {succeeded} of {} jobs succeeded, {retried} of them after a retry", jobs.len());
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header([
            "  begin after due",
            "jobs",
            "per s",
            "early",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "p99.9 ms",
            "max ms",
        ]);
        let rows = [("  in spikes", &inside, spike_parts), ("  outside", &outside, PARTS - spike_parts)];
        for (name, lateness, parts) in rows {
            let mut row = vec![name.to_owned(), lateness.count().to_string(), per_s(lateness, parts).to_string()];
            row.push(lateness.early().to_string());
            row.extend([0.5, 0.9, 0.99, 0.999, 1.0].map(|part| format!("{:.1}", lateness.at(part))));
            table.add_row(row);
        }
        eprintln!("{table}");
        for (name, lateness, limit_ms) in
            [("in spikes", &inside, self.spike_p99_ms), ("outside", &outside, self.p99_ms)]
        {
            let p99 = lateness.at(0.99);
            findings
                .expect(p99 <= limit_ms, || format!("p99 of the lateness {name} is {p99:.1} ms, not {limit_ms} ms"));
            findings.expect(lateness.early() == 0, || format!("{} jobs {name} began early", lateness.early()));
        }
    }
}
