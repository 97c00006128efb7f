//! What is on record between the times of a backfill may be much more than the times themselves.

use punctual_api::BackfillRequest;
use punctual_app::Backfilling;
use punctual_core::{JobState, Span};
use punctual_store::{BackfillProgress, BackfillRow, BackfillState, BackfillStep, Stepped};
use punctual_store_tests::fixture::at;
use punctual_store_tests::report_fixture::{RUNNING, backfill_job, new_backfill, step};

use crate::world::{World, by};

/// Of one step.
const STEP: usize = 1000;

#[tokio::test]
async fn the_wanted_times_are_found_among_many_others() {
    let world = World::new().await;
    let schedule = world.create(r#"{"name":"hourly","task":"t","cron":"0 * * * *","zone":"UTC"}"#).await.id;
    // Another backfill ran every second of the hours from 05:00 on, when the schedule was another one.
    let ended = BackfillProgress { state: BackfillState::Aborted, ..RUNNING };
    let row = BackfillRow { schedule, progress: ended.clone(), ..new_backfill(1) };
    assert!(world.store.add_backfill(row).await.unwrap());
    let seconds: Vec<i64> = (1..=3 * 3600).collect();
    for (version, part) in seconds.chunks(STEP).enumerate() {
        let time = |ago: i64| at(0) - Span::from_secs(ago);
        let made = part.iter().map(|ago| (time(*ago), backfill_job(*ago as u64, schedule, 0))).collect();
        let ended_runs = part.iter().map(|ago| (time(*ago), JobState::Succeeded)).collect();
        let step = BackfillStep { progress: ended.clone(), made, ended: ended_runs, ..step(1, version as u64) };
        assert_eq!(world.store.step_backfill(step).await.unwrap(), Stepped::Done);
    }
    let request = BackfillRequest { from: "2026-11-15".to_owned(), dry_run: true, ..BackfillRequest::default() };
    let Backfilling::Planned(plan) = world.owner.start_backfill(&by(&world.owner), "hourly", &request).await.unwrap()
    else {
        panic!("it was started")
    };
    // 05:00, 06:00 and 07:00.
    assert_eq!((plan.total - plan.runs, plan.passed_over), (3, 3), "{plan:?}");
    assert_eq!(plan.last.unwrap().local, "2026-11-16T08:00:00+00:00");
}
