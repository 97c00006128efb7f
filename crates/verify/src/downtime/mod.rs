//! `verify downtime`: no server for a compressed day. A server is killed and started again much later; each schedule then
//! makes up for what was missed exactly as it was told, and says so.

mod cases;
mod expect;

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use comfy_table::Table;
use punctual_client::Client;
use punctual_core::JobId;

use crate::check::Lateness;
use crate::clients::{define_tasks, wait_until_all_ended};
use crate::clock::Moment;
use crate::cluster::{Cluster, DatabaseKind, Programs, Shape};
use crate::findings::{Findings, summary};
use crate::history::RunFolder;
use crate::schedules::record::{Record, ScheduleRecord, ScheduledJob};
use crate::schedules::{judge, keep, read};
use crate::witness::Seen;
use cases::{Case, cases};
use expect::{Outage, expect};

#[derive(Debug, Clone, Args)]
pub struct Downtime {
    /// How long there is no server
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// 90 seconds: a day, if a minute takes a sixteenth of a second
    #[arg(long)]
    pub full: bool,
    /// With PostgreSQL instead of the embedded database
    #[arg(long)]
    pub postgres: bool,
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
}

const FULL_SECONDS: u64 = 90;
const TASK: &str = "at-least-once";
const MISSED_AFTER: Duration = Duration::from_secs(2);
/// Before the server dies, and after it is back.
const WARM_UP: Duration = Duration::from_secs(4);
const TAIL: Duration = Duration::from_secs(12);
/// After the start, until what was missed is decided about: a lease may have to end first.
const RECOVERY_MS: i64 = 10_000;
const END_WITHIN: Duration = Duration::from_secs(60);
/// The case whose jobs and lines are looked at as people see them.
const SHOWN: &str = "all-count";

impl Downtime {
    fn outage(&self) -> Duration {
        Duration::from_secs(if self.full { FULL_SECONDS } else { self.seconds })
    }

    pub async fn round(&self, folder: &RunFolder) -> anyhow::Result<Findings> {
        let database = if self.postgres { DatabaseKind::Postgres } else { DatabaseKind::Embedded };
        let mut shape = Shape::new(1, 2, database);
        shape.settings = vec![
            ("PUNCTUAL_MISSED_AFTER", format!("{}s", MISSED_AFTER.as_secs())),
            ("PUNCTUAL_LEASE_TTL", "3s".to_owned()),
            ("PUNCTUAL_WORKER_DEAD_AFTER", "1h".to_owned()),
        ];
        let mut cluster = Cluster::start(shape, folder.clone(), Programs::find()?).await?;
        let client = cluster.servers[0].client()?;
        define_tasks(&client, &folder.client_journal()?).await?;
        let lasts_ms = (WARM_UP + self.outage() + TAIL).as_millis() as i64;
        let cases = cases(self.outage().as_micros() as i64, Moment::now().plus_ms(lasts_ms).real_us);
        for case in &cases {
            client.create_schedule(&case.definition.request(case.name, TASK, case.policy)).await?;
            if case.is_paused {
                client.pause_schedule(case.name, None).await?;
            }
        }
        tokio::time::sleep(WARM_UP).await;
        cluster.servers[0].kill();
        let killed_us = Moment::now().real_us;
        tokio::time::sleep(self.outage()).await;
        let started = Moment::now();
        cluster.start_server(0).await?;
        let missed_after_us = MISSED_AFTER.as_micros() as i64;
        let outage = Outage { killed_us, started_us: started.real_us, missed_after_us };

        let end_us = cases.iter().map(|case| case.definition.end_us).max().unwrap_or_default();
        let left_us = (end_us - Moment::now().real_us).max(0);
        tokio::time::sleep(Duration::from_micros(left_us.unsigned_abs()) + MISSED_AFTER).await;
        let names: Vec<String> = cases.iter().map(|case| case.name.to_owned()).collect();
        wait_until_all_ended(std::slice::from_ref(&client), END_WITHIN).await;
        read::wait_until_none_is_queued(&client, &names, END_WITHIN).await;
        let mut record = gather(&client, &cases, &names).await?;
        record.broken = vec![(killed_us, started.plus_ms(RECOVERY_MS).real_us)];
        record.witness = folder.witness_lines()?;
        keep(&record, folder)?;
        let mut findings = judge(&record);
        self.compare(&record, &cases, outage, &mut findings);
        shown_to_people(&cluster, &client, &record, &mut findings).await?;
        if let Err(error) = cluster.stop().await {
            findings.add(format!("{error:#}"));
        }
        Ok(findings)
    }

    fn compare(&self, record: &Record, cases: &[Case], outage: Outage, findings: &mut Findings) {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header([
            "  schedule",
            "missed",
            "lines for many",
            "replayed",
            "decided after ms",
            "what was declared",
        ]);
        for (case, told) in cases.iter().zip(&record.schedules) {
            let jobs: Vec<_> = record.jobs.iter().filter(|job| job.schedule == told.id).collect();
            let outage = Outage { missed_after_us: case.policy.grace_us(outage.missed_after_us), ..outage };
            let result = expect(told, &jobs, case.is_paused, outage);
            findings.faults.extend(result.wrong.iter().map(|wrong| format!("{}: {wrong}", case.name)));
            table.add_row([
                format!("  {}", case.name),
                result.missed.to_string(),
                result.stretches.to_string(),
                result.replayed.to_string(),
                (result.decided_after_us / 1000).to_string(),
                case.about.to_owned(),
            ]);
            // A day of times is too long for a line each.
            let is_long = self.full && case.name == "dense-none";
            findings.expect(!is_long || result.stretches > 0, || "no line stood for many times".to_owned());
        }
        eprintln!("{table}");
        eprintln!("  replays began after they were due: {}", summary(&begun_late(record)));
    }
}

/// How long after they were due replays really began.
fn begun_late(record: &Record) -> Lateness {
    let replayed = |id: &str| record.jobs.iter().find(|job| job.id == id && job.kind == "replayed");
    let begins = record.witness.iter().filter(|line| line.seen == Seen::Begin);
    Lateness::new(begins.filter_map(|line| Some(line.at.real_us - replayed(&line.job)?.due_us)).collect())
}

async fn gather(client: &Client, cases: &[Case], names: &[String]) -> anyhow::Result<Record> {
    let told = read::schedules(client, names).await?;
    let again = read::schedules(client, names).await?;
    let schedules = cases.iter().zip(told).zip(again).map(|((case, told), again)| ScheduleRecord {
        name: case.name.to_owned(),
        id: told.id,
        policy: case.policy,
        definitions: vec![case.definition.clone()],
        created_us: told.created_us,
        changes: told.changes,
        rows: told.rows,
        rows_again: again.rows,
    });
    Ok(Record {
        missed_after_us: MISSED_AFTER.as_micros() as i64,
        schedules: schedules.collect(),
        jobs: read::jobs(client).await?,
        ..Record::default()
    })
}

/// A replayed job says so, and its line says how late it was: over REST and on the command line.
async fn shown_to_people(
    cluster: &Cluster,
    client: &Client,
    record: &Record,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    // One that fires rarely enough for its replays to be on the first page of its history.
    let shown = record.schedules.iter().find(|schedule| schedule.name == SHOWN).context("it is one of the cases")?;
    let is_replayed = |job: &&ScheduledJob| job.schedule == shown.id && job.kind == "replayed";
    let job = record.jobs.iter().find(is_replayed).context("nothing was replayed")?;
    let id: JobId = job.id.parse().map_err(|_| anyhow::anyhow!("{} is not the id of a job", job.id))?;
    let whole = client.job(id).await?;
    let source = whole.schedule.context("a replayed job has a schedule")?;
    findings.expect(source.kind == "replayed" && source.at.as_micros() == job.at_us, || {
        format!("{id} does not say over REST that it was replayed: {source:?}")
    });
    let name = source.name.unwrap_or_default();
    let query = punctual_api::OccurrenceQuery {
        from: Some(source.at.to_string()),
        order: Some("asc".to_owned()),
        limit: Some("1".to_owned()),
        ..punctual_api::OccurrenceQuery::default()
    };
    let line = client.occurrences(&name, &query).await?.occurrences.into_iter().next().context("it has a line")?;
    let is_late = line.late_by.is_some_and(|late_by| late_by.to_std() > MISSED_AFTER);
    findings.expect(is_late && line.marks.iter().any(|mark| mark == "replayed"), || {
        format!("the line of {id} does not say that it was late and replayed: {line:?}")
    });
    for (args, words) in [
        (["job", "get", &job.id], "replayed for the missed"),
        (["schedule", "history", &name], "because no server handled it in time"),
    ] {
        let output = Command::new(&cluster.programs.punctual).args(args).args(["--server", client.url()]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        findings.expect(text.contains(words), || format!("`punctual {}` says: {text}", args.join(" ")));
    }
    Ok(())
}
