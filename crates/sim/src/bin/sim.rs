//! Runs seeds and says what went wrong: `sim --seeds 1000 --from 0 [--bug NAME] [--database goes-back]`, or
//! `sim --seed 123` to see one again.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use punctual_sim::{Coverage, Database, Options, Planted, RunReport, run};

struct Args {
    from: u64,
    seeds: u64,
    options: Options,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(problem) => {
            eprintln!("{problem}\nusage: sim [--seed N | --from N --seeds N] [--bug NAME] [--database goes-back]");
            eprintln!("bugs: {}", Planted::all().into_iter().map(Planted::name).collect::<Vec<_>>().join(" "));
            return ExitCode::from(2);
        }
    };
    let begun = Instant::now();
    let (next, found) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new(Total::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !found.load(Relaxed) {
                    let place = next.fetch_add(1, Relaxed);
                    if place >= args.seeds {
                        return;
                    }
                    let report = run(args.from + place, args.options);
                    if !report.is_good() && !found.swap(true, Relaxed) {
                        println!("{}", report.explain(args.options));
                    }
                    let done = total.lock().expect("no other thread panicked").add(&report);
                    if done % 100 == 0 {
                        println!("{done} seeds run, {:.1} per second", done as f64 / begun.elapsed().as_secs_f64());
                    }
                }
            });
        }
    });
    if found.into_inner() {
        return ExitCode::FAILURE;
    }
    let total = total.into_inner().expect("no thread panicked");
    println!("{}", total.coverage.table());
    println!(
        "{} seeds good: {} steps, {:.1} simulated hours in {:.1} s",
        total.seeds,
        total.steps,
        total.simulated_s as f64 / 3600.0,
        begun.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
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
    let mut parsed = Args { from: 0, seeds: 300, options: Options::default() };
    let mut args = args;
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} needs a number"));
        match name.as_str() {
            "--seed" => (parsed.from, parsed.seeds) = (number()?, 1),
            "--from" => parsed.from = number()?,
            "--seeds" => parsed.seeds = number()?,
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
