//! What stored schedules mean. Schedules with equal specs share one plan: a million of them may mean a
//! few hundred different things.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};

use punctual_core::TaskId;
use punctual_core::schedule::recurrence::Calendar;
use punctual_core::schedule::{Plan, PlanError, seed_of};
use punctual_core::shard::event::LoadedSchedule;
use punctual_core::task::Task;
use punctual_store::{LoadedRow, Result, Store};

use crate::tasks::TaskCache;

/// After so many new plans, those that nobody uses any more are forgotten.
const SWEEP_EVERY: usize = 4096;

type Calendars = Arc<BTreeMap<String, Arc<Calendar>>>;

#[derive(Default)]
pub(crate) struct Plans(Mutex<State>);

#[derive(Default)]
struct State {
    shared: HashMap<Arc<str>, Weak<Plan>>,
    made_since_sweep: usize,
    /// As they were read last, and the largest revision among them.
    calendars: Calendars,
    revision: u32,
    /// Those that changed, and how many more times their schedules are to be planned anew.
    changed: BTreeMap<String, u32>,
}

/// What was planned by the old dates may be on its way to the owner when its schedules are planned anew. So
/// that is done again, a while later.
const REPLANS: u32 = 3;

impl Plans {
    /// The plan of a spec. `seed`, that of the name, matters for hashed slots alone.
    pub(crate) fn plan(&self, spec: &Arc<str>, seed: u64) -> std::result::Result<Arc<Plan>, PlanError> {
        let calendars = {
            let state = self.0.lock().expect("no panic while the lock is held");
            if let Some(plan) = state.shared.get(spec).and_then(Weak::upgrade) {
                return Ok(plan);
            }
            Arc::clone(&state.calendars)
        };
        let plan = Arc::new(Plan::read(spec, &calendars, seed)?);
        if Plan::is_hashed(&plan.spec) {
            return Ok(plan);
        }
        let mut state = self.0.lock().expect("no panic while the lock is held");
        // Calendars may have been read anew meanwhile; then this plan is replaced soon.
        if Arc::ptr_eq(&calendars, &state.calendars) {
            state.shared.insert(Arc::clone(spec), Arc::downgrade(&plan));
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
        let revision = store.calendars_revision().await?;
        let is_known = {
            let state = self.0.lock().expect("no panic while the lock is held");
            state.revision == revision
        };
        if is_known {
            return Ok(());
        }
        let stored = store.calendars().await?;
        // What was read may be newer than the revision, which is then read again.
        let revision = stored.iter().map(|calendar| calendar.revision).max().unwrap_or(0).min(revision);
        let calendars: Calendars = Arc::new(
            stored
                .into_iter()
                .map(|stored| {
                    let calendar = Calendar { name: stored.name.clone(), dates: stored.dates };
                    (stored.name, Arc::new(calendar))
                })
                .collect(),
        );
        let mut state = self.0.lock().expect("no panic while the lock is held");
        let known = std::mem::replace(&mut state.calendars, Arc::clone(&calendars));
        let changed = calendars.iter().filter(|(name, calendar)| known.get(*name) != Some(calendar));
        state.changed.extend(changed.map(|(name, _)| (name.clone(), REPLANS)));
        state.revision = revision;
        state.shared.retain(|_, plan| plan.upgrade().is_some_and(|plan| plan.spec.calendars.is_empty()));
        Ok(())
    }

    /// The calendars whose schedules are to be planned anew.
    pub(crate) fn changed(&self) -> Vec<String> {
        self.0.lock().expect("no panic while the lock is held").changed.keys().cloned().collect()
    }

    /// Their schedules were planned anew, once.
    pub(crate) fn replanned(&self, names: &[String]) {
        let mut state = self.0.lock().expect("no panic while the lock is held");
        for name in names {
            if let Some(left) = state.changed.get_mut(name) {
                *left -= 1;
            }
        }
        state.changed.retain(|_, left| *left > 0);
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

    fn loaded(&self, row: LoadedRow, tasks: &HashMap<TaskId, Arc<Task>>) -> Option<LoadedSchedule> {
        let LoadedRow { id, name, task, spec, priority, has_input, state } = row;
        let Some(task) = tasks.get(&task).cloned() else {
            tracing::error!(schedule = %name, %task, "the schedule's task is not in the store; it does not fire");
            return None;
        };
        let seed = seed_of(&name);
        let plan = self.plan(&spec, seed).unwrap_or_else(|error| {
            tracing::error!(schedule = %name, %error, "the schedule cannot be planned; it does not fire");
            Arc::new(Plan::never())
        });
        Some(LoadedSchedule { id, plan, task, seed, priority, has_input, state })
    }
}
