//! Runs seeds and says what went wrong: `sim --seeds 1000 --from 0 [--bug NAME] [--database goes-back]`, or
//! `sim --seed 123` to see one again. `sim --graphs 100000` compares what the core makes of random workflows with the
//! reference evaluator, without a world around them.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use punctual_sim::graphs::{Faults, Played, play};
use punctual_sim::{Coverage, Database, Options, Planted, RunReport, run};

struct Args {
    from: u64,
    seeds: u64,
    what: What,
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Clusters,
    Graphs,
}

const USAGE: &str =
    "usage: sim [--seed N | --from N --seeds N] [--bug NAME] [--database goes-back]\n       sim --graphs N [--from N]";

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            eprintln!("bugs: {}", Planted::all().into_iter().map(Planted::name).collect::<Vec<_>>().join(" "));
            return ExitCode::from(2);
        }
    };
    let begun = Instant::now();
    let is_good = match args.what {
        What::Clusters => simulate(&args, begun),
        What::Graphs => compare(&args, begun),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs all seeds on all cores, until one of them goes wrong. Whether none did.
fn each_seed(args: &Args, begun: Instant, one: impl Fn(u64) -> Result<u64, String> + Sync) -> bool {
    let (next, found) = (AtomicU64::new(0), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let every = args.seeds.div_ceil(50).clamp(100, 10_000);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !found.load(Relaxed) {
                    let place = next.fetch_add(1, Relaxed);
                    if place >= args.seeds {
                        return;
                    }
                    match one(args.from + place) {
                        Ok(done) if done.is_multiple_of(every) => {
                            let speed = done as f64 / begun.elapsed().as_secs_f64();
                            println!("{done} seeds run, {speed:.1} per second");
                        }
                        Ok(_) => {}
                        Err(text) => {
                            if !found.swap(true, Relaxed) {
                                println!("{text}");
                            }
                        }
                    }
                }
            });
        }
    });
    !found.into_inner()
}

fn simulate(args: &Args, begun: Instant) -> bool {
    let total = Mutex::new(Total::default());
    let is_good = each_seed(args, begun, |seed| {
        let report = run(seed, args.options);
        if !report.is_good() {
            return Err(report.explain(args.options));
        }
        Ok(total.lock().expect("no other thread panicked").add(&report))
    });
    if is_good {
        let total = total.into_inner().expect("no thread panicked");
        println!("{}", total.coverage.table());
        println!(
            "{} seeds good: {} steps, {:.1} simulated hours in {:.1} s",
            total.seeds,
            total.steps,
            total.simulated_s as f64 / 3600.0,
            begun.elapsed().as_secs_f64()
        );
    }
    is_good
}

fn compare(args: &Args, begun: Instant) -> bool {
    let total = Mutex::new((0, Played::default()));
    let is_good = each_seed(args, begun, |seed| {
        // Every other one under faults would hide that both hold: each seed is played in both ways.
        let played = play(seed, Faults::None)? + play(seed, Faults::Some)?;
        let mut total = total.lock().expect("no other thread panicked");
        total.0 += 1;
        total.1 = total.1 + played;
        Ok(total.0)
    });
    if is_good {
        let (runs, all) = total.into_inner().expect("no thread panicked");
        println!(
            "{runs} runs end as the reference says, without faults and under faults: {} nodes, {} jobs, {} steps, {} resumes, \
             {} refusals, {} takeovers, {} steps lost or worked out again in {:.1} s",
            all.nodes,
            all.jobs,
            all.steps,
            all.resumes,
            all.refusals,
            all.takeovers,
            all.undone,
            begun.elapsed().as_secs_f64()
        );
    }
    is_good
}

#[derive(Default)]
struct Total {
    seeds: u64,
    steps: u64,
    simulated_s: i64,
    coverage: Coverage,
}

impl Total {
    fn add(&mut self, report: &RunReport) -> u64 {
        self.seeds += 1;
        self.steps += report.steps;
        self.simulated_s += report.lasted.as_micros() / 1_000_000;
        self.coverage.add(&report.coverage);
        self.seeds
    }
}

fn parse(args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut parsed = Args { from: 0, seeds: 300, what: What::Clusters, options: Options::default() };
    let mut args = args;
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} needs a number"));
        match name.as_str() {
            "--seed" => (parsed.from, parsed.seeds) = (number()?, 1),
            "--from" => parsed.from = number()?,
            "--seeds" => parsed.seeds = number()?,
            "--graphs" => (parsed.what, parsed.seeds) = (What::Graphs, number()?),
            "--bug" => {
                let bug = Planted::parse(&value).ok_or_else(|| format!("no bug is called {value}"))?;
                parsed.options = Options::finding(bug);
            }
            "--database" => {
                parsed.options.database = Database::parse(&value).ok_or_else(|| format!("no database {value}"))?;
            }
            _ => return Err(format!("{name} is not an option")),
        }
    }
    Ok(parsed)
}
