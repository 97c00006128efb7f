//! `verify leavers`: clients that disconnect before their answer, beside as many that stay. No job of a client that left
//! starts later than those of clients that stayed.

use clap::Args;

use crate::check::late_by_call;
use crate::clients::{Caller, LEFT, STAYED, define_tasks, dump, half_leave, wait_until_all_ended};
use crate::cluster::{Cluster, DatabaseKind, PATIENCE, Programs, Shape};
use crate::findings::{Findings, summary};
use crate::history::{History, RunFolder};

#[derive(Debug, Clone, Args)]
pub struct Leavers {
    /// How many clients leave, and how many stay
    #[arg(long, default_value_t = 400)]
    pub clients: usize,
    /// Two servers with PostgreSQL instead of one with the embedded database
    #[arg(long)]
    pub postgres: bool,
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
}

/// A job that its owner is not told of is found by a sweep, up to 10 s later. One that it is told of starts as soon as
/// any other, give or take what a busy machine does.
const SLACK_MS: f64 = 100.0;

impl Leavers {
    /// One round in `folder`. An error is a fault of the machine, not of the system.
    pub async fn round(&self, folder: &RunFolder) -> anyhow::Result<Findings> {
        let (servers, database) = match self.postgres {
            true => (2, DatabaseKind::Postgres),
            false => (1, DatabaseKind::Embedded),
        };
        let cluster = Cluster::start(Shape::new(servers, 2, database), folder.clone(), Programs::find()?).await?;
        let journal = folder.client_journal()?;
        let clients = cluster.clients()?;
        define_tasks(&clients[0], &journal).await?;
        half_leave(&Caller::new(clients.clone(), journal), &cluster.advertised()?, self.clients).await?;
        wait_until_all_ended(&clients, PATIENCE).await;
        folder.write_jobs(&dump(&clients[0]).await?, &[])?;
        cluster.stop().await?;
        let history = folder.read()?;
        let mut findings = Findings::of(&history);
        let compared = compare(&history);
        eprintln!("  {}", compared.text);
        findings.faults.extend(compared.wrong);
        Ok(findings)
    }
}

pub(crate) struct Comparison {
    pub(crate) text: String,
    pub(crate) wrong: Option<String>,
}

/// From when a request was sent until its job began, by what the clients and the witnesses saw.
pub(crate) fn compare(history: &History) -> Comparison {
    let [left, stayed] = [LEFT, STAYED].map(|key| late_by_call(history, key));
    let text =
        format!("began after the request of a client that left: {}; that stayed: {}", summary(&left), summary(&stayed));
    let limit_ms = stayed.at(1.0) + SLACK_MS;
    // Who leaves at once may have asked for nothing.
    let wrong = if left.count() < stayed.count() / 2 {
        Some(format!("only {} jobs of clients that left are there", left.count()))
    } else {
        (left.at(1.0) > limit_ms).then(|| format!("{text}; {limit_ms:.1} ms is the limit"))
    };
    Comparison { text, wrong }
}
