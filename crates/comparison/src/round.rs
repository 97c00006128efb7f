//! One run of one system: an empty database or Redis, the child, and the counters around it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context;
use punctual_local_postgres::{Postgres, Settings};

use crate::Ours;
use crate::catalogue::{Pace, Sizes, Store, System, Workload};
use crate::driver::Running;
use crate::machine::{self, Steal, Tree};
use crate::psql::{Counters, Psql};
use crate::punctual;
use crate::record::{Record, STEAL_MAX_PERCENT};
use crate::redis::Redis;
use crate::setup::Setup;

const DATABASE: &str = "bench";
/// How often a run that the host disturbed is repeated.
const REPEATS: u32 = 2;

/// The load average above which the machine counts as busy with something else.
const LOAD_MAX: f64 = 0.5;

/// The database servers and the other parts that all runs share.
pub(crate) struct Field {
    setup: Setup,
    pub(crate) sizes: Sizes,
    pub(crate) ours: Ours,
    pub(crate) punctual: PathBuf,
    postgres: Postgres,
    psql: Mutex<Psql>,
}

/// The empty database or Redis that one run uses.
pub(crate) struct Ground {
    pub(crate) url: String,
    /// The id of the database server's first process.
    pub(crate) store_pid: u32,
    /// The database's own counters before the run used it.
    commits: u64,
    redis: Option<Redis>,
}

/// The counters at one instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) postgres: Counters,
    pub(crate) store: Tree,
    pub(crate) clients: Tree,
}

impl Field {
    pub(crate) fn open(setup: Setup, sizes: Sizes, ours: Ours, punctual: PathBuf) -> anyhow::Result<Self> {
        let postgres = Settings::durable().start().context("cannot start PostgreSQL")?;
        let mut psql = Psql::open(postgres.url())?;
        eprintln!("{}", psql.ask("select version()")?);
        let load = machine::load();
        if load > LOAD_MAX {
            eprintln!("The machine is busy (load {load:.1}): the figures will be worth little.");
        }
        Ok(Self { setup, sizes, ours, punctual, postgres, psql: Mutex::new(psql) })
    }

    /// `punctual bench` makes a database of its own beside the one it is given.
    pub(crate) fn ours(&self, workload: Workload, round: u32) -> Vec<Record> {
        if self.ours == Ours::None {
            return Vec::new();
        }
        self.undisturbed("punctual", workload, round, || {
            let ground = self.ground(Store::Postgres)?;
            punctual::run(self, &ground, workload)
        })
    }

    pub(crate) fn theirs(&self, system: &System, workload: Workload, round: u32) -> Vec<Record> {
        self.undisturbed(system.name, workload, round, || {
            let ground = self.ground(system.store)?;
            let records = self.drive(system, workload, &ground)?;
            let records = records.into_iter().map(|record| record.with("store", system.store.name())).collect();
            self.finish(ground, records)
        })
    }

    /// Repeats the run if the host took CPU time from it. Figures of disturbed runs are kept and marked by their steal.
    fn undisturbed(
        &self,
        system: &str,
        workload: Workload,
        round: u32,
        run: impl Fn() -> anyhow::Result<Vec<Record>>,
    ) -> Vec<Record> {
        let mut all = Vec::new();
        for _ in 0..=REPEATS {
            let before = Steal::now();
            let records = run().unwrap_or_else(|error| {
                eprintln!("{system}: {error:#}");
                vec![Record::failed(workload.name(), &error)]
            });
            let steal = Steal::now().percent_since(before);
            for record in records {
                let record = record.with("system", system).with("round", round).with("steal_percent", steal);
                eprintln!("  {}", crate::table::line(&record));
                all.push(record);
            }
            if steal <= STEAL_MAX_PERCENT {
                break;
            }
            eprintln!("  discarded: the host took {steal:.1} % of the time");
        }
        all
    }

    fn ground(&self, store: Store) -> anyhow::Result<Ground> {
        if store == Store::Redis {
            let redis = Redis::start()?;
            return Ok(Ground { url: redis.url(), store_pid: redis.pid(), commits: 0, redis: Some(redis) });
        }
        self.postgres.drop_database(DATABASE)?;
        let url = self.postgres.create_database(DATABASE)?;
        // Each begins with nothing left to write.
        self.ask("checkpoint")?;
        let store_pid = self.postgres.pid().context("PostgreSQL is gone")?;
        Ok(Ground { url, store_pid, commits: self.commits()?, redis: None })
    }

    /// Adds the number of the run's transactions, read-only ones included, and removes the run's data.
    fn finish(&self, ground: Ground, records: Vec<Record>) -> anyhow::Result<Vec<Record>> {
        if ground.redis.is_some() {
            return Ok(records);
        }
        // A connection adds its transactions to the statistics when it ends.
        let begun = Instant::now();
        let connected = format!("select count(*) from pg_stat_activity where datname = '{DATABASE}'");
        while self.number(&connected)? > 0 && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let commits = self.commits()?.saturating_sub(ground.commits);
        self.postgres.drop_database(DATABASE)?;
        let jobs: u64 = records.iter().map(Record::jobs).sum();
        Ok(records.into_iter().map(|record| record.with_each("run_transactions_per_job", commits, jobs)).collect())
    }

    fn commits(&self) -> anyhow::Result<u64> {
        self.number(&format!("select xact_commit from pg_stat_database where datname = '{DATABASE}'"))
    }

    fn drive(&self, system: &System, workload: Workload, ground: &Ground) -> anyhow::Result<Vec<Record>> {
        let mut command = self.setup.driver(system);
        self.arguments(&mut command, workload, system.pace);
        command.args(["--url", &ground.url, "--handshake"]);
        let mut running = Running::spawn(&mut command)?;
        let mut records: Vec<Record> = Vec::new();
        let (mut begin, mut end) = (None, None);
        while let Some(line) = running.line()? {
            match line.as_str() {
                "# loaded" => {
                    if system.store == Store::Postgres {
                        // Some plan badly on a table that was just filled; autovacuum would come too late.
                        self.postgres.execute_in(DATABASE, "analyze")?;
                    }
                    running.go_on()?;
                }
                "# begin" => {
                    begin = Some(self.sample(ground, running.pid())?);
                    running.go_on()?;
                }
                "# end" => {
                    end = Some(self.sample(ground, running.pid())?);
                    running.go_on()?;
                }
                line if line.starts_with('{') => {
                    let record = Record::parse(line)?;
                    let (begin, end) = begin.zip(end).context("a figure without marks")?;
                    records.push(with_counters(record, system.store, begin, end));
                }
                _ => {}
            }
        }
        Ok(records)
    }

    fn arguments(&self, command: &mut Command, workload: Workload, pace: Pace) {
        command.arg(workload.name());
        match self.sizes.jobs(workload, pace) {
            Some(jobs) => command.args(["--jobs", &jobs.to_string()]),
            None => command.args(["--seconds", &self.sizes.seconds().to_string()]),
        };
    }

    pub(crate) fn sample(&self, ground: &Ground, clients: u32) -> anyhow::Result<Sample> {
        let postgres = self.psql.lock().expect("nobody panics with it").counters()?;
        let (store, clients) = (machine::tree(ground.store_pid), machine::tree(clients));
        Ok(Sample { at: Instant::now(), postgres, store, clients })
    }

    fn ask(&self, sql: &str) -> anyhow::Result<String> {
        self.psql.lock().expect("nobody panics with it").ask(sql)
    }

    fn number(&self, sql: &str) -> anyhow::Result<u64> {
        self.psql.lock().expect("nobody panics with it").number(sql)
    }
}

/// Adds the differences of the counters to a figure.
pub(crate) fn with_counters(record: Record, store: Store, begin: Sample, end: Sample) -> Record {
    let jobs = record.jobs();
    let record = record
        .with_each("store_cpu_us_per_job", end.store.cpu_us.saturating_sub(begin.store.cpu_us), jobs)
        .with_each("clients_cpu_us_per_job", end.clients.cpu_us.saturating_sub(begin.clients.cpu_us), jobs)
        .with("clients_rss_mib", end.clients.rss_mib);
    if store == Store::Redis {
        return record;
    }
    let (before, after) = (begin.postgres, end.postgres);
    record.with_each("wal_bytes_per_job", after.wal_bytes.saturating_sub(before.wal_bytes), jobs).with_each(
        "commits_per_job",
        after.commits.saturating_sub(before.commits),
        jobs,
    )
}
