//! `verify exactly-once | load | lists | leavers | fleet | floods | faults | disk | schedules | downtime | workflows`, and `verify check` to judge a kept run
//! again.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use punctual_verify::check::latest;
use punctual_verify::disk::{Disk, enter_own_mounts};
use punctual_verify::downtime::Downtime;
use punctual_verify::exactly_once::ExactlyOnce;
use punctual_verify::faults::{Faults, Timing, enter_own_network};
use punctual_verify::fleet::{self, Fleet, FleetWorkers};
use punctual_verify::floods::{FloodArgs, Floods, flood, lower_priority, raise_open_files};
use punctual_verify::history::{History, RunFolder};
use punctual_verify::leavers::Leavers;
use punctual_verify::lists::Lists;
use punctual_verify::load::Load;
use punctual_verify::schedules::{self, Schedules};
use punctual_verify::workflows::Workflows;
use punctual_verify::{Findings, worker};

#[derive(Parser)]
#[command(name = "verify", about = "Runs real clusters and judges them from what witnesses saw")]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Where runs are kept that went wrong
    #[arg(long, global = true, default_value = "target/verify")]
    keep: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// One server, ten workers, ten thousand jobs: each runs exactly once
    ExactlyOnce(ExactlyOnce),
    /// Three servers, five workers, sixty thousand jobs with spikes: each is done once, and soon
    Load(Load),
    /// Walks through lists of jobs while the jobs change: none is shown twice, none is missing
    Lists(Lists),
    /// Clients that disconnect before their answer: their jobs start as soon as those of clients that stay
    Leavers(Leavers),
    /// Thousands of clients that are slow, idle or list without pause: starts and submissions stay as quick
    Floods(Floods),
    /// Many servers and thousands of workers, each connected to a few servers: every job runs, and rare workers are found
    Fleet(Fleet),
    /// What a cluster does while its parts are killed, stopped, cut off and confused
    Faults(Faults),
    /// What a server on the embedded database does when its disk is full or its files are moved or damaged
    Disk(Disk),
    /// Schedules of every kind while servers are killed, stopped and cut off: one verdict for each planned time
    Schedules(Schedules),
    /// Chains of jobs while a server and a worker are killed at each step: in order, none lost, none twice
    Workflows(Workflows),
    /// No server for a compressed day: which missed times run afterwards, and how fast
    Downtime(Downtime),
    /// Judge a kept run again
    Check {
        folder: PathBuf,
        /// Also tell of so many jobs that began latest
        #[arg(long, default_value_t = 0)]
        latest: usize,
    },
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
    #[command(hide = true)]
    FleetWorkers(FleetWorkers),
    #[command(hide = true)]
    Flood(FloodArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    if let Command::Faults(Faults { list: false, .. }) = args.command {
        // Before there are threads, and while there is still a way to install a database.
        punctual_local_postgres::ensure_installed()?;
        enter_own_network()?;
    }
    // Before there are threads: they inherit it.
    match args.command {
        Command::Floods(_) | Command::Fleet(_) | Command::FleetWorkers(_) => raise_open_files()?,
        Command::Flood(_) => {
            raise_open_files()?;
            lower_priority()?;
        }
        _ => {}
    }
    if let Command::Disk(_) | Command::Faults(Faults { list: false, embedded: true, .. }) = args.command {
        enter_own_mounts()?;
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(args))
}

async fn run(Args { command, keep }: Args) -> anyhow::Result<ExitCode> {
    match command {
        Command::Worker(args) => {
            worker::run(args).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::FleetWorkers(args) => {
            fleet::run_workers(args).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Flood(args) => {
            flood(args).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Check { folder, latest } => {
            let folder = RunFolder::create(folder)?;
            let findings = match schedules::judge_again(&folder)? {
                Some(findings) => findings,
                None => {
                    let history = folder.read()?;
                    print_latest(&history, latest);
                    Findings::of(&history)
                }
            };
            findings.print(&folder);
            Ok(exit_code(findings.is_good()))
        }
        Command::Faults(faults) if faults.list => {
            faults.print_list();
            Ok(ExitCode::SUCCESS)
        }
        Command::Faults(faults) => Ok(exit_code(faults.run(&keep, Timing::USUAL).await?)),
        Command::Disk(disk) => Ok(exit_code(disk.run(&keep).await?)),
        Command::Load(run) => {
            rounds("load", run.rounds, &keep, async |round, folder| run.round(round, folder).await).await
        }
        Command::Lists(run) => {
            rounds("lists", run.rounds, &keep, async |round, folder| run.round(round, folder).await).await
        }
        Command::Leavers(run) => rounds("leavers", run.rounds, &keep, async |_, folder| run.round(folder).await).await,
        Command::Fleet(run) => rounds("fleet", run.rounds, &keep, async |_, folder| run.round(folder).await).await,
        Command::Floods(run) => rounds("floods", run.rounds, &keep, async |_, folder| run.round(folder).await).await,
        Command::Schedules(run) => {
            rounds("schedules", run.rounds, &keep, async |round, folder| run.round(round, folder).await).await
        }
        Command::Downtime(run) => {
            rounds("downtime", run.rounds, &keep, async |_, folder| run.round(folder).await).await
        }
        Command::Workflows(run) => {
            rounds("workflows", run.rounds, &keep, async |_, folder| run.round(folder).await).await
        }
        Command::ExactlyOnce(run) => {
            rounds("exactly-once", run.rounds, &keep, async |round, folder| run.round(round, folder).await).await
        }
    }
}

/// Each with its attempts, and with the faults around it.
fn print_latest(history: &History, count: usize) {
    let Some(begun_us) = history.calls.first().map(|call| call.invoked.real_us) else { return };
    let at = |us: i64| format!("{:.3} s", (us - begun_us) as f64 / 1e6);
    for fault in history.faults.iter().filter(|_| count > 0) {
        println!("{}  {:?} {} {}", at(fault.at.real_us), fault.what, fault.note, fault.target);
    }
    for delay in latest(history, count) {
        println!("{}: expected at {}, began {} ms later", delay.job, at(delay.expected_us), delay.ms());
        for attempt in history.jobs.iter().filter(|job| job.id == delay.job).flat_map(|job| &job.attempts) {
            println!(
                "    {} {} started {} by {}",
                attempt.attempt,
                attempt.state,
                at(attempt.started_us),
                attempt.server
            );
        }
    }
}

fn exit_code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Rounds in folders of their own, until one goes wrong.
async fn rounds(
    name: &str,
    rounds: u32,
    keep: &std::path::Path,
    mut run: impl AsyncFnMut(u32, &RunFolder) -> anyhow::Result<Findings>,
) -> anyhow::Result<ExitCode> {
    for round in 1..=rounds {
        let folder = RunFolder::fresh(keep, &format!("{name}-{round}"))?;
        eprintln!("{name}, round {round} of {rounds}");
        let findings = run(round, &folder).await?;
        findings.print(&folder);
        if !findings.is_good() {
            return Ok(ExitCode::FAILURE);
        }
        folder.remove()?;
    }
    eprintln!("{name}: {rounds} rounds good");
    Ok(ExitCode::SUCCESS)
}
