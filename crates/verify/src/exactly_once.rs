//! `verify exactly-once`: one server, ten workers, ten thousand jobs that were or will be
//! due; each runs exactly once.

use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt, stream};
use punctual_core::Timestamp;
use punctual_core::random::SplitMix64;

use crate::check::late_by_due;
use crate::clients::{Caller, Order, counted, define_tasks, dump, wait_until_all_ended};
use crate::clock::Moment;
use crate::cluster::{Cluster, DatabaseKind, Programs, Shape};
use crate::findings::{Findings, summary};
use crate::history::{Answer, RunFolder};
use crate::witness::Work;

#[derive(Debug, Clone, Args)]
pub struct ExactlyOnce {
    #[arg(long, default_value_t = 10_000)]
    pub jobs: u64,
    #[arg(long, default_value_t = 10)]
    pub workers: usize,
    /// Jobs were due up to so many seconds ago, and will be up to so many from now
    #[arg(long, default_value_t = 30)]
    pub seconds: u64,
    /// Half an hour each way, in real time
    #[arg(long)]
    pub full: bool,
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// With PostgreSQL instead of the embedded database
    #[arg(long)]
    pub postgres: bool,
}

const FULL_SECONDS: u64 = 30 * 60;
const CALLS_AT_ONCE: usize = 32;
/// For the last jobs to end after they are due.
const END_WITHIN: Duration = Duration::from_secs(60);

impl ExactlyOnce {
    fn seconds(&self) -> u64 {
        if self.full { FULL_SECONDS } else { self.seconds }
    }

    /// One round in `folder`. An error is a fault of the machine, not of the system.
    pub async fn round(&self, round: u32, folder: &RunFolder) -> anyhow::Result<Findings> {
        let database = if self.postgres { DatabaseKind::Postgres } else { DatabaseKind::Embedded };
        let mut shape = Shape::new(1, self.workers, database);
        shape.slots = 50;
        let cluster = Cluster::start(shape, folder.clone(), Programs::find()?).await?;
        let journal = folder.client_journal()?;
        define_tasks(&cluster.servers[0].client()?, &journal).await?;
        let caller = Caller::new(cluster.clients()?, journal);

        let begun = Moment::now();
        let orders = self.orders(round, begun);
        let asked = stream::iter(&orders).map(|order| caller.submit(0, order)).buffer_unordered(CALLS_AT_ONCE);
        let accepted = asked.filter(|answer| std::future::ready(matches!(answer, Answer::Ok { .. }))).count().await;
        eprintln!(
            "  {accepted} of {} jobs accepted in {:.1} s",
            orders.len(),
            Moment::now().ms_since(begun) as f64 / 1e3
        );
        let limit = Duration::from_secs(self.seconds()) + END_WITHIN;
        wait_until_all_ended(&caller.clients, limit).await;
        let jobs = dump(&caller.clients[0]).await?;
        folder.write_jobs(&jobs, &[])?;
        folder.write_counted(&counted(&caller.clients).await?)?;
        cluster.stop().await?;

        let history = folder.read()?;
        let mut findings = Findings::of(&history);
        let succeeded = jobs.iter().filter(|job| job.state == "succeeded" && job.attempts.len() == 1).count();
        findings.expect(accepted == orders.len(), || format!("only {accepted} jobs were accepted"));
        findings
            .expect(succeeded == orders.len(), || format!("{succeeded} of {} jobs ran once and well", orders.len()));
        // Those that were due before they were submitted are all due at once.
        let (late, at_once) = late_by_due(&history, |due_us| due_us > begun.real_us + 2_000_000);
        findings.expect(late.early() + at_once.early() == 0, || "some began early".to_owned());
        eprintln!("  {succeeded} ran exactly once; lateness of those due later: {}", summary(&late));
        eprintln!("  of those that were due already, all at once: {}", summary(&at_once));
        Ok(findings)
    }

    fn orders(&self, round: u32, begun: Moment) -> Vec<Order> {
        let mut chance = SplitMix64::new(u64::from(round));
        let reach_us = self.seconds() * 1_000_000;
        let order = |number| {
            let due_us = begun.real_us - reach_us as i64 + chance.below(2 * reach_us) as i64;
            Order {
                key: format!("{round}-{number}"),
                task: "exactly-once",
                run_at: Some(Timestamp::saturating_from_micros(due_us)),
                work: Work { sleep_ms: chance.below(20), fail_first: 0 },
            }
        };
        (0..self.jobs).map(order).collect()
    }
}
