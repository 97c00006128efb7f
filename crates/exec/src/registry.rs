//! The executors of a worker, by kind of task.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::task::Run;

use crate::Executor;

#[derive(Clone, Default)]
pub struct Executors(BTreeMap<&'static str, Arc<dyn Executor>>);

impl Executors {
    /// Adds an executor. It replaces an earlier one of its kind.
    pub fn add(&mut self, executor: Arc<dyn Executor>) {
        self.0.insert(executor.kind(), executor);
    }

    pub fn get(&self, run: &Run) -> Option<&Arc<dyn Executor>> {
        self.0.get(run.kind())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The user that runs commands outside the sandbox, if there is one.
    pub fn commands_as(&self) -> Option<String> {
        self.0.values().find_map(|executor| executor.runs_as())
    }

    /// The capabilities that a worker with these executors announces.
    pub fn capabilities(&self) -> Vec<String> {
        self.0.values().flat_map(|executor| executor.capabilities()).collect()
    }
}
