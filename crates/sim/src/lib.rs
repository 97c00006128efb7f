//! Runs the core against a simulated world, and judges what happened.
//!
//! The same [`Owner`](punctual_core::shard::Owner) as in production, several
//! servers, workers and clients, a network that loses and a store that answers
//! late or not at all, for some ten simulated minutes per seed. Everything is
//! drawn from the seed: a run repeats itself exactly. Afterwards [`check`] reads
//! the history, which shares no logic with the core.
//!
//! Does not simulate a store's inside, SQL or the wire format; the conformance
//! suite and the end-to-end tests do that.

mod agents;
mod audit;
mod batches;
mod calendars;
pub mod check;
mod client;
mod conductor;
pub mod coverage;
mod execution;
mod few_links;
pub mod graphs;
pub mod history;
mod nemesis;
mod net;
mod options;
mod plan;
mod queues;
mod rng;
mod runs;
mod schedules;
mod server;
mod simulation;
mod slots;
mod storage;
mod store;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_core::{JobId, Span, Timestamp, batch, workflow};

pub use coverage::{Coverage, Window};
use history::{Fact, History};
pub use options::{Database, Options, Planted};
pub use plan::START;
pub use punctual_promises::Violation;
use simulation::Simulation;

#[derive(Debug)]
pub struct RunReport {
    pub seed: u64,
    pub violations: Vec<Violation>,
    pub coverage: Coverage,
    pub history: History,
    pub steps: u64,
    /// What the servers thought at the end.
    pub servers: String,
    /// How much time passed in the simulation.
    pub lasted: Span,
}

/// Runs one seed to its end and checks what happened.
pub fn run(seed: u64, options: Options) -> RunReport {
    workflow::plant(match options.bug {
        Some(Planted::Run(bug)) => Some(bug),
        _ => None,
    });
    batch::plant(match options.bug {
        Some(Planted::Batch(bug)) => Some(bug),
        _ => None,
    });
    let mut simulation = Simulation::new(seed, options);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| simulation.run())) {
        let text = panic_text(&*panic);
        simulation.note(Fact::Broken { text: format!("panic: {text}") });
    }
    simulation.conclude();
    let violations = check::check(&simulation.history);
    let servers = simulation.describe();
    let mut coverage = simulation.seen;
    coverage.add_history(&simulation.history);
    let lasted = simulation.now.since(START);
    RunReport { seed, violations, coverage, history: simulation.history, steps: simulation.steps, servers, lasted }
}

impl RunReport {
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    /// Starts that outlived the loss of commits and had begun before: where a mistake would show.
    pub fn judged_after_loss(&self) -> usize {
        check::begun_before_loss(&self.history)
    }

    /// The first violation, what happened to its job, and how to see it again.
    pub fn explain(&self, options: Options) -> String {
        let Some(violation) = self.violations.first() else { return format!("seed {}: good", self.seed) };
        let mut text = format!("seed {}: {}: {}\n", self.seed, violation.promise, violation.text);
        if let Some(id) = violation.subject.as_deref().and_then(|subject| subject.parse::<JobId>().ok()) {
            text += &format!("{id}, shard {}, due at {:.6}\n", id.shard(), seconds(id.due_at()));
            text += &self.history.slice(id, START).join("\n");
            text.push('\n');
        }
        if let Some(run) = violation.subject.as_deref().and_then(|subject| subject.parse().ok()) {
            text += &self.history.slice_run(run, START).join("\n");
            text.push('\n');
        }
        let named = self.violations.iter().find_map(|found| {
            let mut words = found.subject.iter().map(String::as_str).chain(found.text.split_whitespace());
            words.find_map(|word| word.parse().ok())
        });
        if let Some(id) = named {
            text += &self.history.slice_schedule(id, START).join("\n");
            text.push('\n');
        }
        text += &self.servers;
        for other in self.violations.iter().skip(1).take(9) {
            text += &format!("also: {}: {} {:?}\n", other.promise, other.text, other.subject);
        }
        let bug = options.bug.map(|bug| format!(" --bug {}", bug.name())).unwrap_or_default();
        let database = match options.database {
            Database::KeepsCommits => String::new(),
            other => format!(" --database {}", other.name()),
        };
        text + &format!("cargo xtask verify sim --seed {}{bug}{database}", self.seed)
    }
}

fn seconds(at: Timestamp) -> f64 {
    at.as_micros().saturating_sub(START.as_micros()) as f64 / 1e6
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
