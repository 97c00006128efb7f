//! The owner's reads and its one fenced write.

mod apply;
mod columns;
mod decide;
mod lane;
mod lanes;
mod named;
mod notices;
mod plain;
mod read;
mod schedules;
mod settle;
mod starts;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::shard::event::Load;
use punctual_core::shard::write::SharedBatch;
use punctual_core::{JobId, JobKey, ShardId};
use punctual_store::{Applied, FoundRow, LoadPage, OpenStarts, Result, Transitions};

use crate::PostgresStore;

pub(crate) use lanes::{Applying, Lanes};

#[async_trait]
impl Transitions for PostgresStore {
    async fn apply(&self, batch: SharedBatch) -> Result<Applied> {
        self.shared.lanes.apply(batch).await
    }

    async fn load(&self, load: Load) -> Result<LoadPage> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let page = read::load(&conn, &load).await?;
        conn.done();
        Ok(page)
    }

    async fn find(&self, id: JobId) -> Result<FoundRow> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let found = read::find(&conn, id).await?;
        conn.done();
        Ok(found)
    }

    async fn inputs(&self, keys: Vec<JobKey>) -> Result<Vec<Option<Bytes>>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let inputs = read::inputs(&conn, &keys).await?;
        conn.done();
        Ok(inputs)
    }

    async fn open_starts(&self, shard: ShardId) -> Result<OpenStarts> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let open = read::open_starts(&conn, shard).await?;
        conn.done();
        Ok(open)
    }
}
