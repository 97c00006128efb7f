//! The jobs of a node that fans out: the states of its elements as lengths of equal ones, and the jobs that are under way.

use std::collections::BTreeMap;

use super::bytes::{Reader, Writer};
use super::job_of;
use crate::id::JobId;
use crate::workflow::node_ref::NodeRef;
use crate::workflow::state::{FanState, ItemStatus};

/// A longer list is damage: a definition may allow a tenth of it.
const ITEMS_MAX: u64 = 100_000;

/// How the id of a job is written.
mod form {
    /// It follows from its node and the time that was written last.
    pub(super) const SAME_TIME: u8 = 0;
    /// It follows from its node and the time after this byte.
    pub(super) const TIME: u8 = 1;
    pub(super) const ID: u8 = 2;
}

impl FanState {
    pub(super) fn write(&self, out: &mut Writer, node: NodeRef) {
        let lengths: Vec<&[u8]> = self.items.as_bytes().chunk_by(|one, other| one == other).collect();
        out.number(lengths.len() as u64);
        for equal in lengths {
            out.byte(equal[0]);
            out.number(equal.len() as u64);
        }
        for jobs in [&self.active, &self.failed] {
            write_jobs(jobs, out, node);
        }
    }
}

fn write_jobs(jobs: &BTreeMap<u32, JobId>, out: &mut Writer, node: NodeRef) {
    out.number(jobs.len() as u64);
    let mut before = 0;
    for (&item, &job) in jobs {
        out.number(u64::from(item - before));
        before = item;
        let at = job.due_at();
        if job_of(NodeRef { item, ..node }, at) != job {
            out.byte(form::ID);
            out.raw(&job.to_bytes());
        } else if out.is_last(at) {
            out.byte(form::SAME_TIME);
        } else {
            out.byte(form::TIME);
            out.time(at);
        }
    }
}

pub(super) fn read(read: &mut Reader<'_>, node: NodeRef) -> Option<FanState> {
    let mut items = String::new();
    for _ in 0..read.number()? {
        let letter = read.byte().filter(|letter| ItemStatus::ALL.iter().any(|status| status.letter() == *letter))?;
        let len = read.number().filter(|len| *len <= ITEMS_MAX - items.len() as u64)?;
        items.extend(std::iter::repeat_n(char::from(letter), len as usize));
    }
    let active = read_jobs(read, node)?;
    let failed = read_jobs(read, node)?;
    Some(FanState { items, active, failed })
}

fn read_jobs(read: &mut Reader<'_>, node: NodeRef) -> Option<BTreeMap<u32, JobId>> {
    let mut jobs = BTreeMap::new();
    let mut item = 0_u32;
    for _ in 0..read.number()? {
        item = item.checked_add(u32::try_from(read.number()?).ok()?)?;
        let node = NodeRef { item, ..node };
        let job = match read.byte()? {
            form::SAME_TIME => job_of(node, read.last_time()?),
            form::TIME => job_of(node, read.time()?),
            form::ID => JobId::from_bytes(read.raw(16)?)?,
            _ => return None,
        };
        jobs.insert(item, job);
    }
    Some(jobs)
}
