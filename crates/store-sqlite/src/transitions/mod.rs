//! The owner's reads and its one fenced write.

mod apply;
mod late;
mod ledger;
mod notices;
mod read;
mod requeue;
mod schedules;
mod settle;
mod starts;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::shard::event::Load;
use punctual_core::shard::write::SharedBatch;
use punctual_core::{JobId, JobKey, ShardId};
use punctual_store::{Applied, FoundRow, LoadPage, OpenStarts, Result, Transitions};

use crate::SqliteStore;

pub(crate) use read::{at_its_key, find};

#[async_trait]
impl Transitions for SqliteStore {
    async fn apply(&self, batch: SharedBatch) -> Result<Applied> {
        self.write(batch.writes.len(), move |db| apply::run(db, &batch)).await
    }

    async fn load(&self, load: Load) -> Result<LoadPage> {
        self.shared.owner_reads.read(move |conn| read::load(conn, &load)).await
    }

    async fn find(&self, id: JobId) -> Result<FoundRow> {
        self.shared.owner_reads.read(move |conn| read::find(conn, id)).await
    }

    async fn inputs(&self, keys: Vec<JobKey>) -> Result<Vec<Option<Bytes>>> {
        self.shared.owner_reads.read(move |conn| read::inputs(conn, &keys)).await
    }

    async fn open_starts(&self, shard: ShardId) -> Result<OpenStarts> {
        self.shared.owner_reads.read(move |conn| read::open_starts(conn, shard)).await
    }
}
