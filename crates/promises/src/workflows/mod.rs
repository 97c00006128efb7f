//! The promises of docs/workflows.md about runs: when jobs start, that none is lost or made twice, what they are given, and how
//! runs end. All of them are judged beside a [`Reference`], which says what must follow from what happened.

mod definition;
mod history;
mod judge;
mod reference;
#[cfg(test)]
mod tests;
mod values;

pub use definition::Definition;
pub use history::{NodeJob, Observed, Released, RunAtEnd, RunLine, RunStep, StepAnswer, WorkflowRun};
pub use judge::{ANSWERS, ENDS, GATES, INPUTS, LISTS, NOT_LOST, ONCE, ORDER, SUCCESSES_STAY, check_workflow_runs};
pub use reference::{Due, Happening, JobEnd, NodeStatus, Reference, Refused, RunStatus, Try};
