//! Random operations, valid ones and others, on a store and on the model: every
//! answer must be the same, and so must everything that can be seen at the end.

mod backfills;
mod files;
mod notices;
mod operation;
mod plan;
mod schedules;

use punctual_core::random::SplitMix64;
use punctual_core::shard::event::{Load, Sweep};
use punctual_core::shard::write::Void;
use punctual_core::{ShardId, Timestamp};
use punctual_store::{Applied, Filter, Order, Store};

use crate::fixture::{SHARDS, first_page, load_all};
use crate::model::ModelStore;
use operation::Operation;
use plan::Plan;

/// What a sequence of operations is drawn from.
#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub fn draw(&mut self) -> u64 {
        self.0.bits()
    }

    /// From 0 up to, not including, `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.0.one_in(n)
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        self.0.pick(from).clone()
    }
}

/// Runs one sequence of operations on a fresh `subject` and on the model. How often each
/// answer came is added to `seen`, so that a test can tell that it tested something.
pub async fn compare(seed: u64, steps: usize, subject: &dyn Store, seen: &mut AnswerCounts) {
    let model = ModelStore::new(SHARDS, crate::fixture::at(0));
    let mut plan = Plan::new(seed);
    for step in 0..steps {
        let operation = plan.next(&model);
        let expected = operation.run(&model).await;
        let answer = operation.run(subject).await;
        assert_eq!(answer, expected, "seed {seed}, step {step}: {operation:?}");
        seen.count(&expected);
        plan.learn(&model);
    }
    for read in final_reads(&plan) {
        let expected = read.run(&model).await;
        assert_eq!(read.run(subject).await, expected, "seed {seed}, at the end: {read:?}");
    }
}

/// How often operations had each kind of answer.
#[derive(Debug, Default)]
pub struct AnswerCounts {
    pub done: usize,
    pub void: usize,
    /// Batches with a schedule whose name was taken.
    pub void_schedules: usize,
    /// Batches with a time that had its verdict, or was not queued.
    pub void_verdicts: usize,
    pub fenced: usize,
    pub inconsistent: usize,
    pub dispatched: usize,
    /// Dispatches of what was taken, or of rules that were other than expected.
    pub not_dispatched: usize,
    pub stepped: usize,
    /// Steps of backfills that were further than expected.
    pub not_stepped: usize,
}

impl AnswerCounts {
    /// How often the rarest of all came.
    pub fn rarest(&self) -> usize {
        let Self {
            done,
            void,
            void_schedules,
            void_verdicts,
            fenced,
            inconsistent,
            dispatched,
            not_dispatched,
            stepped,
            not_stepped,
        } = *self;
        let about_batches = [done, void, void_schedules, void_verdicts, fenced, inconsistent];
        let about_reports = [dispatched, not_dispatched, stepped, not_stepped];
        about_batches.into_iter().chain(about_reports).min().unwrap_or(0)
    }

    fn count(&mut self, answer: &str) {
        let kind = match answer {
            fenced if fenced.starts_with("Fenced") => &mut self.fenced,
            done if done == operation::shown(Ok(Applied::done(Void::default()))) => &mut self.done,
            void if void.starts_with("Done { void") => &mut self.void,
            "dispatch Done" => &mut self.dispatched,
            "dispatch Conflict" => &mut self.not_dispatched,
            "step Done" => &mut self.stepped,
            "step Conflict" => &mut self.not_stepped,
            refused if refused.ends_with("inconsistent") => &mut self.inconsistent,
            _ => return,
        };
        *kind += 1;
        self.void_schedules += usize::from(answer.starts_with("Done") && !answer.contains("schedules: []"));
        self.void_verdicts += usize::from(answer.contains("occurrences: [("));
    }
}

/// Everything that can be seen through the port.
fn final_reads(plan: &Plan) -> Vec<Operation> {
    let mut final_reads = Vec::new();
    for order in [Order::Ascending, Order::Descending] {
        final_reads.push(Operation::ListJobs(Filter::default(), first_page(order, 1000)));
    }
    final_reads.push(Operation::GivenBack(None, Timestamp::MAX, 1000));
    final_reads.push(Operation::GivenBack(None, Timestamp::MAX, 2));
    for shard in 0..SHARDS {
        final_reads.push(Operation::OpenStarts(ShardId(shard)));
        for sweep in [Sweep::All, Sweep::Urgent] {
            final_reads.push(Operation::Load(Load { sweep, ..load_all(shard) }));
        }
    }
    for &id in plan.jobs() {
        final_reads.push(Operation::Job(id));
        final_reads.push(Operation::Find(id));
        final_reads.push(Operation::ReadLog(id, 0, usize::MAX));
    }
    final_reads.push(Operation::ListArtifacts(None, 1000));
    final_reads.push(Operation::PendingArtifacts(None, 1000));
    final_reads.push(Operation::ListTasks(None, 1000));
    final_reads.push(Operation::TasksById(plan::all_tasks()));
    final_reads.extend(schedules::final_reads());
    final_reads.extend(notices::final_reads());
    final_reads.extend(backfills::final_reads());
    final_reads
}
