//! Word of new jobs on its way to the owners of their shards. It may be lost: the owners' sweeps find the jobs.

use std::collections::HashMap;
use std::sync::Arc;

use punctual_core::shard::event::Loaded;
use punctual_core::{JobRow, ServerId};

use crate::cluster::Place;
use crate::{App, Peer, Result};

impl App {
    /// Passes word of new jobs on.
    pub(crate) fn tell_owners(&self, jobs: Vec<Loaded>) {
        let mut here = Vec::new();
        let mut away: HashMap<ServerId, (Peer, Vec<JobRow>)> = HashMap::new();
        let mut jobs = jobs.into_iter().peekable();
        while let Some(first) = jobs.next() {
            // Neighbours share a shard, so one look serves many.
            let shard = first.row.key.shard();
            let same =
                std::iter::once(first).chain(std::iter::from_fn(|| jobs.next_if(|job| job.row.key.shard() == shard)));
            match self.0.cluster.place(shard) {
                Place::Here => here.extend(same),
                Place::At(peer) => {
                    let (_, rows) = away.entry(peer.id).or_insert_with(|| (peer, Vec::new()));
                    rows.extend(same.map(|job| job.row));
                }
                Place::Nowhere => same.for_each(drop),
            }
        }
        if !here.is_empty() {
            self.0.engine.submitted(here);
        }
        for (peer, rows) in away.into_values() {
            self.0.peers.hint(&peer, rows);
        }
    }

    /// Takes word of jobs that a peer has stored. Those of tasks that are not there any more are left out.
    pub async fn peer_hint(&self, rows: Vec<JobRow>) -> Result<()> {
        let tasks = self.tasks_by_id(rows.iter().map(|row| row.task)).await?;
        let load = |row: JobRow| tasks.get(&row.task).map(|task| Loaded { task: Arc::clone(task), row });
        self.0.engine.submitted(rows.into_iter().filter_map(load).collect());
        Ok(())
    }
}
