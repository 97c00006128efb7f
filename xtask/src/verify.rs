//! `cargo xtask verify <name>`: acceptance runs that take longer than a test may.

use clap::{Args, Subcommand};

use crate::shell::{cargo, run as run_command};

#[derive(Subcommand)]
pub(crate) enum Verify {
    /// Simulates whole clusters under faults, one for each seed
    Sim {
        /// How many seeds to run
        #[arg(long, default_value_t = 5000, conflicts_with = "seed")]
        seeds: u64,
        /// The first of them
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Replay one seed and show its history
        #[arg(long)]
        seed: Option<u64>,
        /// With a planted bug, which the checker must find
        #[arg(long)]
        bug: Option<String>,
        /// keeps-commits, or goes-back: once in a run it loses its last commits
        #[arg(long)]
        database: Option<String>,
    },
    /// Compares what the core makes of random workflows with the reference evaluator
    Graphs {
        /// How many workflows to compare
        #[arg(long, default_value_t = 100_000)]
        seeds: u64,
        /// The first of them
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// SIGKILL of server and worker with thousands of jobs in flight, again and again
    Crash {
        #[arg(long, default_value_t = 5)]
        rounds: u32,
    },
    /// One server, ten workers, ten thousand jobs: each runs exactly once
    ExactlyOnce(Passed),
    /// Three servers, five workers, sixty thousand jobs with spikes: each is done once, and soon
    Load(Passed),
    /// Walks through lists of jobs while the jobs change; `-- --pages 10000 --postgres`
    Lists(Passed),
    /// Clients that disconnect before their answer; `-- --clients 400 --postgres`
    Leavers(Passed),
    /// Many servers and thousands of workers, each connected to a few servers: every job runs, and rare workers are found
    Fleet(Passed),
    /// Thousands of clients that are slow, idle or list without pause; `-- --postgres`
    Floods(Passed),
    /// Compares when schedules fire with a brute-force walk, for random expressions in all zones, and the
    /// parsers with anything
    Time {
        /// How many schedules to compare
        #[arg(long, default_value_t = 200_000)]
        expressions: u64,
        /// How long, at most
        #[arg(long, default_value_t = 30)]
        minutes: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// What a cluster does while its parts are killed, stopped, cut off and confused
    Faults(Passed),
    /// What a server on the embedded database does when its disk is full or its files are moved or damaged
    Disk(Passed),
    /// Hundreds of schedules while servers are killed, stopped and cut off; `-- --full` for ten minutes of it
    Schedules(Passed),
    /// No server for a compressed day: which missed times run afterwards, and how fast
    Downtime(Passed),
    /// Chains of jobs while a server and a worker are killed at each step; `-- --runs 200`
    Workflows(Passed),
    /// Judge a run again that was kept
    Check(Passed),
}

/// Arguments for the verifier; `-- --help` shows them.
#[derive(Args)]
pub(crate) struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(what: Verify) -> anyhow::Result<()> {
    match what {
        Verify::Sim { seeds, from, seed, bug, database } => {
            let mut command = simulator();
            match seed {
                Some(seed) => command.args(["--seed", &seed.to_string()]),
                None => command.args(["--seeds", &seeds.to_string(), "--from", &from.to_string()]),
            };
            if let Some(bug) = bug {
                command.args(["--bug", &bug]);
            }
            if let Some(database) = database {
                command.args(["--database", &database]);
            }
            run_command(&mut command)
        }
        Verify::Graphs { seeds, from } => {
            run_command(simulator().args(["--graphs", &seeds.to_string(), "--from", &from.to_string()]))
        }
        Verify::Crash { rounds } => {
            for round in 1..=rounds {
                eprintln!("\nround {round} of {rounds}");
                run_command(&mut cargo([
                    "test",
                    "--package",
                    "punctual",
                    "--test",
                    "e2e",
                    "--",
                    "crash::",
                    "delete_race::",
                ]))?;
            }
            Ok(())
        }
        Verify::Time { expressions, minutes, seed } => {
            let recurrence = ["--release", "--package", "punctual-recurrence"];
            run_command(cargo(["test"]).args(recurrence).args(["--test", "parser_limits", "--test", "oracle"]))?;
            let mut compare = cargo(["run"]);
            compare.args(recurrence).args(["--example", "compare", "--"]);
            compare.args(["--expressions", &expressions.to_string()]);
            compare.args(["--minutes", &minutes.to_string(), "--seed", &seed.to_string()]);
            run_command(&mut compare)
        }
        Verify::ExactlyOnce(passed) => verifier("exactly-once", passed),
        Verify::Load(passed) => verifier("load", passed),
        Verify::Lists(passed) => verifier("lists", passed),
        Verify::Leavers(passed) => verifier("leavers", passed),
        Verify::Fleet(passed) => verifier("fleet", passed),
        Verify::Floods(passed) => verifier("floods", passed),
        Verify::Faults(passed) => verifier("faults", passed),
        Verify::Disk(passed) => verifier("disk", passed),
        Verify::Schedules(passed) => verifier("schedules", passed),
        Verify::Downtime(passed) => verifier("downtime", passed),
        Verify::Workflows(passed) => verifier("workflows", passed),
        Verify::Check(passed) => verifier("check", passed),
    }
}

fn simulator() -> std::process::Command {
    cargo(["run", "--release", "--package", "punctual-sim", "--bin", "sim", "--"])
}

fn verifier(name: &str, passed: Passed) -> anyhow::Result<()> {
    // The verifier starts the server's program that was built beside it.
    run_command(&mut cargo(["build", "--release", "--package", "punctual", "--package", "punctual-verify"]))?;
    let mut command = cargo(["run", "--release", "--package", "punctual-verify", "--bin", "verify", "--", name]);
    command.args(passed.args);
    run_command(&mut command)
}
