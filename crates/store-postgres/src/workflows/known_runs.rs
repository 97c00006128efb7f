//! Runs as this server knows them, so that the next step of one needs no read. The owner of a run's shard applies the ends of
//! its jobs, so what it wrote last is mostly what is there. Whether it is, the stamp of the row says when the step is written.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use punctual_core::RunId;
use punctual_core::workflow::RunState;
use punctual_store::{OpenRun, RunRow, RunStep};

/// What was used last has so many bytes, and so has what was used before. That is some 25,000 small runs each.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// A larger one is read again: it would push out hundreds of others.
const RUN_BYTES_MAX: usize = 256 << 10;
/// Outputs of one run that are kept, in bytes; longer ones are read when a node needs them.
const OUTPUTS_BYTES_MAX: usize = 4 << 10;
/// What one takes beside what varies.
const FIXED_BYTES: usize = 400;

/// Of nodes that have succeeded.
pub(super) type Outputs = Vec<(u16, Bytes)>;

/// A run without its state, and its state as the row has it.
pub(super) struct KnownRun {
    row: RunRow,
    state: Vec<u8>,
    stamp: i64,
    outputs: Outputs,
}

impl KnownRun {
    /// A run as it was read.
    pub(super) fn read(row: RunRow, stamp: i64) -> Self {
        Self { row, state: Vec::new(), stamp, outputs: Vec::new() }
    }

    /// A run that was started.
    pub(super) fn started(row: &RunRow) -> Self {
        Self::after(row.clone(), row.state_bytes(), Vec::new())
    }

    /// What a step made of a run, with its state as it is written.
    pub(super) fn after(mut row: RunRow, state: Vec<u8>, outputs: Outputs) -> Self {
        row.state = RunState::new(0, row.state.deadline);
        Self { row, stamp: stamp(&state), state, outputs }
    }

    /// `None` if what is kept cannot be read, which does not happen.
    pub(super) fn into_row(self) -> Option<(RunRow, i64, Outputs)> {
        let Self { mut row, state, stamp, outputs } = self;
        if !state.is_empty() {
            row.state = RunState::from_bytes(&state, row.id)?;
        }
        Some((row, stamp, outputs))
    }

    fn len(&self) -> usize {
        let Self { row, state, outputs, .. } = self;
        let input = row.input.as_ref().map_or(0, Bytes::len);
        let outputs: usize = outputs.iter().map(|(_, output)| output.len() + size_of::<(u16, Bytes)>()).sum();
        let texts = row.workflow.len() + row.made.who.len();
        FIXED_BYTES + state.len() + input + outputs + texts + size_of_val(&row.tasks[..])
    }
}

/// What is known of a run's outputs after a step. Lists are read when they are needed: some of their elements may be from
/// before.
pub(super) fn outputs_after(before: &[(u16, Bytes)], step: &RunStep, open: &OpenRun) -> Outputs {
    let mut known = before.to_vec();
    for (node, output) in &step.kept {
        known.retain(|(of, _)| *of != node.node);
        let held: usize = known.iter().map(|(_, output)| output.len()).sum();
        if !open.fans_out(node.node) && held + output.len() <= OUTPUTS_BYTES_MAX {
            // A copy of its own: these bytes may be a part of a message.
            known.push((node.node, Bytes::copy_from_slice(output)));
        }
    }
    known
}

/// Two states with the same stamp are the same. It is compared with what was written, so it need not be the same in another
/// program.
pub(super) fn stamp(state: &[u8]) -> i64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(state);
    hasher.finish() as i64
}

#[derive(Default)]
pub(crate) struct KnownRuns(Mutex<Generations>);

/// When the young ones are too many, they are the old ones, and the old ones are forgotten.
#[derive(Default)]
struct Generations {
    young: HashMap<RunId, KnownRun>,
    young_bytes: usize,
    old: HashMap<RunId, KnownRun>,
}

impl KnownRuns {
    fn kept(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever works out a step takes the run, and puts it back as it is written.
    pub(super) fn take(&self, id: RunId) -> Option<KnownRun> {
        let mut kept = self.kept();
        if let Some(run) = kept.young.remove(&id) {
            kept.young_bytes = kept.young_bytes.saturating_sub(run.len());
            return Some(run);
        }
        kept.old.remove(&id)
    }

    pub(super) fn put(&self, run: KnownRun) {
        let len = run.len();
        if len > RUN_BYTES_MAX {
            return;
        }
        let mut kept = self.kept();
        kept.old.remove(&run.row.id);
        if kept.young_bytes + len > KEPT_BYTES_MAX {
            kept.old = std::mem::take(&mut kept.young);
            kept.young_bytes = 0;
        }
        kept.young_bytes += len;
        if let Some(before) = kept.young.insert(run.row.id, run) {
            kept.young_bytes = kept.young_bytes.saturating_sub(before.len());
        }
    }

    /// Somebody else changed them, or nobody knows what was written.
    pub(crate) fn forget(&self, runs: &[RunId]) {
        runs.iter().for_each(|id| drop(self.take(*id)));
    }

    pub(crate) fn forget_all(&self) {
        *self.kept() = Generations::default();
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::schedule::By;
    use punctual_core::workflow::RunStatus;
    use punctual_core::{NamespaceId, ShardId, Timestamp};

    use super::*;

    fn run(n: u64, input: usize) -> KnownRun {
        let row = RunRow {
            id: RunId::new(Timestamp::EPOCH, ShardId(0), n),
            namespace: NamespaceId::DEFAULT,
            workflow: "flow".to_owned(),
            version: 1,
            made: By { at: Timestamp::EPOCH, who: "ann".to_owned() },
            input: Some(Bytes::from(vec![b' '; input])),
            tasks: Vec::new(),
            state: RunState::new(1, Timestamp::EPOCH),
            status: RunStatus::Running,
        };
        KnownRun::read(row, n as i64)
    }

    #[test]
    fn what_was_used_last_stays_and_memory_is_bounded() {
        let known = KnownRuns::default();
        let (one, all) = (100 << 10, 1_000);
        for n in 0..all {
            known.put(run(n, one));
            // The first is used again and again.
            let first = known.take(run(0, 0).row.id).expect("it was used just now");
            known.put(first);
        }
        let kept = known.kept();
        let bytes: usize = kept.young.values().chain(kept.old.values()).map(KnownRun::len).sum();
        assert!(bytes <= 2 * KEPT_BYTES_MAX && bytes > KEPT_BYTES_MAX, "{bytes}");
        assert_eq!(kept.young_bytes, kept.young.values().map(KnownRun::len).sum::<usize>());
        drop(kept);
        assert!(known.take(run(1, 0).row.id).is_none(), "it was not used for long");
        let last = known.take(run(all - 1, 0).row.id).expect("it was put last");
        let (row, stamp, _) = last.into_row().unwrap();
        assert_eq!((row.state.nodes.len(), stamp), (1, all as i64 - 1));
        known.put(run(5, RUN_BYTES_MAX));
        assert!(known.take(run(5, 0).row.id).is_none(), "it is too large");
    }
}
