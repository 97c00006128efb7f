use std::collections::BTreeSet;

use punctual_core::schedule::{OccurrenceRow, ScheduleChange, ScheduleRow, StoredCalendar, Verdict};
use punctual_core::{NamespaceId, ScheduleId, ShardId, TaskId, Timestamp};
use punctual_store::{
    CalendarDeletion, CalendarUpdate, LoadedRow, OccurrenceFilter, Order, Result, ScheduleFilter, Schedules,
    ShardSchedules,
};

use super::{ModelStore, State};

/// Names that are shown of the schedules that use a calendar.
const USERS_SHOWN_MAX: usize = 10;

impl ModelStore {
    pub fn shard_schedules_now(&self, shard: ShardId) -> ShardSchedules {
        let state = self.state();
        let is_queued = |row: &&OccurrenceRow| row.schedule.shard() == shard && row.verdict == Verdict::Queued;
        let mut tracked: Vec<_> = state
            .hot
            .iter()
            .filter(|((of, _), _)| *of == shard)
            .filter_map(|((_, key), hot)| Some((hot.source.filter(|source| source.is_tracked)?, key.id)))
            .collect();
        tracked.sort_by_key(|(_, job)| *job);
        ShardSchedules {
            watermark: state.shards.get(&shard).map(|row| row.watermark).unwrap_or_default(),
            queued: state.occurrences.values().filter(is_queued).cloned().collect(),
            tracked,
        }
    }

    pub fn load_schedules_now(&self, shard: ShardId, after: Option<ScheduleId>, limit: usize) -> Vec<LoadedRow> {
        let state = self.state();
        let of_shard = state.schedules.values().filter(|row| row.id.shard() == shard);
        of_shard.filter(|row| after.is_none_or(|after| row.id > after)).take(limit).map(loaded).collect()
    }

    pub fn watermarks_now(&self) -> Vec<(ShardId, Timestamp)> {
        let state = self.state();
        let marks = state.shards.iter().map(|(shard, row)| (*shard, row.watermark));
        marks.filter(|(_, watermark)| *watermark > Timestamp::EPOCH).collect()
    }

    pub fn schedule_now(&self, id: ScheduleId) -> Option<ScheduleRow> {
        self.state().schedules.get(&id).cloned()
    }

    pub fn schedule_ids_now(&self, namespace: NamespaceId, names: &[String]) -> Vec<(String, ScheduleId)> {
        let state = self.state();
        let names: BTreeSet<&String> = names.iter().collect();
        let known = |name: &String| Some((name.clone(), *state.schedule_names.get(&(namespace, name.clone()))?));
        names.into_iter().filter_map(known).collect()
    }

    pub fn list_schedules_now(
        &self,
        filter: &ScheduleFilter,
        after: Option<&str>,
        limit: usize,
    ) -> (Vec<ScheduleRow>, Option<String>) {
        let state = self.state();
        let fits = |row: &&ScheduleRow| {
            filter.namespace == row.namespace
                && filter.task.is_none_or(|task| task == row.edit.task)
                && filter.is_paused.is_none_or(|is_paused| is_paused == row.state.pause.is_some())
                && filter.prefix.as_ref().is_none_or(|prefix| row.name.starts_with(prefix))
                && after.is_none_or(|after| row.name.as_str() > after)
        };
        let mut rows: Vec<ScheduleRow> = state.by_name().filter(fits).cloned().collect();
        for row in &mut rows {
            row.edit.input = None;
        }
        let limit = limit.max(1);
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| has_more).map(|row| row.name.clone());
        (rows, next)
    }

    pub fn schedules_of_task_now(&self, task: TaskId, limit: usize) -> Vec<String> {
        let state = self.state();
        let of_task = state.schedules.values().filter(|row| row.edit.task == task);
        let mut names: Vec<String> = of_task.map(|row| row.name.clone()).collect();
        names.sort_unstable();
        names.truncate(limit);
        names
    }

    pub fn schedule_changes_now(&self, id: ScheduleId, limit: usize) -> Vec<ScheduleChange> {
        let state = self.state();
        let changes = state.schedule_changes.range((id, 0)..=(id, u64::MAX)).rev();
        changes.take(limit).map(|(_, change)| change.clone()).collect()
    }

    pub fn occurrences_now(
        &self,
        schedule: ScheduleId,
        filter: &OccurrenceFilter,
        after: Option<Timestamp>,
        order: Order,
        limit: usize,
    ) -> (Vec<OccurrenceRow>, Option<Timestamp>) {
        let state = self.state();
        let fits = |row: &&OccurrenceRow| {
            row.schedule == schedule
                && filter.from.is_none_or(|from| row.at >= from)
                && filter.before.is_none_or(|before| row.at < before)
                && (filter.verdicts.is_empty() || filter.verdicts.contains(&row.verdict))
                && after.is_none_or(|after| match order {
                    Order::Ascending => row.at > after,
                    Order::Descending => row.at < after,
                })
        };
        let mut rows: Vec<OccurrenceRow> = state.occurrences.values().filter(fits).cloned().collect();
        if order == Order::Descending {
            rows.reverse();
        }
        let limit = limit.max(1);
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| has_more).map(|row| row.at);
        (rows, next)
    }

    pub fn put_calendar_now(&self, calendar: StoredCalendar, expected: Option<u32>) -> Result<CalendarUpdate> {
        self.state().all_or_nothing(|state| {
            let key = (calendar.namespace, calendar.name.clone());
            let revision = state.calendars.get(&key).map_or(0, |known| known.revision);
            if expected.is_some_and(|expected| expected != revision) {
                return Ok(CalendarUpdate::Conflict { revision });
            }
            let revision = state.last_revision.get(&()).copied().unwrap_or(0) + 1;
            state.last_revision.put((), revision);
            state.calendars.put(key, StoredCalendar { revision, ..calendar });
            Ok(CalendarUpdate::Done { revision })
        })
    }

    pub fn delete_calendar_now(
        &self,
        namespace: NamespaceId,
        name: &str,
        expected: Option<u32>,
    ) -> Result<CalendarDeletion> {
        self.state().all_or_nothing(|state| {
            let key = (namespace, name.to_owned());
            let Some(StoredCalendar { revision, .. }) = state.calendars.get(&key) else {
                return Ok(CalendarDeletion::Absent);
            };
            if expected.is_some_and(|expected| expected != *revision) {
                return Ok(CalendarDeletion::Conflict { revision: *revision });
            }
            let of_namespace = state.by_name().filter(|row| row.namespace == namespace);
            let users = of_namespace.filter(|row| row.edit.calendars.contains(&key.1));
            let users: Vec<String> = users.take(USERS_SHOWN_MAX).map(|row| row.name.clone()).collect();
            if !users.is_empty() {
                return Ok(CalendarDeletion::InUse(users));
            }
            state.calendars.take(&key);
            Ok(CalendarDeletion::Done)
        })
    }

    pub fn calendar_now(&self, namespace: NamespaceId, name: &str) -> Option<StoredCalendar> {
        self.state().calendars.get(&(namespace, name.to_owned())).cloned()
    }

    pub fn calendars_now(&self, namespace: Option<NamespaceId>) -> Vec<StoredCalendar> {
        let state = self.state();
        let wanted = |calendar: &&StoredCalendar| namespace.is_none_or(|namespace| namespace == calendar.namespace);
        state.calendars.values().filter(wanted).cloned().collect()
    }

    pub fn calendars_revision_now(&self) -> u32 {
        self.state().calendars.values().map(|calendar| calendar.revision).max().unwrap_or(0)
    }

    pub fn schedules_with_calendars_now(
        &self,
        names: &[(NamespaceId, String)],
        after: Option<ScheduleId>,
        limit: usize,
    ) -> Vec<LoadedRow> {
        let state = self.state();
        let is_asked = |row: &ScheduleRow, name: &String| {
            names.iter().any(|(namespace, asked)| (*namespace, asked) == (row.namespace, name))
        };
        let uses = |row: &&ScheduleRow| row.edit.calendars.iter().any(|name| is_asked(row, name));
        let users = state.schedules.values().filter(uses);
        users.filter(|row| after.is_none_or(|after| row.id > after)).take(limit).map(loaded).collect()
    }
}

impl State {
    fn by_name(&self) -> impl Iterator<Item = &ScheduleRow> {
        self.schedule_names.values().map(|id| &self.schedules[id])
    }
}

fn loaded(row: &ScheduleRow) -> LoadedRow {
    LoadedRow {
        id: row.id,
        namespace: row.namespace,
        name: row.name.clone(),
        task: row.edit.task,
        spec: row.edit.spec.clone(),
        priority: row.edit.priority,
        has_input: row.edit.input.is_some(),
        state: row.state.clone(),
    }
}

#[async_trait::async_trait]
impl Schedules for ModelStore {
    async fn shard_schedules(&self, shard: ShardId) -> Result<ShardSchedules> {
        Ok(self.shard_schedules_now(shard))
    }
    async fn load_schedules(&self, shard: ShardId, after: Option<ScheduleId>, limit: usize) -> Result<Vec<LoadedRow>> {
        Ok(self.load_schedules_now(shard, after, limit))
    }
    async fn watermarks(&self) -> Result<Vec<(ShardId, Timestamp)>> {
        Ok(self.watermarks_now())
    }
    async fn schedule(&self, id: ScheduleId) -> Result<Option<ScheduleRow>> {
        self.is_readable(id)?;
        Ok(self.schedule_now(id))
    }
    async fn schedule_ids(&self, namespace: NamespaceId, names: Vec<String>) -> Result<Vec<(String, ScheduleId)>> {
        Ok(self.schedule_ids_now(namespace, &names))
    }
    async fn list_schedules(
        &self,
        filter: ScheduleFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<ScheduleRow>, Option<String>)> {
        Ok(self.list_schedules_now(&filter, after.as_deref(), limit))
    }
    async fn schedules_of_task(&self, task: TaskId, limit: usize) -> Result<Vec<String>> {
        Ok(self.schedules_of_task_now(task, limit))
    }
    async fn schedule_changes(&self, id: ScheduleId, limit: usize) -> Result<Vec<ScheduleChange>> {
        Ok(self.schedule_changes_now(id, limit))
    }
    async fn occurrences(
        &self,
        schedule: ScheduleId,
        filter: OccurrenceFilter,
        after: Option<Timestamp>,
        order: Order,
        limit: usize,
    ) -> Result<(Vec<OccurrenceRow>, Option<Timestamp>)> {
        Ok(self.occurrences_now(schedule, &filter, after, order, limit))
    }
    async fn put_calendar(&self, calendar: StoredCalendar, expected: Option<u32>) -> Result<CalendarUpdate> {
        self.put_calendar_now(calendar, expected)
    }
    async fn delete_calendar(
        &self,
        namespace: NamespaceId,
        name: &str,
        expected: Option<u32>,
    ) -> Result<CalendarDeletion> {
        self.delete_calendar_now(namespace, name, expected)
    }
    async fn calendar(&self, namespace: NamespaceId, name: &str) -> Result<Option<StoredCalendar>> {
        Ok(self.calendar_now(namespace, name))
    }
    async fn calendars(&self, namespace: Option<NamespaceId>) -> Result<Vec<StoredCalendar>> {
        Ok(self.calendars_now(namespace))
    }
    async fn calendars_revision(&self) -> Result<u32> {
        Ok(self.calendars_revision_now())
    }
    async fn schedules_with_calendars(
        &self,
        names: Vec<(NamespaceId, String)>,
        after: Option<ScheduleId>,
        limit: usize,
    ) -> Result<Vec<LoadedRow>> {
        Ok(self.schedules_with_calendars_now(&names, after, limit))
    }
}
