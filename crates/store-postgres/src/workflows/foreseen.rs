//! Steps that are worked out before their batch is sent, on what is known of the runs, so that the ends of jobs and what
//! follows from them are one round trip. Nothing is locked meanwhile. The batch fails if a run is not as it was known any more,
//! and is then applied step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use punctual_core::shard::write::{Batch, Void};
use punctual_core::workflow::{Missing, RunEvent};
use punctual_core::{RunId, ShardId, Timestamp};
use punctual_store::{NewJob, OpenRun, RunStep, RunSteps, SUBMIT_MAX, run_ends};

use super::known_runs::{self, KnownRun, Outputs, stamp};
use super::step::{graph, outputs};
use super::together::read_outputs;
use super::{Done, read_run};
use crate::codec::{self, Uuid};
use crate::connection::Conn;
use crate::jobs::insert_remembered;
use crate::memory::Memory;
use crate::pipeline::{Blob, Param, Step, column};
use crate::sql;
use crate::trouble::Trouble;

/// Rows that are read at a time.
const RUNS_READ_MAX: usize = 256;
/// Runs whose outputs are read at a time: those of one node may have a mebibyte.
const OUTPUTS_READ_MAX: usize = 32;
/// What is written with a batch, in bytes of states, inputs and outputs. More is written a part at a time.
const WRITTEN_BYTES_MAX: usize = 8 << 20;

/// What follows from a batch in runs, if they are as they were known.
#[derive(Default)]
pub(crate) struct Foreseen {
    /// After the ends of the jobs.
    pub(crate) statements: Vec<Step>,
    pub(crate) steps: RunSteps,
    /// Of which what is written is known from now on.
    pub(crate) runs: Vec<RunId>,
}

/// A run, what was known of its outputs, and what its row has to have.
struct Opened {
    open: OpenRun,
    outputs: Outputs,
    stamp: i64,
}

/// `None` if it has to be worked out step by step: it is too much, or a run or task was not used by this version yet.
/// Reads behind what was sent on this connection before.
pub(crate) async fn foresee(conn: &Arc<Conn>, memory: &Memory, batch: &Batch) -> Done<Option<Foreseen>> {
    let ends = run_ends(batch, &Void::default());
    let mut foresight = Foresight::default();
    let mut unknown: BTreeMap<RunId, Vec<RunEvent>> = BTreeMap::new();
    let mut known = Vec::new();
    for (id, events) in ends {
        match memory.runs.take(id) {
            Some(run) => known.push((run, events)),
            None => drop(unknown.insert(id, events)),
        }
    }
    if !foresight.add(conn, memory, known, batch.at).await? {
        return Ok(None);
    }
    while !unknown.is_empty() {
        let rest = unknown.keys().nth(RUNS_READ_MAX).copied();
        let later = rest.map(|id| unknown.split_off(&id)).unwrap_or_default();
        let Some(read) = read_runs(conn, std::mem::replace(&mut unknown, later)).await? else { return Ok(None) };
        if !foresight.add(conn, memory, read, batch.at).await? {
            return Ok(None);
        }
    }
    foresight.finish(conn, memory).await
}

/// Those of the runs that are there. `None` if an earlier version wrote one of them.
async fn read_runs(
    conn: &Arc<Conn>,
    mut ends: BTreeMap<RunId, Vec<RunEvent>>,
) -> Done<Option<Vec<(KnownRun, Vec<RunEvent>)>>> {
    let ids: Vec<Uuid> = ends.keys().map(|id| Uuid::from(*id)).collect();
    let mut found = Vec::with_capacity(ids.len());
    for row in conn.query(sql!("runs"), &[&ids]).await? {
        let Some(stamp) = codec::value::<Option<i64>>(&row, 10)? else { return Ok(None) };
        let run = read_run(&row)?;
        if let Some(events) = ends.remove(&run.id) {
            found.push((KnownRun::read(run, stamp), events));
        }
    }
    Ok(Some(found))
}

/// One step.
struct Written {
    step: RunStep,
    state: Vec<u8>,
    /// What the row has to have before.
    stamp: i64,
    /// What is known of the run's outputs from now on.
    outputs: Outputs,
}

#[derive(Default)]
struct Foresight {
    /// By id, which is the order of locks.
    written: BTreeMap<RunId, Written>,
    jobs: usize,
    bytes: usize,
}

impl Foresight {
    /// False if it is too much.
    async fn add(
        &mut self,
        conn: &Arc<Conn>,
        memory: &Memory,
        runs: Vec<(KnownRun, Vec<RunEvent>)>,
        now: Timestamp,
    ) -> Done<bool> {
        let mut unread: Vec<Unread> = Vec::new();
        for (run, events) in runs {
            let Some(opened) = open(conn, memory, run).await? else { return Ok(false) };
            if !self.step(opened, events, now, &mut unread) {
                return Ok(false);
            }
        }
        while !unread.is_empty() {
            let mut reading: Vec<Unread> = unread.drain(..unread.len().min(OUTPUTS_READ_MAX)).collect();
            let mut wanted: Vec<(&mut OpenRun, &Missing)> =
                reading.iter_mut().map(|(opened, _, missing)| (&mut opened.open, &*missing)).collect();
            read_outputs(conn, &mut wanted).await?;
            for (opened, events, _) in reading {
                if !self.step(opened, events, now, &mut unread) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// False if it is too much.
    fn step(&mut self, opened: Opened, events: Vec<RunEvent>, now: Timestamp, unread: &mut Vec<Unread>) -> bool {
        match opened.open.step(&events, now) {
            Ok(step) => self.put(&opened, step),
            Err(missing) => {
                unread.push((opened, events, missing));
                true
            }
        }
    }

    fn put(&mut self, opened: &Opened, step: RunStep) -> bool {
        let Opened { open, outputs, stamp } = opened;
        let state = step.row.state_bytes();
        self.jobs += step.jobs.len();
        self.bytes += state.len();
        self.bytes += step.jobs.iter().filter_map(|job| job.input.as_ref()).map(Bytes::len).sum::<usize>();
        self.bytes += step.kept.iter().map(|(_, output)| output.len()).sum::<usize>();
        let outputs = known_runs::outputs_after(outputs, &step, open);
        self.written.insert(open.id(), Written { step, state, stamp: *stamp, outputs });
        self.jobs <= SUBMIT_MAX && self.bytes <= WRITTEN_BYTES_MAX
    }

    /// What is written is known from now on: the batches behind this one, on the same connection, are applied only after it.
    async fn finish(self, conn: &Arc<Conn>, memory: &Memory) -> Done<Option<Foreseen>> {
        let mut foreseen = Foreseen::default();
        if self.written.is_empty() {
            return Ok(Some(foreseen));
        }
        let each = || self.written.values();
        let params: Vec<Param> = vec![
            column(each().map(|written| Uuid::from(written.step.row.id))),
            column(each().map(|written| i16::from(written.step.row.status.number()))),
            column(each().map(|written| Blob(Bytes::copy_from_slice(&written.state)))),
            column(each().map(|written| stamp(&written.state))),
            column(each().map(|written| written.step.wake_at.map(Timestamp::as_micros))),
            column(each().map(|written| written.step.ended_at.map(Timestamp::as_micros))),
            column(each().map(|written| written.stamp)),
        ];
        foreseen.statements.push(Step::Prepared(conn.prepare(sql!("write_runs_foreseen")).await?, params));
        let steps: Vec<&RunStep> = each().map(|written| &written.step).collect();
        foreseen.statements.extend(outputs(conn, &steps).await?);
        let jobs: Vec<&NewJob> = steps.iter().flat_map(|step| &step.jobs).collect();
        if !jobs.is_empty() {
            match insert_remembered(conn, &memory.tasks, ShardId::COUNT_MAX, &jobs).await? {
                Some(statement) => foreseen.statements.push(statement),
                None => return Ok(None),
            }
        }
        for (id, Written { step, state, outputs, .. }) in self.written {
            foreseen.steps.add(&step.row, &step.jobs);
            foreseen.runs.push(id);
            if step.ended_at.is_none() {
                memory.runs.put(KnownRun::after(step.row, state, outputs));
            }
        }
        Ok(Some(foreseen))
    }
}

/// A run, the ends of its jobs, and what has to be read before they can be applied.
type Unread = (Opened, Vec<RunEvent>, Missing);

/// `None` if what is kept of it cannot be read.
async fn open(conn: &Arc<Conn>, memory: &Memory, run: KnownRun) -> Done<Option<Opened>> {
    let Some((row, stamp, outputs)) = run.into_row() else { return Ok(None) };
    let graph = graph(conn, &memory.graphs, &row).await?;
    let mut open = OpenRun::new(row, graph).map_err(Trouble::Refused)?;
    for (node, output) in &outputs {
        open.known.read(*node);
        open.known.put(*node, 0, output);
    }
    Ok(Some(Opened { open, outputs, stamp }))
}
