//! `cargo xtask bench compare`: Punctual and others, on one machine, in one run, in turns. Installs
//! what it needs into a cache folder. Measures nothing itself but the machine and the stores;
//! the times are those of `punctual bench` and of the drivers in bench/comparison.

mod catalogue;
mod driver;
mod machine;
mod psql;
mod punctual;
mod record;
mod redis;
mod round;
mod setup;
mod table;

use std::path::PathBuf;

use anyhow::Context;
use catalogue::{SYSTEMS, System, Workload};
use clap::{Parser, ValueEnum};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench compare", about = "Measures Punctual and other job systems in turns")]
struct Args {
    /// How often to measure each system; Punctual runs before every one of them
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Measure only these systems (default: all)
    #[arg(long, value_delimiter = ',', value_parser = system_named)]
    only: Vec<&'static System>,
    /// Run only these workloads (default: all)
    #[arg(long, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Number of jobs in drain and submit-bulk (default: 200,000)
    #[arg(long)]
    jobs: Option<u64>,
    /// Small sizes and one round: a quick look, not a result
    #[arg(long)]
    quick: bool,
    /// Punctual's store
    #[arg(long, value_enum, default_value_t = Ours::Postgres)]
    ours: Ours,
    /// Punctual's executable, if it is not beside this one
    #[arg(long)]
    punctual: Option<PathBuf>,
    /// Folder in which the systems are installed and the drivers built
    #[arg(long)]
    cache: Option<PathBuf>,
    /// File to append the figures to, one line of JSON each
    #[arg(long, default_value = "target/comparison.jsonl")]
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ours {
    /// Measure Punctual on the PostgreSQL server that the other systems use
    Postgres,
    /// Measure Punctual on SQLite in a temporary folder
    Embedded,
    /// Do not measure Punctual
    None,
}

fn system_named(name: &str) -> Result<&'static System, String> {
    let names = || SYSTEMS.iter().map(|system| system.name).collect::<Vec<_>>().join(", ");
    SYSTEMS.iter().find(|system| system.name == name).ok_or_else(|| format!("the systems are {}", names()))
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let systems: Vec<_> = if args.only.is_empty() { SYSTEMS.iter().collect() } else { args.only.clone() };
    let workloads = if args.workload.is_empty() { Workload::value_variants().to_vec() } else { args.workload.clone() };
    let setup = setup::prepare(&systems, args.cache.clone())?;
    let punctual = match &args.punctual {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("punctual"),
    };
    let sizes = catalogue::Sizes { quick: args.quick, jobs: args.jobs };
    let field = round::Field::open(setup, sizes, args.ours, punctual)?;
    let rounds = if args.quick { 1 } else { args.rounds };
    let mut out = record::Log::open(&args.out).with_context(|| format!("cannot write {}", args.out.display()))?;
    for round in 1..=rounds {
        for &workload in &workloads {
            for system in systems.iter().filter(|system| system.does(workload)) {
                eprintln!("\nround {round} of {rounds}, {}: punctual, {}", workload.name(), system.name);
                out.add(field.ours(workload, round))?;
                out.add(field.theirs(system, workload, round))?;
            }
        }
    }
    table::print(out.records());
    eprintln!("\nEvery single figure is in {}.", args.out.display());
    Ok(())
}
