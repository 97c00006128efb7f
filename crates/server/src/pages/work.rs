//! Tasks, schedules, workflows and their runs.

use axum::extract::State;
use punctual_api::{
    ForecastQuery, ListQuery, OccurrenceQuery, PreviewQuery, RunQuery, ScheduleQuery, TaskQuery, VersionQuery,
    WorkflowQuery,
};
use punctual_app::permission::{ViewJobs, ViewSchedules, ViewTasks};
use punctual_app::{App, Checked};
use punctual_core::access::Right;
use serde::Deserialize;

use super::jobs::given;
use super::overview::Done;
use super::viewer::{Looks, notice};
use super::{Answer, answer};
use crate::parse::{Name, NoParams, Params, RunPath};
use crate::permit::Permit;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SchedulesQuery {
    prefix: Option<String>,
    cursor: Option<String>,
    /// `yes` plays all schedules through, however many there are.
    forecast: Option<String>,
    done: Option<String>,
}

impl Checked for SchedulesQuery {}

pub(super) async fn schedules(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<SchedulesQuery>,
) -> Answer {
    let prefix = given(query.prefix);
    let asked = ScheduleQuery { prefix: prefix.clone(), cursor: given(query.cursor), ..ScheduleQuery::default() };
    asked.check()?;
    let list = app.list_schedules(&by, asked).await?;
    // All schedules are played through for it: of many, that is for whoever asks. Another one may be under way.
    let is_wanted = list.next_cursor.is_none() || query.forecast.as_deref() == Some("yes");
    let forecast = match looks.is_renewal || list.schedules.is_empty() || !is_wanted {
        true => None,
        false => app.forecast(&by, ForecastQuery { prefix: prefix.clone(), ..ForecastQuery::default() }).await.ok(),
    };
    let viewer = looks.viewer(&app, by.principal()).await;
    let notice = notice(query.done.as_deref());
    Ok(answer(punctual_dashboard::schedules(&viewer, prefix.as_deref(), &list, forecast.as_ref(), notice)))
}

const HISTORY_SHOWN: &str = "30";
const NEXT_SHOWN: &str = "12";

pub(super) async fn schedule(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    looks: Looks,
    Name(name): Name,
    Params(query): Params<Done>,
) -> Answer {
    let schedule = app.schedule(&by, &name).await?;
    let past = OccurrenceQuery {
        order: Some("desc".to_owned()),
        limit: Some(HISTORY_SHOWN.to_owned()),
        ..OccurrenceQuery::default()
    };
    let past = app.occurrences(&by, &name, past).await?;
    let next = PreviewQuery { count: Some(NEXT_SHOWN.to_owned()), from: None };
    let next = app.preview_schedule(&by, &name, next).await?;
    let viewer = looks.viewer(&app, by.principal()).await;
    Ok(answer(punctual_dashboard::schedule(&viewer, &schedule, &past, &next, notice(query.done.as_deref()))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    pub(super) cursor: Option<String>,
    workflow: Option<String>,
    pub(super) done: Option<String>,
}

impl Checked for PageQuery {}

pub(super) async fn tasks(
    Permit(by): Permit<ViewTasks>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<PageQuery>,
) -> Answer {
    let query = TaskQuery { limit: None, cursor: given(query.cursor) };
    query.check()?;
    let list = app.list_tasks(&by, &query).await?;
    Ok(answer(punctual_dashboard::tasks(&looks.viewer(&app, by.principal()).await, &list)))
}

const JOBS_SHOWN: &str = "20";

pub(super) async fn task(
    Permit(by): Permit<ViewTasks>,
    State(app): State<App>,
    looks: Looks,
    Name(name): Name,
    _: NoParams,
) -> Answer {
    let task = app.task(&by, &name).await?;
    let jobs = match by.may(Right::ViewJobs) {
        true => {
            let query = ListQuery { task: Some(name), limit: Some(JOBS_SHOWN.to_owned()), ..ListQuery::default() };
            Some(app.list_jobs(&by.also::<ViewJobs>()?, query).await?)
        }
        false => None,
    };
    Ok(answer(punctual_dashboard::task(&looks.viewer(&app, by.principal()).await, &task, jobs.as_ref())))
}

pub(super) async fn workflows(
    Permit(by): Permit<ViewTasks>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<PageQuery>,
) -> Answer {
    let list = app.list_workflows(&by, &WorkflowQuery { limit: None, cursor: given(query.cursor) }).await?;
    Ok(answer(punctual_dashboard::workflows(&looks.viewer(&app, by.principal()).await, &list)))
}

pub(super) async fn workflow(
    Permit(by): Permit<ViewTasks>,
    State(app): State<App>,
    looks: Looks,
    Name(name): Name,
    _: NoParams,
) -> Answer {
    let workflow = app.workflow(&by, &name, &VersionQuery::default()).await?;
    let runs = match by.may(Right::ViewJobs) {
        true => {
            let query = RunQuery { workflow: Some(name), limit: Some(JOBS_SHOWN.to_owned()), cursor: None };
            Some(app.list_runs(&by.also::<ViewJobs>()?, query).await?)
        }
        false => None,
    };
    Ok(answer(punctual_dashboard::workflow(&looks.viewer(&app, by.principal()).await, &workflow, runs.as_ref())))
}

pub(super) async fn runs(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<PageQuery>,
) -> Answer {
    let workflow = given(query.workflow);
    let query = RunQuery { workflow: workflow.clone(), limit: None, cursor: given(query.cursor) };
    let list = app.list_runs(&by, query).await?;
    Ok(answer(punctual_dashboard::runs(&looks.viewer(&app, by.principal()).await, workflow.as_deref(), &list)))
}

pub(super) async fn run(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    looks: Looks,
    RunPath(id): RunPath,
    Params(query): Params<Done>,
) -> Answer {
    let run = app.run(&by, id).await?;
    let viewer = looks.viewer(&app, by.principal()).await;
    Ok(answer(punctual_dashboard::run(&viewer, &run, notice(query.done.as_deref()))))
}
