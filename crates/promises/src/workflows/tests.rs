//! Small runs made by hand, to see each promise fail.

use punctual_core::{Span, Timestamp};
use serde_json::{Value, json};

use super::*;

/// A run that is built step by step. Each step is a second later.
struct Story {
    run: WorkflowRun,
    now: Timestamp,
    jobs: usize,
}

impl Story {
    /// Begins with jobs of these nodes.
    fn of(nodes: &Value, first: &[usize]) -> Self {
        let definition = json!({ "nodes": nodes, "on_node_failure": "continue" }).to_string();
        let run = WorkflowRun {
            name: "run".to_owned(),
            definition: Definition::read(&definition).expect("a definition"),
            input: json!({ "list": [1, 2] }),
            lines: Vec::new(),
            at_end: RunAtEnd { status: None, nodes: Vec::new(), jobs: Vec::new() },
        };
        let story = Self { run, now: Timestamp::EPOCH, jobs: 0 };
        story.step(Vec::new(), first)
    }

    fn step(self, what: Vec<Observed>, released: &[usize]) -> Self {
        let jobs: Vec<(usize, u32, Option<Value>)> = released.iter().map(|node| (*node, 0, None)).collect();
        self.step_with(what, StepAnswer::Done, jobs)
    }

    fn step_with(
        mut self,
        what: Vec<Observed>,
        answer: StepAnswer,
        released: Vec<(usize, u32, Option<Value>)>,
    ) -> Self {
        self.now = self.now + Span::from_secs(1);
        let mut jobs = Vec::new();
        for (node, element, input) in released {
            self.jobs += 1;
            jobs.push(NodeJob { job: format!("job-{}", self.jobs), node, element, input });
        }
        self.run.lines.push(RunLine::Step(RunStep { at: self.now, what, answer, released: Released::Seen(jobs) }));
        self
    }

    /// The job of this number, from 1, ends.
    fn ends(self, job: usize, end: JobEnd, released: &[usize]) -> Self {
        self.step(vec![Observed::Ended { job: format!("job-{job}"), end, output: None }], released)
    }

    fn succeeds(self, job: usize, released: &[usize]) -> Self {
        self.ends(job, JobEnd::Succeeded, released)
    }

    fn ends_with(mut self, status: &str, nodes: &[&str]) -> Vec<crate::Violation> {
        self.run.at_end.status = Some(status.to_owned());
        self.run.at_end.nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        check_workflow_runs(&[self.run])
    }
}

#[track_caller]
fn holds(found: &[crate::Violation]) {
    assert!(found.is_empty(), "{found:?}");
}

#[track_caller]
fn breaks(found: &[crate::Violation], promise: &str) {
    assert!(found.iter().any(|violation| violation.promise == promise), "{promise}: found {found:?}");
}

fn chain() -> Value {
    json!([{ "name": "a", "task": "t" }, { "name": "b", "task": "t", "needs": ["a"] }])
}

fn list() -> Value {
    json!([
        { "name": "each", "task": "t", "for_each": { "from": "run.list" } },
        { "name": "join", "task": "t", "needs": ["each"], "input": { "all": { "from": "each" } } },
    ])
}

fn gate() -> Value {
    json!([{ "name": "g", "gate": { "timeout": "PT60S" } }, { "name": "b", "task": "t", "needs": ["g"] }])
}

const BOTH: [&str; 2] = ["succeeded", "succeeded"];

#[test]
fn a_chain_in_good_order_breaks_nothing() {
    holds(&Story::of(&chain(), &[0]).succeeds(1, &[1]).succeeds(2, &[]).ends_with("succeeded", &BOTH));
}

#[test]
fn a_child_that_starts_before_its_parent_has_ended_is_found() {
    breaks(&Story::of(&chain(), &[0]).step(vec![], &[1]).ends_with("succeeded", &BOTH), ORDER);
    breaks(&Story::of(&chain(), &[0]).ends(1, JobEnd::Failed, &[1]).ends_with("failed", &BOTH), ORDER);
    let mut early = Story::of(&chain(), &[0]);
    early.run.lines.push(RunLine::Began { job: "job-2".to_owned() });
    breaks(&early.succeeds(1, &[1]).succeeds(2, &[]).ends_with("succeeded", &BOTH), ORDER);
}

#[test]
fn a_child_that_never_starts_is_found() {
    breaks(&Story::of(&chain(), &[0]).succeeds(1, &[]).ends_with("running", &["succeeded", "waiting"]), NOT_LOST);
}

#[test]
fn a_child_that_starts_twice_is_found() {
    breaks(&Story::of(&chain(), &[0]).succeeds(1, &[1, 1]).ends_with("succeeded", &BOTH), ONCE);
    breaks(&Story::of(&chain(), &[0]).succeeds(1, &[1]).step(vec![], &[1]).ends_with("succeeded", &BOTH), ONCE);
}

#[test]
fn a_list_that_loses_or_mixes_up_its_results_is_found() {
    let output = |text: &str| Some(text.as_bytes().to_vec());
    let story = |order: [i64; 2]| {
        let first = vec![(0, 0, Some(json!(1))), (0, 1, Some(json!(2)))];
        let mut story = Story::of(&list(), &[]);
        story.run.lines.clear();
        let story = story.step_with(vec![], StepAnswer::Done, first);
        let ended = |job: &str, text: &str| Observed::Ended {
            job: job.to_owned(),
            end: JobEnd::Succeeded,
            output: output(text),
        };
        let story = story.step(vec![ended("job-2", "20")], &[]);
        let joined = vec![(1, 0, Some(json!({ "all": order })))];
        story.step_with(vec![ended("job-1", "10")], StepAnswer::Done, joined).succeeds(3, &[])
    };
    holds(&story([10, 20]).ends_with("succeeded", &BOTH));
    breaks(&story([20, 10]).ends_with("succeeded", &BOTH), LISTS);
    let mut one = Story::of(&list(), &[]);
    one.run.lines.clear();
    let twice = vec![(0, 0, None), (0, 1, None), (0, 1, None)];
    breaks(&one.step_with(vec![], StepAnswer::Done, twice).ends_with("running", &[]), ONCE);
}

#[test]
fn a_gate_that_lets_through_undecided_is_found() {
    let approved = vec![Observed::Decided { node: 0, is_approved: true }];
    holds(&Story::of(&gate(), &[]).step(approved, &[1]).succeeds(1, &[]).ends_with("succeeded", &BOTH));
    breaks(&Story::of(&gate(), &[]).step(vec![], &[1]).ends_with("succeeded", &BOTH), GATES);
    // After its time it has failed, whatever is decided then.
    let mut late = Story::of(&gate(), &[]);
    late.now = late.now + Span::from_secs(60);
    let late =
        late.step_with(vec![Observed::Decided { node: 0, is_approved: true }], StepAnswer::Done, vec![(1, 0, None)]);
    breaks(&late.ends_with("succeeded", &BOTH), ANSWERS);
}

#[test]
fn a_success_that_runs_again_is_found() {
    let failed = || Story::of(&chain(), &[0]).succeeds(1, &[1]).ends(2, JobEnd::Failed, &[]);
    let resumed = || vec![Observed::Resumed { skip: vec![] }];
    holds(&failed().step(resumed(), &[1]).succeeds(3, &[]).ends_with("succeeded", &BOTH));
    breaks(&failed().step(resumed(), &[0, 1]).ends_with("running", &[]), SUCCESSES_STAY);
}

#[test]
fn an_end_that_the_nodes_do_not_say_is_found() {
    let over = || Story::of(&chain(), &[0]).succeeds(1, &[1]).ends(2, JobEnd::Failed, &[]);
    holds(&over().ends_with("failed", &["succeeded", "failed"]));
    breaks(&over().ends_with("succeeded", &["succeeded", "failed"]), ENDS);
    breaks(&over().ends_with("failed", &["succeeded", "succeeded"]), ENDS);
    breaks(&Story::of(&chain(), &[0]).succeeds(1, &[1]).ends_with("succeeded", &BOTH), ENDS);
}

#[test]
fn what_is_wrongly_refused_or_done_is_found() {
    let cancelled = || vec![Observed::Cancelled];
    let refused = Story::of(&chain(), &[0]).step_with(cancelled(), StepAnswer::Refused, vec![]);
    breaks(&refused.ends_with("succeeded", &BOTH), ANSWERS);
    let over = Story::of(&chain(), &[0]).succeeds(1, &[1]).succeeds(2, &[]);
    breaks(&over.step(cancelled(), &[]).ends_with("cancelled", &BOTH), ANSWERS);
}

/// As in an acceptance run, where jobs are known at the end only.
#[test]
fn jobs_that_are_seen_at_the_end_only_are_judged_by_what_began() {
    let check = |lines: Vec<RunLine>, jobs: &[(usize, &str)]| {
        let mut story = Story::of(&chain(), &[]);
        story.run.lines.clear();
        story.run.at_end.jobs = jobs
            .iter()
            .map(|(node, job)| NodeJob { job: (*job).to_owned(), node: *node, element: 0, input: None })
            .collect();
        story.run.lines = lines;
        story.ends_with("succeeded", &BOTH)
    };
    let step = |what: Vec<Observed>| {
        RunLine::Step(RunStep { at: Timestamp::EPOCH, what, answer: StepAnswer::Done, released: Released::Unseen })
    };
    let ended = |job: &str| step(vec![Observed::Ended { job: job.to_owned(), end: JobEnd::Succeeded, output: None }]);
    let began = |job: &str| RunLine::Began { job: job.to_owned() };
    let jobs = [(0, "a"), (1, "b")];
    holds(&check(vec![step(vec![]), began("a"), ended("a"), began("b"), ended("b")], &jobs));
    breaks(&check(vec![step(vec![]), began("a"), began("b"), ended("a"), ended("b")], &jobs), ORDER);
    breaks(&check(vec![step(vec![]), began("a"), ended("a")], &jobs[..1]), NOT_LOST);
    breaks(&check(vec![step(vec![]), began("a"), ended("a"), began("b")], &jobs), ENDS);
}
