//! Where a cell happens: the cluster, the record of what is done to it, and what is to be
//! measured afterwards.

use std::time::Duration;

use super::measure::Measure;
use super::run::Timing;
use crate::clients::Caller;
use crate::clock::Moment;
use crate::cluster::Cluster;
use crate::history::{Fault, FaultEvent, Journal};

pub(super) struct Arena {
    pub(super) cluster: Cluster,
    pub(super) timing: Timing,
    pub(super) caller: Caller,
    nemesis: Journal,
    pub(super) measures: Vec<Measure>,
    /// What is known at once, without the history.
    pub(super) notes: Vec<String>,
}

impl Arena {
    pub(super) fn new(cluster: Cluster, timing: Timing, caller: Caller) -> anyhow::Result<Self> {
        let nemesis = cluster.folder.nemesis_journal()?;
        Ok(Self { cluster, timing, caller, nemesis, measures: Vec::new(), notes: Vec::new() })
    }

    pub(super) fn record(&self, what: FaultEvent, target: impl Into<String>, note: impl Into<String>) -> Moment {
        let at = Moment::now();
        self.nemesis.write(&Fault { at, what, target: target.into(), note: note.into() });
        at
    }

    pub(super) fn begin(&mut self, target: impl Into<String>, note: impl Into<String>) -> Moment {
        let (target, note) = (target.into(), note.into());
        let at = self.record(FaultEvent::Begin, target.clone(), note.clone());
        self.measures.push(Measure::Hits { what: format!("{note} {target}"), at, of: None });
        at
    }

    pub(super) fn end(&self, target: impl Into<String>, note: impl Into<String>) -> Moment {
        self.record(FaultEvent::End, target, note)
    }

    /// From here on the system is left alone, and should be itself again within so long.
    pub(super) fn healed(&self, within: Duration) -> Moment {
        self.record(FaultEvent::Healed { within_ms: within.as_millis() as i64 }, "", "")
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(super) fn measure(&mut self, measure: Measure) {
        self.measures.push(measure);
    }

    /// The place of the server with the most shards, or with the fewest.
    pub(super) async fn server_by_shards(&self, most: Most) -> anyhow::Result<usize> {
        let mut owned = Vec::new();
        for (place, server) in self.cluster.servers.iter().enumerate().filter(|(_, server)| server.runs()) {
            owned.push((server.shards_owned().await.unwrap_or(0), place));
        }
        owned.sort_unstable();
        let chosen = match most {
            Most::Shards => owned.last(),
            Most::Rest => owned.first(),
        };
        chosen.map(|(_, place)| *place).ok_or_else(|| anyhow::anyhow!("no server runs"))
    }
}

/// Which server is meant.
#[derive(Debug, Clone, Copy)]
pub(super) enum Most {
    Shards,
    Rest,
}
