//! What a store remembers of the database so as not to ask for it again: the numbers of nodes and of tasks, definitions of
//! workflows, their runs, and the partitions. All of it is dropped when the database turns out to be another instance, or an older state of itself: a
//! number may not be there any more, or may be that of something else.

use std::sync::Arc;

use punctual_core::Span;
use punctual_store::Graphs;

use crate::nodes::Nodes;
use crate::partitions::{Partitions, Table};
use crate::tasks::KnownTasks;
use crate::workflows::KnownRuns;

#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) tasks: Arc<KnownTasks>,
    /// Definitions that runs are stepped by.
    pub(crate) graphs: Arc<Graphs>,
    pub(crate) runs: Arc<KnownRuns>,
    pub(crate) partitions: Arc<Partitions>,
    pub(crate) occurrence_partitions: Arc<Partitions>,
}

impl Memory {
    pub(crate) fn new(history_step: Span) -> Self {
        Self {
            nodes: Arc::default(),
            tasks: Arc::default(),
            graphs: Arc::default(),
            runs: Arc::default(),
            partitions: Arc::new(Partitions::new(Table::History, history_step)),
            occurrence_partitions: Arc::new(Partitions::new(Table::Occurrence, history_step)),
        }
    }

    pub(crate) fn forget(&self) {
        self.nodes.clear();
        self.tasks.clear();
        self.graphs.forget();
        self.runs.forget_all();
        self.forget_partitions();
    }

    pub(crate) fn forget_partitions(&self) {
        self.partitions.forget();
        self.occurrence_partitions.forget();
    }
}
