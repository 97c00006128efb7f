//! Runs of workflows in the form that their promises are judged by.

use std::collections::BTreeMap;

use punctual_core::shard::write::{JobWrite, Settle, Write};
use punctual_core::workflow::{GateVerdict, RunEvent};
use punctual_core::{JobId, JobState, RunId, Timestamp};
use punctual_promises::workflows::{
    Definition, JobEnd, NodeJob, Observed, Released, RunAtEnd, RunLine, RunStep, StepAnswer, WorkflowRun,
};
use serde_json::Value;

use super::lost_commits;
use crate::history::{Fact, History};

/// The runs, without those that the database may have lost parts of.
pub(super) fn workflow_runs(history: &History) -> Vec<WorkflowRun> {
    let lost_at = lost_commits::lost_at(history);
    let mut runs: BTreeMap<RunId, WorkflowRun> = BTreeMap::new();
    let mut run_of_job: BTreeMap<JobId, RunId> = BTreeMap::new();
    for (noted_at, fact) in history.iter() {
        match fact {
            Fact::RunStarted { run, definition, input, at } if lost_at.is_none_or(|lost_at| noted_at > lost_at) => {
                let definition = Definition::read(definition).expect("definitions are drawn well");
                let input = read_json(input.as_deref());
                let at_end = RunAtEnd { status: None, nodes: Vec::new(), jobs: Vec::new() };
                let lines = vec![step(*at, Vec::new(), StepAnswer::Done)];
                runs.insert(*run, WorkflowRun { name: run.to_string(), definition, input, lines, at_end });
            }
            Fact::RunChanged { run, event, at, is_refused } => {
                let answer = if *is_refused { StepAnswer::Refused } else { StepAnswer::Done };
                add(&mut runs, *run, step(*at, observed(event), answer));
            }
            Fact::Released { run, node, job, input } => {
                run_of_job.insert(*job, *run);
                let released = NodeJob {
                    job: job.to_string(),
                    node: node.node.into(),
                    element: node.item,
                    input: Some(read_json(input.as_deref())),
                };
                let last = runs.get_mut(run).and_then(|run| run.lines.iter_mut().rev().find_map(as_step));
                if let Some(RunStep { released: Released::Seen(jobs), .. }) = last {
                    jobs.push(released);
                }
            }
            Fact::Committed { batch, void } => {
                let mut ended: BTreeMap<RunId, Vec<Observed>> = BTreeMap::new();
                for write in &batch.writes {
                    let Write::Job(JobWrite::Settle(settle)) = write else { continue };
                    let is_void = settle.attempt.is_none() && void.jobs.contains(&settle.key.id);
                    if let Some(run) = run_of_job.get(&settle.key.id).filter(|_| !is_void) {
                        ended.entry(*run).or_default().push(end(settle));
                    }
                }
                for (run, what) in ended {
                    add(&mut runs, run, step(batch.at, what, StepAnswer::Done));
                }
            }
            Fact::Begin { id, .. } => {
                if let Some(run) = run_of_job.get(id) {
                    add(&mut runs, *run, RunLine::Began { job: id.to_string() });
                }
            }
            Fact::RunFinal { run, row: Some(row) } => {
                if let Some(run) = runs.get_mut(run) {
                    run.at_end.status = Some(row.status.as_str().to_owned());
                    run.at_end.nodes = row.state.nodes.iter().map(|node| node.status.as_str().to_owned()).collect();
                }
            }
            _ => {}
        }
    }
    runs.into_values().collect()
}

fn as_step(line: &mut RunLine) -> Option<&mut RunStep> {
    match line {
        RunLine::Step(step) => Some(step),
        RunLine::Began { .. } => None,
    }
}

fn add(runs: &mut BTreeMap<RunId, WorkflowRun>, run: RunId, line: RunLine) {
    if let Some(run) = runs.get_mut(&run) {
        run.lines.push(line);
    }
}

fn step(at: Timestamp, what: Vec<Observed>, answer: StepAnswer) -> RunLine {
    RunLine::Step(RunStep { at, what, answer, released: Released::Seen(Vec::new()) })
}

fn read_json(text: Option<&[u8]>) -> Value {
    text.map_or(Value::Null, |text| serde_json::from_slice(text).expect("inputs are JSON"))
}

fn end(settle: &Settle) -> Observed {
    let end = match settle.state {
        JobState::Succeeded => JobEnd::Succeeded,
        JobState::Cancelled | JobState::Deleted => JobEnd::Cancelled,
        JobState::Failed | JobState::Lost | JobState::Quarantined | JobState::Scheduled | JobState::Running => {
            JobEnd::Failed
        }
    };
    let output = settle.output.as_ref().map(|output| output.to_vec());
    Observed::Ended { job: settle.key.id.to_string(), end, output }
}

fn observed(event: &RunEvent) -> Vec<Observed> {
    let places = |nodes: &[u16]| nodes.iter().map(|node| usize::from(*node)).collect();
    vec![match event {
        RunEvent::Tick | RunEvent::Reported | RunEvent::Ended { .. } => return Vec::new(),
        RunEvent::Decide { node, verdict, .. } => {
            Observed::Decided { node: usize::from(*node), is_approved: *verdict == GateVerdict::Approved }
        }
        RunEvent::Arrived { event, payload, .. } => {
            Observed::Arrived { event: event.clone(), payload: payload.as_ref().map(|payload| payload.to_vec()) }
        }
        RunEvent::Skip { node, .. } => Observed::Skipped { node: usize::from(*node) },
        RunEvent::Cancel { .. } => Observed::Cancelled,
        RunEvent::Resume { skip } => Observed::Resumed { skip: places(skip) },
    }]
}
