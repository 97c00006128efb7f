//! Workflows: definitions are checked and stored here, and runs are started and changed.
//!
//! What follows from the end of a job is not decided here: a store works it out with the core, in the transaction that ends the
//! job. Here are the requests of people, and what time alone brings about.

mod apply;
mod change;
mod conduct;
mod job;
mod start;
mod view;

pub(crate) use apply::task_of_workflow;
pub use conduct::Conductor;
