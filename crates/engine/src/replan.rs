//! Plans schedules again when their calendars have changed, page by page. Other work goes on meanwhile: the owner is
//! given a page when it has planned the one before.

use std::sync::Arc;

use punctual_core::ShardId;
use punctual_core::shard::event::Event;
use punctual_store::{Result, Store};

use crate::handle::{Engine, Inner};
use crate::inbox::{Inbox, Input};
use crate::lease_state::LeaseState;
use crate::plans::Plans;
use crate::tasks::TaskCache;

/// Schedules that are planned again at a time; everything else waits for them. One whose calendars close years ahead
/// takes half a millisecond, others some microseconds.
const PAGE: usize = 100;

impl Engine {
    /// Reads the calendars, and plans the schedules of this server whose calendars have changed.
    pub async fn replan(&self) -> Result<()> {
        let Inner { store, tasks, plans, inbox, lease, .. } = &*self.0;
        replan(&**store, tasks, plans, inbox, lease).await
    }
}

async fn replan(store: &dyn Store, tasks: &TaskCache, plans: &Plans, inbox: &Inbox, lease: &LeaseState) -> Result<()> {
    plans.refresh(store).await?;
    let names = plans.changed();
    if names.is_empty() {
        return Ok(());
    }
    let calendars = plans.revision();
    let mut after = None;
    loop {
        let rows = store.schedules_with_calendars(names.clone(), after, PAGE).await?;
        after = rows.last().map(|row| row.id).filter(|_| rows.len() >= PAGE);
        let owned: Arc<[ShardId]> = lease.owned();
        let ours = rows.into_iter().filter(|row| owned.contains(&row.id.shard())).collect();
        let rows = plans.join(store, tasks, ours).await?;
        inbox.send(Input::Event(Event::Replanned { rows, calendars }));
        // Pages that queue up would be planned in one go, and all that is due would wait for it.
        let has_ended = !inbox.taken().await;
        if has_ended || after.is_none() {
            break;
        }
    }
    plans.replanned(&names);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc::{Receiver, TryRecvError};
    use std::time::Duration;

    use futures_util::FutureExt;
    use punctual_core::schedule::{ScheduleEdit, ScheduleRow, StoredCalendar};
    use punctual_core::shard::{Config, Owner};
    use punctual_store::Schedules;
    use punctual_store_tests::fixture::{SHARDS, at, owner_of, server};
    use punctual_store_tests::model::ModelStore;
    use punctual_store_tests::schedule_fixture::{add, by, edit, new_schedule};

    use super::*;

    const CALENDAR: &str = "holidays";

    async fn users(store: &ModelStore, count: usize) {
        let dates = ["2026-12-25".parse().unwrap()].into();
        let calendar = StoredCalendar {
            namespace: punctual_core::NamespaceId::DEFAULT,
            name: CALENDAR.to_owned(),
            dates,
            revision: 0,
            changed: by("ada", 1),
        };
        store.put_calendar(calendar, None).await.unwrap();
        let spec = r#"{"when":{"rules":[{"cron":"0 9 * * *"}],"zone":"UTC"}}"#;
        let edit = ScheduleEdit { spec: spec.into(), calendars: vec![CALENDAR.to_owned()], ..edit(1) };
        let row = |n: u64| ScheduleRow { edit: edit.clone(), ..new_schedule(n, &format!("s{n}"), 1) };
        owner_of(store, &[]).await.done((0..count as u64).map(|n| add(&row(n))).collect()).await;
    }

    /// Takes what waits, as the driver does, and answers how many schedules are to be planned.
    fn take(inputs: &Receiver<Input>) -> usize {
        let owner = Owner::new(server(1), Config::default(), 0);
        let mut planned = 0;
        loop {
            match inputs.try_recv() {
                Ok(Input::Event(Event::Replanned { rows, .. })) => planned += rows.len(),
                Ok(Input::Query(ask)) => ask(&owner),
                Ok(_) => panic!("nothing else is sent"),
                Err(TryRecvError::Empty) => return planned,
                Err(TryRecvError::Disconnected) => panic!("the inbox is open"),
            }
        }
    }

    #[tokio::test]
    async fn the_owner_is_given_a_page_when_it_has_planned_the_one_before() {
        let store = ModelStore::new(SHARDS, at(0));
        users(&store, 2 * PAGE + 7).await;
        let (tasks, plans, lease) =
            (TaskCache::default(), Plans::default(), LeaseState::new(Arc::new(|| Duration::ZERO)));
        lease.set_owned(vec![ShardId(1)]);
        let (inbox, inputs) = Inbox::new();
        let mut replanning = pin!(replan(&store, &tasks, &plans, &inbox, &lease));
        for expected in [PAGE, PAGE, 7] {
            for _ in 0..100 {
                assert!(replanning.as_mut().now_or_never().is_none(), "it waits for the owner");
            }
            assert_eq!(take(&inputs), expected);
        }
        replanning.await.unwrap();
        assert_eq!(take(&inputs), 0);
    }

    #[tokio::test]
    async fn nobody_waits_for_an_owner_that_has_ended() {
        let store = ModelStore::new(SHARDS, at(0));
        users(&store, 2 * PAGE).await;
        let (tasks, plans, lease) =
            (TaskCache::default(), Plans::default(), LeaseState::new(Arc::new(|| Duration::ZERO)));
        let (inbox, inputs) = Inbox::new();
        drop(inputs);
        replan(&store, &tasks, &plans, &inbox, &lease).await.unwrap();
    }
}
