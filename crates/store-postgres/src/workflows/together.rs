//! Steps of many runs, with as many statements as one run needs: a batch ends jobs of hundreds of runs, and a round trip for
//! each of them would cost more than all that they do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use punctual_core::workflow::{Missing, RunEvent};
use punctual_core::{RunId, ShardId, Timestamp};
use punctual_store::{Graphs, NewJob, OpenRun, RunStep, RunSteps, SUBMIT_MAX};

use super::step::{graph, write_runs};
use super::{Done, read_run};
use crate::codec::{self, Uuid};
use crate::connection::Conn;
use crate::jobs::store_within;
use crate::sql;
use crate::trouble::Trouble;

/// Runs whose rows are in memory at a time.
const RUNS_MAX: usize = 256;
/// Runs whose outputs are read at a time: those of one node may have a mebibyte.
const OUTPUTS_READ_MAX: usize = 32;
/// What is written at a time, in bytes of inputs and outputs. One step may have as much by itself.
const WRITTEN_BYTES_MAX: usize = 8 << 20;

/// The run, the ends of its jobs, and what has to be read before they can be applied.
type Unread = (OpenRun, Vec<RunEvent>, Missing);

/// Applies the ends of jobs to their runs. Locks the runs in order of id.
pub(super) async fn step(
    conn: &Arc<Conn>,
    graphs: &Graphs,
    ends: BTreeMap<RunId, Vec<RunEvent>>,
    now: Timestamp,
) -> Done<RunSteps> {
    let mut done = Written::default();
    let mut ends = ends.into_iter().peekable();
    while ends.peek().is_some() {
        let part: BTreeMap<RunId, Vec<RunEvent>> = ends.by_ref().take(RUNS_MAX).collect();
        let mut unread: VecDeque<Unread> = VecDeque::new();
        for (open, events) in lock(conn, graphs, part).await? {
            match open.step(&events, now) {
                Ok(step) => done.put(conn, step).await?,
                Err(missing) => unread.push_back((open, events, missing)),
            }
        }
        while !unread.is_empty() {
            let mut reading: Vec<Unread> = unread.drain(..unread.len().min(OUTPUTS_READ_MAX)).collect();
            let mut wanted: Vec<(&mut OpenRun, &Missing)> =
                reading.iter_mut().map(|(open, _, missing)| (open, &*missing)).collect();
            read_outputs(conn, &mut wanted).await?;
            for (open, events, _) in reading {
                match open.step(&events, now) {
                    Ok(step) => done.put(conn, step).await?,
                    Err(missing) => unread.push_front((open, events, missing)),
                }
            }
        }
        done.flush(conn).await?;
    }
    Ok(done.steps)
}

/// Those of the runs that are there.
async fn lock(
    conn: &Arc<Conn>,
    graphs: &Graphs,
    mut ends: BTreeMap<RunId, Vec<RunEvent>>,
) -> Done<Vec<(OpenRun, Vec<RunEvent>)>> {
    let ids: Vec<Uuid> = ends.keys().map(|id| Uuid::from(*id)).collect();
    let mut opened = Vec::with_capacity(ids.len());
    for row in conn.query(sql!("lock_runs"), &[&ids]).await? {
        let row = read_run(&row)?;
        let Some(events) = ends.remove(&row.id) else { continue };
        let graph = graph(conn, graphs, &row).await?;
        opened.push((OpenRun::new(row, graph).map_err(Trouble::Refused)?, events));
    }
    Ok(opened)
}

/// Reads the outputs that steps of these runs ask for.
pub(super) async fn read_outputs(conn: &Arc<Conn>, wanted: &mut [(&mut OpenRun, &Missing)]) -> Done<()> {
    let (mut runs, mut nodes): (Vec<Uuid>, Vec<i32>) = (Vec::new(), Vec::new());
    for (open, missing) in wanted.iter_mut() {
        for &node in &missing.0 {
            open.known.read(node);
            runs.push(open.id().into());
            nodes.push(node.into());
        }
    }
    let rows = conn.query(sql!("outputs_of_runs"), &[&runs, &nodes]).await?;
    for row in &rows {
        let run = codec::run_id(row, 0)?;
        let Some((open, _)) = wanted.iter_mut().find(|(open, _)| open.id() == run) else { continue };
        open.known.put(
            codec::value::<i32>(row, 1)? as u16,
            codec::value::<i32>(row, 2)? as u32,
            codec::value::<&[u8]>(row, 3)?,
        );
    }
    Ok(())
}

/// Steps that were worked out. They are written a part at a time, so that memory stays bounded.
#[derive(Default)]
struct Written {
    waiting: Vec<RunStep>,
    jobs: usize,
    bytes: usize,
    steps: RunSteps,
}

impl Written {
    async fn put(&mut self, conn: &Arc<Conn>, step: RunStep) -> Done<()> {
        let inputs = step.jobs.iter().filter_map(|job| job.input.as_ref()).map(bytes::Bytes::len).sum::<usize>();
        let bytes = inputs + step.kept.iter().map(|(_, output)| output.len()).sum::<usize>();
        if self.jobs + step.jobs.len() > SUBMIT_MAX || self.bytes + bytes > WRITTEN_BYTES_MAX {
            self.flush(conn).await?;
        }
        self.jobs += step.jobs.len();
        self.bytes += bytes;
        self.waiting.push(step);
        Ok(())
    }

    async fn flush(&mut self, conn: &Arc<Conn>) -> Done<()> {
        let mut steps = std::mem::take(&mut self.waiting);
        (self.jobs, self.bytes) = (0, 0);
        if steps.is_empty() {
            return Ok(());
        }
        write_runs(conn, &steps.iter().collect::<Vec<_>>()).await?;
        for step in &steps {
            self.steps.add(&step.row, &step.jobs);
        }
        let jobs: Vec<NewJob> = steps.iter_mut().flat_map(|step| std::mem::take(&mut step.jobs)).collect();
        store_within(conn, ShardId::COUNT_MAX, &jobs).await
    }
}
