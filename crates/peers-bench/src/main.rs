//! `cargo xtask bench peers`: Punctual and others, on one machine, in one run, in turns. Installs
//! what it needs into a cache folder. Measures nothing itself but the machine and the stores;
//! the times are those of `punctual bench` and of the drivers in bench/peers.

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
use catalogue::{PEERS, Peer, Workload};
use clap::{Parser, ValueEnum};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench peers", about = "Measures Punctual and its peers in turns")]
struct Args {
    /// How often each is measured, Punctual before every peer
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Only these peers; all unless told
    #[arg(long, value_delimiter = ',', value_parser = peer_named)]
    only: Vec<&'static Peer>,
    /// Only these workloads; all unless told
    #[arg(long, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Jobs of drain and submit-bulk, instead of 200,000
    #[arg(long)]
    jobs: Option<u64>,
    /// Small sizes and one round: a look, not a result
    #[arg(long)]
    quick: bool,
    /// Punctual's store
    #[arg(long, value_enum, default_value_t = Ours::Postgres)]
    ours: Ours,
    /// Punctual's executable, if it is not beside this one
    #[arg(long)]
    punctual: Option<PathBuf>,
    /// Where peers are installed and drivers built
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Gets one line of JSON for each single figure
    #[arg(long, default_value = "target/peers-bench.jsonl")]
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ours {
    /// The same PostgreSQL as the peers
    Postgres,
    /// SQLite in a temporary folder
    Embedded,
    /// Only the peers
    None,
}

fn peer_named(name: &str) -> Result<&'static Peer, String> {
    let names = || PEERS.iter().map(|peer| peer.name).collect::<Vec<_>>().join(", ");
    PEERS.iter().find(|peer| peer.name == name).ok_or_else(|| format!("the peers are {}", names()))
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let peers: Vec<_> = if args.only.is_empty() { PEERS.iter().collect() } else { args.only.clone() };
    let workloads = if args.workload.is_empty() { Workload::value_variants().to_vec() } else { args.workload.clone() };
    let setup = setup::prepare(&peers, args.cache.clone())?;
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
            for peer in peers.iter().filter(|peer| peer.does(workload)) {
                eprintln!("\nround {round} of {rounds}, {}: punctual, {}", workload.name(), peer.name);
                out.add(field.ours(workload, round))?;
                out.add(field.theirs(peer, workload, round))?;
            }
        }
    }
    table::print(out.records());
    eprintln!("\nEvery single figure is in {}.", args.out.display());
    Ok(())
}
