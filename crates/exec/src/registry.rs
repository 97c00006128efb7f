//! Which executor runs which kind of task.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::task::Run;

use crate::Executor;

#[derive(Clone, Default)]
pub struct Executors(BTreeMap<&'static str, Arc<dyn Executor>>);

impl Executors {
    /// The last executor of a kind counts.
    pub fn add(&mut self, executor: Arc<dyn Executor>) {
        self.0.insert(executor.kind(), executor);
    }

    pub fn get(&self, run: &Run) -> Option<&Arc<dyn Executor>> {
        self.0.get(run.kind())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The user that runs commands outside of the sandbox, if there is one.
    pub fn commands_as(&self) -> Option<String> {
        self.0.values().find_map(|executor| executor.runs_as())
    }

    /// What a worker with these executors announces.
    pub fn capabilities(&self) -> Vec<String> {
        self.0.values().flat_map(|executor| executor.capabilities()).collect()
    }
}
