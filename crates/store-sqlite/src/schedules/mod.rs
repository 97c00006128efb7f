//! Schedules, the ledger of their occurrences, and calendars. What the owner of a shard writes
//! about them goes through `transitions`.

mod calendars;
mod list;
mod load;
mod row;

use async_trait::async_trait;
use punctual_core::schedule::{OccurrenceRow, ScheduleChange, ScheduleRow, StoredCalendar};
use punctual_core::{NamespaceId, ScheduleId, ShardId, TaskId, Timestamp};
use punctual_store::{
    CalendarDeletion, CalendarUpdate, LoadedRow, OccurrenceFilter, Order, Result, ScheduleFilter, Schedules,
    ShardSchedules,
};

use crate::SqliteStore;

#[async_trait]
impl Schedules for SqliteStore {
    async fn shard_schedules(&self, shard: ShardId) -> Result<ShardSchedules> {
        self.shared.owner_reads.read(move |conn| load::of_shard(conn, shard)).await
    }

    async fn load_schedules(&self, shard: ShardId, after: Option<ScheduleId>, limit: usize) -> Result<Vec<LoadedRow>> {
        self.shared.owner_reads.read(move |conn| load::page(conn, shard, after, limit)).await
    }

    async fn watermarks(&self) -> Result<Vec<(ShardId, Timestamp)>> {
        self.shared.owner_reads.read(load::watermarks).await
    }

    async fn schedule(&self, id: ScheduleId) -> Result<Option<ScheduleRow>> {
        self.shared.people_reads.read(move |conn| list::one(conn, id)).await
    }

    async fn schedule_ids(&self, namespace: NamespaceId, names: Vec<String>) -> Result<Vec<(String, ScheduleId)>> {
        self.shared.people_reads.read(move |conn| list::ids(conn, namespace, names)).await
    }

    async fn list_schedules(
        &self,
        filter: ScheduleFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<ScheduleRow>, Option<String>)> {
        self.shared.people_reads.read(move |conn| list::schedules(conn, &filter, after.as_deref(), limit)).await
    }

    async fn schedules_of_task(&self, task: TaskId, limit: usize) -> Result<Vec<String>> {
        self.shared.people_reads.read(move |conn| list::names_of_task(conn, task, limit)).await
    }

    async fn schedule_changes(&self, id: ScheduleId, limit: usize) -> Result<Vec<ScheduleChange>> {
        self.shared.people_reads.read(move |conn| list::changes(conn, id, limit)).await
    }

    async fn occurrences(
        &self,
        schedule: ScheduleId,
        filter: OccurrenceFilter,
        after: Option<Timestamp>,
        order: Order,
        limit: usize,
    ) -> Result<(Vec<OccurrenceRow>, Option<Timestamp>)> {
        self.shared.people_reads.read(move |conn| list::occurrences(conn, schedule, &filter, after, order, limit)).await
    }

    async fn put_calendar(&self, calendar: StoredCalendar, expected: Option<u32>) -> Result<CalendarUpdate> {
        self.write(1, move |db| calendars::put(&db.conn, &calendar, expected)).await
    }

    async fn delete_calendar(
        &self,
        namespace: NamespaceId,
        name: &str,
        expected: Option<u32>,
    ) -> Result<CalendarDeletion> {
        let name = name.to_owned();
        self.write(1, move |db| calendars::delete(&db.conn, namespace, &name, expected)).await
    }

    async fn calendar(&self, namespace: NamespaceId, name: &str) -> Result<Option<StoredCalendar>> {
        let name = name.to_owned();
        self.shared.people_reads.read(move |conn| calendars::one(conn, namespace, &name)).await
    }

    async fn calendars(&self, namespace: Option<NamespaceId>) -> Result<Vec<StoredCalendar>> {
        self.shared.owner_reads.read(move |conn| calendars::all(conn, namespace)).await
    }

    async fn calendars_revision(&self) -> Result<u32> {
        self.shared.owner_reads.read(calendars::revision).await
    }

    async fn schedules_with_calendars(
        &self,
        names: Vec<(NamespaceId, String)>,
        after: Option<ScheduleId>,
        limit: usize,
    ) -> Result<Vec<LoadedRow>> {
        self.shared.owner_reads.read(move |conn| load::with_calendars(conn, names, after, limit)).await
    }
}
