//! The durable records of starts, and how many jobs of each have not ended.

use crate::id_map::IdMap;
use crate::shard::write::StartsId;

#[derive(Default)]
pub(super) struct StartRecords {
    /// How many jobs of each record have not ended.
    open: IdMap<StartsId, u32>,
}

impl StartRecords {
    /// A job was started in this record.
    pub(super) fn add(&mut self, starts: StartsId) {
        *self.open.entry(starts).or_default() += 1;
    }

    /// The record was not written: its jobs get another one.
    pub(super) fn withdraw(&mut self, starts: StartsId) {
        self.open.remove(&starts);
    }

    /// A job of this record has durably ended. True when it was the last, and the record says nothing any more.
    pub(super) fn release(&mut self, starts: StartsId) -> bool {
        let Some(open) = self.open.get_mut(&starts) else { return false };
        *open -= 1;
        let is_last = *open == 0;
        if is_last {
            self.open.remove(&starts);
        }
        is_last
    }
}
