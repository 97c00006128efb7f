//! What stored schedules mean. Schedules with equal specs share one plan, and its calendars: a million of them may
//! mean a few hundred different things.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};

use punctual_core::id_map::IdMap;
use punctual_core::schedule::recurrence::Calendar;
use punctual_core::schedule::{Origin, OriginSchedule, Plan, PlanError, StoredCalendar};
use punctual_core::shard::event::LoadedSchedule;
use punctual_core::task::Task;
use punctual_core::{NamespaceId, TaskId};
use punctual_store::{LoadedRow, Result, Store};

use crate::tasks::TaskCache;

/// After so many new plans, those that nobody uses any more are forgotten.
const SWEEP_EVERY: usize = 4096;

/// Those of each namespace, by their names.
type Calendars = Arc<HashMap<NamespaceId, BTreeMap<String, Arc<Calendar>>>>;

/// A calendar as others refer to it.
type CalendarKey = (NamespaceId, String);

#[derive(Default)]
pub(crate) struct Plans(Mutex<State>);

#[derive(Default)]
struct State {
    /// In another namespace the names of calendars mean others.
    shared: HashMap<(NamespaceId, Arc<str>), Weak<Plan>>,
    made_since_sweep: usize,
    /// The calendars as they were read last.
    calendars: Calendars,
    /// The largest revision among the calendars.
    revision: u32,
    /// The generation of the store when the calendars were read: another instance of the database may count the same revisions again.
    generation: u64,
    revisions: BTreeMap<CalendarKey, u32>,
    /// Calendars that changed, and how many more times their schedules are to be planned anew.
    changed: BTreeMap<CalendarKey, u32>,
}

/// What was planned by the old dates may be on its way to the owner when its schedules are planned anew. So
/// that is done again, a while later.
const REPLANS: u32 = 3;

impl Plans {
    /// The plan of a spec. Whether hashed slots leave a schedule any date was judged when somebody wrote it.
    pub(crate) fn plan(&self, namespace: NamespaceId, spec: &Arc<str>) -> std::result::Result<Arc<Plan>, PlanError> {
        let key = (namespace, Arc::clone(spec));
        let calendars = {
            let state = self.0.lock().expect("no panic while the lock is held");
            if let Some(plan) = state.shared.get(&key).and_then(Weak::upgrade) {
                return Ok(plan);
            }
            Arc::clone(&state.calendars)
        };
        let none = BTreeMap::new();
        let plan = Arc::new(Plan::read_shared(spec, calendars.get(&namespace).unwrap_or(&none))?);
        let mut state = self.0.lock().expect("no panic while the lock is held");
        // Calendars may have been read anew meanwhile; then this plan is replaced soon.
        if Arc::ptr_eq(&calendars, &state.calendars) {
            state.shared.insert(key, Arc::downgrade(&plan));
            state.made_since_sweep += 1;
            if state.made_since_sweep >= SWEEP_EVERY {
                state.made_since_sweep = 0;
                state.shared.retain(|_, plan| plan.strong_count() > 0);
            }
        }
        Ok(plan)
    }

    /// Reads calendars again if any has changed.
    pub(crate) async fn refresh(&self, store: &dyn Store) -> Result<()> {
        let generation = store.generation();
        let revision = store.calendars_revision().await?;
        let known = {
            let state = self.0.lock().expect("no panic while the lock is held");
            if (state.revision, state.generation) == (revision, generation) {
                return Ok(());
            }
            Arc::clone(&state.calendars)
        };
        let stored = store.calendars(None).await?;
        // What was read may be newer than the revision, which is then read again.
        let revision = stored.iter().map(|calendar| calendar.revision).max().unwrap_or(0).min(revision);
        let revisions =
            stored.iter().map(|calendar| ((calendar.namespace, calendar.name.clone()), calendar.revision)).collect();
        let mut calendars: HashMap<NamespaceId, BTreeMap<String, Arc<Calendar>>> = HashMap::new();
        let mut changed = Vec::new();
        for StoredCalendar { namespace, name, dates, .. } in stored {
            let calendar = Calendar { name: name.clone(), dates };
            // One that has not changed stays the one that plans share.
            let shared = known.get(&namespace).and_then(|known| known.get(&name)).filter(|known| ***known == calendar);
            let calendar = shared.cloned().unwrap_or_else(|| {
                changed.push((namespace, name.clone()));
                Arc::new(calendar)
            });
            calendars.entry(namespace).or_default().insert(name, calendar);
        }
        let mut state = self.0.lock().expect("no panic while the lock is held");
        state.calendars = Arc::new(calendars);
        state.changed.extend(changed.into_iter().map(|key| (key, REPLANS)));
        (state.revision, state.revisions, state.generation) = (revision, revisions, generation);
        state.shared.retain(|_, plan| plan.upgrade().is_some_and(|plan| plan.spec.calendars.is_empty()));
        Ok(())
    }

    /// The newest revision of calendars that plans made from now on know.
    pub(crate) fn revision(&self) -> u32 {
        self.0.lock().expect("no panic while the lock is held").revision
    }

    /// Somebody was not told of what has changed since this revision.
    pub(crate) fn tell_again(&self, since: u32) {
        let mut state = self.0.lock().expect("no panic while the lock is held");
        let State { revisions, changed, .. } = &mut *state;
        for (key, _) in revisions.iter().filter(|(_, revision)| **revision > since) {
            changed.entry(key.clone()).or_insert(1);
        }
    }

    /// The calendars whose schedules are to be planned anew.
    pub(crate) fn changed(&self) -> Vec<CalendarKey> {
        self.0.lock().expect("no panic while the lock is held").changed.keys().cloned().collect()
    }

    /// Their schedules were planned anew, once.
    pub(crate) fn replanned(&self, names: &[CalendarKey]) {
        let mut state = self.0.lock().expect("no panic while the lock is held");
        for name in names {
            if let Some(left) = state.changed.get_mut(name) {
                *left -= 1;
            }
        }
        state.changed.retain(|_, left| *left > 0);
    }

    /// The schedule of a run that the owner may not have in memory. `None` if it is gone, or means nothing any more.
    pub(crate) async fn find(&self, store: &dyn Store, origin: &Origin) -> Result<Option<OriginSchedule>> {
        if origin.schedule.is_some() {
            return Ok(origin.schedule.clone());
        }
        let Some(row) = store.schedule(origin.source.schedule).await? else { return Ok(None) };
        if !row.edit.calendars.is_empty() {
            self.refresh(store).await?;
        }
        let plan = self.plan(row.namespace, &row.edit.spec).ok();
        let last_success = row.state.last_success;
        Ok(plan.map(|plan| OriginSchedule { name: row.name.into(), plan, last_success }))
    }

    /// Joins stored schedules with what they mean and with their tasks. What cannot be planned is
    /// reported and never fires; what has lost its task is left out. Neither may stop the others.
    pub(crate) async fn join(
        &self,
        store: &dyn Store,
        tasks: &TaskCache,
        rows: Vec<LoadedRow>,
    ) -> Result<Vec<LoadedSchedule>> {
        let found = tasks.find(store, rows.iter().map(|row| row.task)).await?;
        Ok(rows.into_iter().filter_map(|row| self.loaded(row, &found)).collect())
    }

    fn loaded(&self, row: LoadedRow, tasks: &IdMap<TaskId, Arc<Task>>) -> Option<LoadedSchedule> {
        let LoadedRow { id, namespace, name, task, spec, priority, has_input, state } = row;
        let Some(task) = tasks.get(&task).cloned() else {
            tracing::error!(schedule = %name, %task, "the schedule's task is not in the store; it does not fire");
            return None;
        };
        let plan = self.plan(namespace, &spec).unwrap_or_else(|error| {
            tracing::error!(schedule = %name, %error, "the schedule cannot be planned; it does not fire");
            Arc::new(Plan::never())
        });
        Some(LoadedSchedule { id, plan, task, name: name.into(), priority, has_input, state })
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::schedule::By;
    use punctual_store::Schedules;
    use punctual_store_tests::model::ModelStore;

    use super::*;

    fn spec(cron: &str) -> Arc<str> {
        format!(r#"{{"when":{{"rules":[{{"cron":"{cron}"}}],"zone":"Europe/Berlin"}}}}"#).into()
    }

    async fn put(store: &ModelStore, name: &str, day: u8) {
        let changed = By { at: Timestamp::EPOCH, who: "somebody".to_owned() };
        let dates = [format!("2026-12-{day:02}").parse().unwrap()].into();
        let calendar =
            StoredCalendar { namespace: NamespaceId::DEFAULT, name: name.to_owned(), dates, revision: 0, changed };
        store.put_calendar(calendar, None).await.unwrap();
    }

    #[tokio::test]
    async fn a_calendar_that_has_not_changed_stays_the_one_that_plans_share() {
        let (store, plans) = (ModelStore::new(1, Timestamp::EPOCH), Plans::default());
        let read = async || {
            plans.refresh(&store).await.unwrap();
            Arc::clone(&plans.0.lock().unwrap().calendars)
        };
        put(&store, "changes", 1).await;
        put(&store, "stays", 1).await;
        let before = read().await;
        put(&store, "changes", 2).await;
        let after = read().await;
        assert!(Arc::ptr_eq(&before[&NamespaceId::DEFAULT]["stays"], &after[&NamespaceId::DEFAULT]["stays"]));
        assert_ne!(before[&NamespaceId::DEFAULT]["changes"], after[&NamespaceId::DEFAULT]["changes"]);
        let key = |name: &str| (NamespaceId::DEFAULT, name.to_owned());
        assert_eq!(plans.changed(), [key("changes"), key("stays")], "both were new a moment ago");
    }

    #[tokio::test]
    async fn what_somebody_missed_is_told_again_and_nothing_else() {
        let (store, plans) = (ModelStore::new(1, Timestamp::EPOCH), Plans::default());
        put(&store, "old", 1).await;
        plans.refresh(&store).await.unwrap();
        let before = plans.revision();
        put(&store, "new", 1).await;
        plans.refresh(&store).await.unwrap();
        for _ in 0..REPLANS {
            plans.replanned(&plans.changed());
        }
        plans.tell_again(plans.revision());
        assert!(plans.changed().is_empty());
        plans.tell_again(before);
        assert_eq!(plans.changed(), [(NamespaceId::DEFAULT, "new".to_owned())]);
        plans.replanned(&plans.changed());
        assert!(plans.changed().is_empty());
    }

    #[test]
    fn schedules_with_one_spec_share_one_plan_whatever_their_names() {
        let plans = Plans::default();
        for cron in ["0 9 * * *", "H H * * *", "H H(0-7) * * H", "0 0 H(29-30) 2 *"] {
            // Each row brings a text of its own.
            let made: Vec<Arc<Plan>> =
                (0..10).map(|_| plans.plan(NamespaceId::DEFAULT, &spec(cron)).unwrap()).collect();
            assert!(made.iter().all(|plan| Arc::ptr_eq(plan, &made[0])), "{cron}");
        }
        assert_eq!(plans.0.lock().unwrap().shared.len(), 4);
    }
}
