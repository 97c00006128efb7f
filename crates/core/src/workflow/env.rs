//! The values that nodes read: the input of the run, and the outputs of nodes that have ended.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::id::TaskId;

/// Longer outputs are kept with their jobs only, and other nodes find nothing there. The outputs of a node that fans out
/// share sixteen times as much.
pub const OUTPUT_KEPT_MAX: usize = 64 * 1024;

/// What the outputs of a node that fans out share.
const OUTPUTS_KEPT_MAX: usize = 16 * OUTPUT_KEPT_MAX;

/// How long an output may be to be kept, for one of so many jobs of its node.
pub(super) fn kept_max(jobs: usize) -> usize {
    if jobs <= 1 { OUTPUT_KEPT_MAX } else { (OUTPUTS_KEPT_MAX / jobs).min(OUTPUT_KEPT_MAX) }
}

/// What was read for a step.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The kept outputs of nodes, by element. A node without outputs has an empty map; one that is missing was not read.
    outputs: BTreeMap<u16, BTreeMap<u32, Value>>,
    /// Tasks that are not in the store any more.
    gone: BTreeSet<TaskId>,
}

impl Known {
    /// The outputs of a node were read; [`Known::put`] adds them.
    pub fn read(&mut self, node: u16) {
        self.outputs.entry(node).or_default();
    }

    pub fn put(&mut self, node: u16, item: u32, output: &[u8]) {
        self.outputs.entry(node).or_default().insert(item, value_of(output));
    }

    pub fn task_is_gone(&mut self, task: TaskId) {
        self.gone.insert(task);
    }

    pub(super) fn outputs(&self, node: u16) -> Option<&BTreeMap<u32, Value>> {
        self.outputs.get(&node)
    }

    pub(super) fn is_gone(&self, task: TaskId) -> bool {
        self.gone.contains(&task)
    }
}

/// What is not JSON is a text.
pub(super) fn value_of(output: &[u8]) -> Value {
    serde_json::from_slice(output).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(output).into_owned()))
}
