//! Schedules, the ledger of their occurrences, and calendars. Written by the owner's batches; see
//! transitions/schedules.rs.

mod calendars;
mod list;
mod prune;
mod read;

use async_trait::async_trait;
use punctual_core::schedule::{OccurrenceRow, ScheduleChange, ScheduleRow, StoredCalendar};
use punctual_core::{NamespaceId, ScheduleId, ShardId, TaskId, Timestamp};
use punctual_store::{
    CalendarDeletion, CalendarUpdate, LoadedRow, OccurrenceFilter, Order, Result, ScheduleFilter, Schedules,
    ShardSchedules,
};

use crate::PostgresStore;

pub(crate) use prune::prune_ledger;

#[async_trait]
impl Schedules for PostgresStore {
    async fn shard_schedules(&self, shard: ShardId) -> Result<ShardSchedules> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let found = read::of_shard(&conn, shard).await?;
        conn.done();
        Ok(found)
    }

    async fn load_schedules(&self, shard: ShardId, after: Option<ScheduleId>, limit: usize) -> Result<Vec<LoadedRow>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let rows = read::load(&conn, shard, after, limit).await?;
        conn.done();
        Ok(rows)
    }

    async fn watermarks(&self) -> Result<Vec<(ShardId, Timestamp)>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let watermarks = read::watermarks(&conn).await?;
        conn.done();
        Ok(watermarks)
    }

    async fn schedule(&self, id: ScheduleId) -> Result<Option<ScheduleRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = read::one(&conn, id).await?;
        conn.done();
        Ok(row)
    }

    async fn schedule_ids(&self, namespace: NamespaceId, names: Vec<String>) -> Result<Vec<(String, ScheduleId)>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let ids = read::ids(&conn, namespace, &names).await?;
        conn.done();
        Ok(ids)
    }

    async fn list_schedules(
        &self,
        filter: ScheduleFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<ScheduleRow>, Option<String>)> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let page = list::schedules(&conn, &filter, after, limit).await?;
        conn.done();
        Ok(page)
    }

    async fn schedules_of_task(&self, task: TaskId, limit: usize) -> Result<Vec<String>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let names = read::of_task(&conn, task, limit).await?;
        conn.done();
        Ok(names)
    }

    async fn schedule_changes(&self, id: ScheduleId, limit: usize) -> Result<Vec<ScheduleChange>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let changes = read::changes(&conn, id, limit).await?;
        conn.done();
        Ok(changes)
    }

    async fn occurrences(
        &self,
        schedule: ScheduleId,
        filter: OccurrenceFilter,
        after: Option<Timestamp>,
        order: Order,
        limit: usize,
    ) -> Result<(Vec<OccurrenceRow>, Option<Timestamp>)> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let page = list::occurrences(&conn, schedule, &filter, after, order, limit).await?;
        conn.done();
        Ok(page)
    }

    async fn put_calendar(&self, calendar: StoredCalendar, expected: Option<u32>) -> Result<CalendarUpdate> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let update = calendars::put(&conn, &calendar, expected).await;
        if !matches!(update, Ok(CalendarUpdate::Done { .. })) {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(update?)
    }

    async fn delete_calendar(
        &self,
        namespace: NamespaceId,
        name: &str,
        expected: Option<u32>,
    ) -> Result<CalendarDeletion> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let deletion = calendars::delete(&conn, namespace, name, expected).await?;
        conn.done();
        Ok(deletion)
    }

    async fn calendar(&self, namespace: NamespaceId, name: &str) -> Result<Option<StoredCalendar>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let calendar = calendars::one(&conn, namespace, name).await?;
        conn.done();
        Ok(calendar)
    }

    async fn calendars(&self, namespace: Option<NamespaceId>) -> Result<Vec<StoredCalendar>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let calendars = calendars::all(&conn, namespace).await?;
        conn.done();
        Ok(calendars)
    }

    async fn calendars_revision(&self) -> Result<u32> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let revision = calendars::revision(&conn).await?;
        conn.done();
        Ok(revision)
    }

    async fn schedules_with_calendars(
        &self,
        names: Vec<(NamespaceId, String)>,
        after: Option<ScheduleId>,
        limit: usize,
    ) -> Result<Vec<LoadedRow>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let rows = calendars::users(&conn, &names, after, limit).await?;
        conn.done();
        Ok(rows)
    }
}
