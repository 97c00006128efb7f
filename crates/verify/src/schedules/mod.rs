//! `verify schedules`: hundreds of schedules that fire every few seconds, while servers are killed, stopped and cut off,
//! and people change their minds. Afterwards each planned time has its one verdict, and each findings can be true.
//!
//! All schedules end at a moment that is known from the start, so that what is read afterwards does not change.

mod check;
mod chosen;
mod coverage;
pub(crate) mod definition;
mod nemesis;
pub(crate) mod read;
pub(crate) mod record;
mod users;

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use punctual_api::{IfExists, ScheduleBulkRequest};
use punctual_client::Client;
use punctual_core::random::SplitMix64;
use tokio::time::Instant;

use crate::clients::{define_tasks, wait_until_all_ended};
use crate::clock::Moment;
use crate::cluster::{Cluster, DatabaseKind, Programs, Server, Shape};
use crate::findings::Findings;
use crate::history::RunFolder;
use nemesis::Nemesis;
use record::{Record, ScheduleRecord};
use users::{Done, Subject, Users};

#[derive(Debug, Clone, Args)]
pub struct Schedules {
    #[arg(long, default_value_t = 500)]
    pub schedules: usize,
    #[arg(long, default_value_t = 3)]
    pub servers: usize,
    #[arg(long, default_value_t = 4)]
    pub workers: usize,
    /// How long things are broken
    #[arg(long, default_value_t = 45)]
    pub seconds: u64,
    /// Ten minutes; everything that can be hit must have been
    #[arg(long)]
    pub full: bool,
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

const FULL_SECONDS: u64 = 600;
const TASK: &str = "at-least-once";
/// Servers notice soon that one is gone, and still later than times are missed.
const LEASE: Duration = Duration::from_secs(3);
const MISSED_AFTER: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_secs(5);
/// From the last fault to the end of all schedules; in part of it nothing may be missed.
const TAIL: Duration = Duration::from_secs(20);
/// After a fault, until everything is itself again: leases end, shards are shared out anew, what was missed is decided.
const RECOVERY_MS: i64 = 12_000;
/// For the last runs and replays.
const END_WITHIN: Duration = Duration::from_secs(120);
const PEOPLE: usize = 4;
const FILE: &str = "schedules.json";

impl Schedules {
    fn seconds(&self) -> u64 {
        if self.full { FULL_SECONDS } else { self.seconds }
    }

    /// One round in `folder`. An error is a fault of the machine, not of the system.
    pub async fn round(&self, round: u32, folder: &RunFolder) -> anyhow::Result<Findings> {
        let mut shape = Shape::new(self.servers, self.workers, DatabaseKind::Postgres);
        shape.proxied = true;
        shape.slots = 400;
        shape.settings = settings();
        let mut cluster = Cluster::start(shape, folder.clone(), Programs::find()?).await?;
        define_tasks(&cluster.servers[0].client()?, &folder.client_journal()?).await?;
        let clients = cluster.servers.iter().map(Server::client).collect::<anyhow::Result<Vec<_>>>()?;

        let seed = self.seed.wrapping_add(u64::from(round) - 1);
        let lasts = WARM_UP + Duration::from_secs(self.seconds()) + TAIL;
        let end_us = Moment::now().plus_ms(lasts.as_millis() as i64).real_us;
        let until = Instant::now() + WARM_UP + Duration::from_secs(self.seconds());
        let subjects = self.create(&clients[0], end_us, seed).await?;
        let names: Vec<String> = subjects.iter().map(|subject| subject.name.clone()).collect();
        eprintln!("  {} schedules made; seed {seed}", names.len());
        let people = Users::start(subjects, PEOPLE, &clients, TASK, seed);
        tokio::time::sleep(WARM_UP).await;
        let journal = folder.nemesis_journal()?;
        let chance = SplitMix64::new(seed);
        let mut nemesis = Nemesis { lease: LEASE, missed_after: MISSED_AFTER, chance, journal, faults: Vec::new() };
        nemesis.work(&mut cluster, until).await?;
        let done = people.stop().await?;

        let left_us = (end_us - Moment::now().real_us).max(0);
        tokio::time::sleep(Duration::from_micros(left_us.unsigned_abs()) + MISSED_AFTER).await;
        wait_until_all_ended(&clients, END_WITHIN).await;
        read::wait_until_none_is_queued(&clients[0], &names, END_WITHIN).await;
        let tally = done.tally;
        let mut record = gather(&clients, done).await?;
        record.broken =
            nemesis.faults.iter().map(|(_, from, to)| (from.real_us, to.plus_ms(RECOVERY_MS).real_us)).collect();
        record.witness = folder.witness_lines()?;
        keep(&record, folder)?;
        let stopped = cluster.stop().await;

        let mut findings = judge(&record);
        if let Err(error) = stopped {
            findings.add(format!("{error:#}"));
        }
        let coverage = coverage::coverage(&record, &nemesis.faults, tally);
        eprintln!("{}", coverage::table(&coverage));
        let never = coverage::never_hit(&coverage);
        findings.expect(!self.full || never.is_empty(), || format!("never hit: {}", never.join(", ")));
        Ok(findings)
    }

    async fn create(&self, client: &Client, end_us: i64, seed: u64) -> anyhow::Result<Vec<Subject>> {
        let mut chance = SplitMix64::new(seed);
        let subjects: Vec<_> = (0..self.schedules)
            .map(|number| {
                let policy = chosen::policy(number, &mut chance);
                let definition = chosen::definition(&policy, end_us, &mut chance);
                Subject::new(format!("schedule-{number:04}"), policy, definition)
            })
            .collect();
        let requests =
            subjects.iter().map(|subject| subject.definitions[0].request(&subject.name, TASK, subject.policy));
        let request = ScheduleBulkRequest { schedules: requests.collect(), if_exists: IfExists::Fail };
        let answer = client.create_schedules(&request).await.context("cannot make the schedules")?;
        anyhow::ensure!(answer.created == self.schedules, "only {} schedules were made", answer.created);
        Ok(subjects)
    }
}

/// Judges a run again that was kept; `None` if it was not one of schedules.
pub fn judge_again(folder: &RunFolder) -> anyhow::Result<Option<Findings>> {
    if !folder.file(FILE).exists() {
        return Ok(None);
    }
    let record: Record = serde_json::from_str(&std::fs::read_to_string(folder.file(FILE))?)?;
    Ok(Some(judge(&Record { witness: folder.witness_lines()?, ..record })))
}

/// Keeps what is known, but for the witnesses, who have files of their own.
pub(crate) fn keep(record: &Record, folder: &RunFolder) -> anyhow::Result<()> {
    Ok(std::fs::write(folder.file(FILE), serde_json::to_string(record)?)?)
}

pub(crate) fn judge(record: &Record) -> Findings {
    Findings::from_violations(check::check(record))
}

fn settings() -> Vec<(&'static str, String)> {
    let seconds = |time: Duration| format!("{}s", time.as_secs());
    vec![
        ("PUNCTUAL_LEASE_TTL", seconds(LEASE)),
        ("PUNCTUAL_MISSED_AFTER", seconds(MISSED_AFTER)),
        // Nobody does anything to workers here, so none is to be given up.
        ("PUNCTUAL_WORKER_DEAD_AFTER", "60s".to_owned()),
        ("PUNCTUAL_HEARTBEAT", "1s".to_owned()),
    ]
}

/// What the system says of all schedules in the end, by its first server and again by its last.
async fn gather(clients: &[Client], done: Done) -> anyhow::Result<Record> {
    let names: Vec<String> = done.subjects.iter().map(|subject| subject.name.clone()).collect();
    let dumps = read::schedules(&clients[0], &names).await?;
    let jobs = read::jobs(&clients[0]).await?;
    let again = read::schedules(clients.last().context("there are servers")?, &names).await?;
    let schedules = done.subjects.into_iter().zip(dumps).zip(again).map(|((subject, dump), again)| ScheduleRecord {
        name: subject.name,
        id: dump.id,
        policy: subject.policy,
        definitions: subject.definitions,
        created_us: dump.created_us,
        changes: dump.changes,
        rows: dump.rows,
        rows_again: again.rows,
    });
    Ok(Record {
        missed_after_us: MISSED_AFTER.as_micros() as i64,
        schedules: schedules.collect(),
        jobs,
        confirmations: done.confirmations,
        ..Record::default()
    })
}
