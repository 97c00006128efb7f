//! Aborted backfills whose jobs do not end: nobody waits for them for ever, and not for any number of them.

use punctual_api::{AbortRequest, BackfillRunQuery, BackfillStanding, BackfillView};
use punctual_app::{App, Backfilling};
use punctual_core::{BackfillId, Span};

use crate::Driven;
use crate::worker::{Lasts, Worker};
use crate::world::{by, eventually};

const ONE: &str = r#"{"from":"2026-11-16","to":"2026-11-16T01:00:00Z","include":"all"}"#;
const LEFT: &str = "1 job had not ended and is no longer counted";

/// It has made its one job, which no worker takes, and was aborted.
async fn aborted(app: &App) -> BackfillId {
    let wanted = serde_json::from_str(ONE).unwrap();
    let Backfilling::Started(started) = app.start_backfill(&by(app), "hourly", &wanted).await.unwrap() else {
        panic!("a dry run")
    };
    eventually("it has its job", || async { app.backfill(&by(app), started.id).await.unwrap().made == 1 }).await;
    let aborted = app.abort_backfill(&by(app), started.id, AbortRequest { cancel: false }).await.unwrap();
    assert_eq!((aborted.state, aborted.running), (BackfillStanding::Aborted, 1));
    started.id
}

async fn let_go(app: &App, id: BackfillId) -> BackfillView {
    eventually("it is let go", || async { app.backfill(&by(app), id).await.unwrap().running == 0 }).await;
    app.backfill(&by(app), id).await.unwrap()
}

async fn world() -> Driven {
    let world = Driven::new().await;
    world.create(r#"{"name":"hourly","task":"t","cron":"0 * * * *","zone":"UTC"}"#).await;
    world
}

#[tokio::test]
async fn one_whose_jobs_do_not_end_is_let_go_after_a_day_and_its_runs_still_tell() {
    let world = world().await;
    let app = &world.owner;
    let id = aborted(app).await;
    world.pass(Span::from_secs(86_400 - 60));
    let other = aborted(app).await;
    world.pass(Span::from_secs(60));
    let over = let_go(app, id).await;
    assert_eq!((over.state, over.note.as_deref()), (BackfillStanding::Aborted, Some(LEFT)));
    assert_eq!((over.succeeded, over.failed, over.cancelled), (0, 0, 0));
    assert_eq!(app.backfill(&by(app), other).await.unwrap().running, 1, "the other one has a day of its own");

    let state = || async {
        let runs = app.backfill_runs(&by(app), id, BackfillRunQuery::default()).await.unwrap().runs;
        runs[0].state.clone()
    };
    assert_eq!(state().await, "scheduled");
    // A backfill that finds its time there waits, as long as the job does.
    let rest = serde_json::from_str(r#"{"from":"2026-11-16","to":"2026-11-16T01:00:00Z"}"#).unwrap();
    let Backfilling::Started(rest) = app.start_backfill(&by(app), "hourly", &rest).await.unwrap() else {
        panic!("a dry run")
    };
    let waits =
        || async { app.backfill(&by(app), rest.id).await.unwrap().note.is_some_and(|note| note.contains("waits for")) };
    eventually("it waits", waits).await;
    let _worker = Worker::start(app, Lasts::For(std::time::Duration::ZERO)).await;
    eventually("the job ends", || async { state().await == "succeeded" }).await;
    let done = || async { app.backfill(&by(app), rest.id).await.unwrap().state == BackfillStanding::Done };
    eventually("nothing is left to run", done).await;
    assert_eq!(app.backfill(&by(app), rest.id).await.unwrap().passed_over, 1);
}

#[tokio::test]
async fn of_too_many_the_one_that_has_waited_longest_is_let_go() {
    let world = world().await;
    let app = &world.owner;
    let (first, second) = (aborted(app).await, aborted(app).await);
    for _ in 2..=punctual_store::BACKFILLS_MAX {
        aborted(app).await;
    }
    let over = let_go(app, first).await;
    assert_eq!((over.state, over.note.as_deref()), (BackfillStanding::Aborted, Some(LEFT)));
    assert_eq!(app.backfill(&by(app), second).await.unwrap().running, 1);
    // Their jobs can still be cancelled.
    app.abort_backfill(&by(app), first, AbortRequest { cancel: true }).await.unwrap();
    let runs = app.backfill_runs(&by(app), first, BackfillRunQuery::default()).await.unwrap().runs;
    assert_eq!(runs[0].state, "cancelled");
}
