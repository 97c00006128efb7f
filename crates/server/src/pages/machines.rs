//! Queues, workers and servers.

use axum::extract::State;
use punctual_api::{QueueQuery, WorkerQuery};
use punctual_app::permission::{ViewCluster, ViewJobs, ViewWorkers};
use punctual_app::{App, Checked};

use super::jobs::given;
use super::viewer::{Looks, notice};
use super::work::PageQuery;
use super::{Answer, answer};
use crate::parse::{NoParams, Params};
use crate::permit::Permit;

pub(super) async fn queues(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<PageQuery>,
) -> Answer {
    let asked = QueueQuery { limit: None, cursor: given(query.cursor) };
    asked.check()?;
    let list = app.list_queues(&by, &asked).await?;
    let viewer = looks.viewer(&app, by.principal()).await;
    Ok(answer(punctual_dashboard::queues(&viewer, &list, notice(query.done.as_deref()))))
}

pub(super) async fn workers(
    Permit(by): Permit<ViewWorkers>,
    State(app): State<App>,
    looks: Looks,
    _: NoParams,
) -> Answer {
    let list = app.workers(&by, &WorkerQuery { gone: Some("all".to_owned()) }).await?;
    Ok(answer(punctual_dashboard::workers(&looks.viewer(&app, by.principal()).await, &list.workers)))
}

pub(super) async fn cluster(
    Permit(by): Permit<ViewCluster>,
    State(app): State<App>,
    looks: Looks,
    _: NoParams,
) -> Answer {
    let list = app.servers(&by).await?;
    let node = app.node(&by).await?;
    Ok(answer(punctual_dashboard::cluster(&looks.viewer(&app, by.principal()).await, &list, &node)))
}
