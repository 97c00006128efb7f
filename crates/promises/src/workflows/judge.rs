//! Judges a run: goes through its lines beside the [`Reference`], and names the promise that the first difference breaks.
//! What comes after a difference says nothing, so a run has at most one violation of its steps.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{NodeJob, Observed, Released, RunLine, RunStep, StepAnswer, WorkflowRun};
use super::reference::{Due, Happening, NodeStatus, Reference, RunStatus, Try};
use crate::Violation;

pub const ORDER: &str = "a node starts when its rule holds";
pub const NOT_LOST: &str = "no job of a run is lost";
pub const ONCE: &str = "a node has one job for each try";
pub const LISTS: &str = "each element of a list has one job, and results keep its order";
pub const INPUTS: &str = "a job is given what its node reads";
pub const GATES: &str = "nothing passes a gate that is not decided";
pub const SUCCESSES_STAY: &str = "what has succeeded does not run again";
pub const ANSWERS: &str = "a request about a run is done or refused";
pub const ENDS: &str = "a run ends as its nodes do";

/// Judges runs by all promises about them.
pub fn check_workflow_runs(runs: &[WorkflowRun]) -> Vec<Violation> {
    let judged = runs.iter().filter_map(|run| judge(run).err().map(|found| (run, found)));
    let violation =
        |(run, (promise, text)): (&WorkflowRun, Found)| Violation { promise, subject: Some(run.name.clone()), text };
    judged.map(violation).collect()
}

type Found = (&'static str, String);

struct Judge<'a> {
    run: &'a WorkflowRun,
    reference: Reference,
    /// The jobs that were made, and what they are tries of.
    tries: BTreeMap<&'a str, Try>,
    /// What every try is of.
    nodes: BTreeMap<Try, (usize, u32)>,
    unseen: BTreeMap<(usize, u32), &'a NodeJob>,
}

fn judge(run: &WorkflowRun) -> Result<(), Found> {
    let Some(RunLine::Step(first)) = run.lines.first() else {
        return Err((ENDS, "it has no first step".to_owned()));
    };
    let (reference, due) = Reference::begin(&run.definition, run.input.clone(), first.at);
    let unseen = run.jobs_at_end();
    let mut judge = Judge { run, reference, tries: BTreeMap::new(), nodes: BTreeMap::new(), unseen };
    let before: Vec<NodeStatus> = judge.reference.node_statuses().map(|_| NodeStatus::Waiting).collect();
    judge.released(first, due, &before)?;
    for line in &run.lines[1..] {
        match line {
            RunLine::Step(step) => judge.step(step)?,
            RunLine::Began { job } => judge.began(job)?,
        }
    }
    judge.at_end()
}

impl<'a> Judge<'a> {
    fn step(&mut self, step: &'a RunStep) -> Result<(), Found> {
        let happenings: Vec<Happening> = step.what.iter().filter_map(|what| self.happening(what)).collect();
        let before: Vec<NodeStatus> = self.reference.node_statuses().collect();
        match (self.reference.apply(&happenings, step.at), step.answer) {
            (Ok(due), StepAnswer::Done) => self.released(step, due, &before),
            (Err(_), StepAnswer::Refused) => self.released(step, Vec::new(), &before),
            (expected, answer) => {
                let expected = if expected.is_ok() { "done" } else { "refused" };
                Err((ANSWERS, format!("{:?} must be {expected} and is {answer:?}", step.what)))
            }
        }
    }

    /// `None` for the end of a job that is not of the run, which changes nothing.
    fn happening(&self, what: &Observed) -> Option<Happening> {
        Some(match what {
            Observed::Ended { job, end, output } => {
                Happening::Ended { number: *self.tries.get(job.as_str())?, end: *end, output: output.clone() }
            }
            Observed::Decided { node, is_approved } => Happening::Decided { node: *node, is_approved: *is_approved },
            Observed::Arrived { event, payload } => {
                Happening::Arrived { event: event.clone(), payload: payload.clone() }
            }
            Observed::Skipped { node } => Happening::Skipped { node: *node },
            Observed::Cancelled => Happening::Cancelled,
            Observed::Resumed { skip } => Happening::Resumed { skip: skip.clone() },
        })
    }

    /// The jobs that a step made are those that must start, each once. `before` is what the nodes were before the step.
    fn released(&mut self, step: &'a RunStep, due: Vec<Due>, before: &[NodeStatus]) -> Result<(), Found> {
        let Released::Seen(released) = &step.released else {
            for due in due {
                let job = self.unseen.remove(&(due.node, due.element));
                let place = self.run.place(due.node);
                let job = job.ok_or_else(|| (NOT_LOST, format!("{place} must have a job and has none")))?;
                self.bind(job, &due)?;
            }
            return Ok(());
        };
        let mut expected: BTreeMap<(usize, u32), Due> =
            due.into_iter().map(|due| ((due.node, due.element), due)).collect();
        let mut seen = BTreeSet::new();
        for job in released {
            match expected.remove(&(job.node, job.element)) {
                Some(due) => self.bind(job, &due)?,
                None => return Err(self.surplus(job, before, seen.contains(&(job.node, job.element)))),
            }
            seen.insert((job.node, job.element));
        }
        match expected.into_values().next() {
            None => Ok(()),
            Some(due) => {
                let (place, element) = (self.run.place(due.node), due.element);
                Err((NOT_LOST, format!("{place} [{element}] must start at {}, and has no job", step.at)))
            }
        }
    }

    fn bind(&mut self, job: &'a NodeJob, due: &Due) -> Result<(), Found> {
        if self.tries.insert(&job.job, due.number).is_some() {
            return Err((ONCE, format!("{} was made twice", job.job)));
        }
        self.nodes.insert(due.number, (due.node, due.element));
        match &job.input {
            Some(input) if *input != due.input => {
                let reads_list = self.run.definition.reads_list(due.node);
                let place = self.run.place(due.node);
                let promise = if reads_list { LISTS } else { INPUTS };
                Err((promise, format!("{} of {place} is given {input}, not {}", job.job, due.input)))
            }
            _ => Ok(()),
        }
    }

    /// Why a job must not be there.
    fn surplus(&self, job: &NodeJob, before: &[NodeStatus], is_second: bool) -> Found {
        let place = self.run.place(job.node);
        let now: Vec<NodeStatus> = self.reference.node_statuses().collect();
        let is_open = |need: &usize| now[*need] == NodeStatus::Open;
        let promise = match before.get(job.node) {
            Some(NodeStatus::Succeeded) => SUCCESSES_STAY,
            Some(NodeStatus::Active) if self.run.definition.is_list(job.node) => LISTS,
            Some(NodeStatus::Active) => ONCE,
            _ if is_second => ONCE,
            _ if self.run.definition.needs(job.node).iter().any(is_open) => GATES,
            _ => ORDER,
        };
        let status = before.get(job.node).map(|status| status.word());
        (promise, format!("{} [{}] of {place} was made, and the node was {status:?}", job.job, job.element))
    }

    fn began(&self, job: &str) -> Result<(), Found> {
        match self.tries.contains_key(job) {
            true => Ok(()),
            false => Err((ORDER, format!("{job} began, and no node of the run had asked for it"))),
        }
    }

    fn at_end(&self) -> Result<(), Found> {
        if let Some(job) = self.unseen.values().next() {
            let place = self.run.place(job.node);
            return Err((ORDER, format!("{} of {place} is there, and its turn never came", job.job)));
        }
        let status = self.reference.status();
        if status == RunStatus::Running {
            let open: Vec<String> = self.open_jobs();
            return Err((ENDS, format!("it has not ended; it waits for {open:?}")));
        }
        let at_end = &self.run.at_end;
        if at_end.status.as_deref() != Some(status.word()) {
            return Err((ENDS, format!("it is {:?}, and its nodes say {}", at_end.status, status.word())));
        }
        for (node, (shown, status)) in at_end.nodes.iter().zip(self.reference.node_statuses()).enumerate() {
            if shown != status.word() {
                let place = self.run.place(node);
                return Err((ENDS, format!("{place} is {shown}, and must be {}", status.word())));
            }
        }
        Ok(())
    }

    /// The jobs that the run waits for, for people.
    fn open_jobs(&self) -> Vec<String> {
        let open: BTreeSet<Try> = self.reference.under_way().into_iter().collect();
        let jobs = self.tries.iter().filter(|(_, number)| open.contains(number));
        jobs.map(|(job, number)| format!("{job} of {:?}", self.nodes.get(number))).collect()
    }
}
