//! The forms of jobs and schedules. What is refused is shown again as it was written, with the reason.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use punctual_api::{ErrorKind, JobRequest, PreviewQuery, ScheduleRequest, TaskQuery};
use punctual_app::permission::{EditSchedules, SubmitJobs, ViewSchedules, ViewTasks};
use punctual_app::{App, AppError, By, Checked, KeyedRequest, Permission, Precondition, parameters};
use punctual_core::access::Right;
use punctual_core::hex;
use punctual_dashboard::{Confirmation, FormFault, JobForm, JobPreview, ScheduleForm, SchedulePreview};
use serde::Deserialize;

use super::sessions::Form;
use super::viewer::{Looks, fault};
use super::{Answer, answer, see, url_escaped};
use crate::misfits::from_json;
use crate::parse::{Name, NoParams, Params};
use crate::permit::Permit;

/// More names help nobody to choose.
const TASKS_SHOWN: &str = "200";

/// The names of tasks, for whoever may see them.
async fn task_names<R: Permission>(app: &App, by: &By<R>) -> Result<Vec<String>, AppError> {
    if !by.may(Right::ViewTasks) {
        return Ok(Vec::new());
    }
    let query = TaskQuery { limit: Some(TASKS_SHOWN.to_owned()), cursor: None };
    let list = app.list_tasks(&by.also::<ViewTasks>()?, &query).await?;
    Ok(list.tasks.into_iter().map(|task| task.name).collect())
}

/// A form that is shown again. Nothing was changed.
fn shown_again(mut response: Response, error: Option<ErrorKind>) -> Response {
    let status = error.map_or(400, ErrorKind::http_status);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    response
}

/// What a page with the form begins with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewJobQuery {
    kind: Option<String>,
    task: Option<String>,
    artifact: Option<String>,
    workflow: Option<String>,
}

impl Checked for NewJobQuery {}

/// What a form sends as it was written. Its fields are judged when a request is made of it.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Written<T>(T);

impl<T> Checked for Written<T> {}

/// A form that is sent twice makes one job.
fn once(app: &App) -> String {
    let random = [app.random(), app.random()].map(u64::to_be_bytes).concat();
    format!("form-{}", hex::encode(random))
}

pub(super) async fn new_job(
    Permit(by): Permit<SubmitJobs>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<NewJobQuery>,
) -> Answer {
    let form = JobForm {
        kind: query.kind.unwrap_or_else(|| if by.may(Right::EditTasks) { "http" } else { "task" }.to_owned()),
        task: query.task.unwrap_or_default(),
        artifact: query.artifact.unwrap_or_default(),
        workflow: query.workflow.unwrap_or_default(),
        once: once(&app),
        ..JobForm::default()
    };
    let tasks = task_names(&app, &by).await?;
    let viewer = looks.viewer(&app, by.principal()).await;
    Ok(answer(punctual_dashboard::new_job(&viewer, &JobPreview { form, tasks, fault: None })))
}

pub(super) async fn preview_job(
    Permit(by): Permit<SubmitJobs>,
    State(app): State<App>,
    looks: Looks,
    _: NoParams,
    Form(Written(form)): Form<Written<JobForm>>,
) -> Answer {
    let tasks = task_names(&app, &by).await?;
    let viewer = looks.viewer(&app, by.principal()).await;
    Ok(answer(punctual_dashboard::new_job(&viewer, &JobPreview { form, tasks, fault: None })))
}

pub(super) async fn create_job(
    Permit(by): Permit<SubmitJobs>,
    State(app): State<App>,
    looks: Looks,
    _: NoParams,
    Form(Written(form)): Form<Written<JobForm>>,
) -> Answer {
    let (fault, kind) = match submit(&app, &by, &form).await {
        Ok(Ok(address)) => return Ok(see(&address)),
        Ok(Err(fault)) => (fault, None),
        Err(error) if matches!(error.kind.http_status(), 400 | 404 | 409 | 413 | 422) => {
            let kind = error.kind;
            (fault(error), Some(kind))
        }
        Err(error) => return Err(error.into()),
    };
    let tasks = task_names(&app, &by).await?;
    let viewer = looks.viewer(&app, by.principal()).await;
    let shown = JobPreview { form, tasks, fault: Some(fault) };
    Ok(shown_again(answer(punctual_dashboard::new_job(&viewer, &shown)), kind))
}

async fn submit(app: &App, by: &By<SubmitJobs>, form: &JobForm) -> Result<Result<String, FormFault>, AppError> {
    let body = match form.request() {
        Ok(body) => body,
        Err(fault) => return Ok(Err(fault)),
    };
    let request: JobRequest = from_json(body.as_bytes())?;
    let keyed = (!form.once.is_empty()).then(|| KeyedRequest { key: &form.once, body: body.as_bytes() });
    let submitted = app.submit(by, request, keyed, None).await?;
    // Whoever may only submit cannot look at it.
    Ok(Ok(match by.may(Right::ViewJobs) {
        true => format!("/jobs/{}?done={}", submitted.answer.id, Confirmation::Created.name()),
        false => format!("/jobs/new?kind={}", form.kind().name()),
    }))
}

/// What a page with the form begins with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewScheduleQuery {
    task: Option<String>,
}

impl Checked for NewScheduleQuery {}

pub(super) async fn new_schedule(
    Permit(by): Permit<EditSchedules>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<NewScheduleQuery>,
) -> Answer {
    let form = ScheduleForm { target: query.task.unwrap_or_default(), ..ScheduleForm::default() };
    show(&app, &by, looks, form, None).await
}

pub(super) async fn edit_schedule(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    looks: Looks,
    Name(name): Name,
    _: NoParams,
) -> Answer {
    let schedule = app.schedule(&by, &name).await?;
    let by = by.also::<EditSchedules>()?;
    let Some(form) = ScheduleForm::of(&schedule.definition, &schedule.name, schedule.revision) else {
        let detail = "its definition has more than this form can show: several rules, or a task of its own";
        let hint = format!(
            "change it with `punctual schedule edit {}`, or with PUT /v1/schedules/{}",
            schedule.name, schedule.name
        );
        return Err(AppError::invalid(detail).hint(hint).into());
    };
    show(&app, &by, looks, form, None).await
}

pub(super) async fn preview_schedule(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    looks: Looks,
    _: NoParams,
    Form(Written(form)): Form<Written<ScheduleForm>>,
) -> Answer {
    show(&app, &by, looks, form, None).await
}

async fn show<R: Permission>(
    app: &App,
    by: &By<R>,
    looks: Looks,
    form: ScheduleForm,
    fault: Option<FormFault>,
) -> Answer {
    let tasks = task_names(app, by).await?;
    let next = match form.value.trim().is_empty() || !by.may(Right::ViewSchedules) {
        true => None,
        false => Some(next(app, &by.also()?, &looks.zone_name(), &form).await),
    };
    let viewer = looks.viewer(app, by.principal()).await;
    let shown = SchedulePreview { form, tasks, next, fault };
    Ok(answer(punctual_dashboard::edit_schedule(&viewer, &shown)))
}

async fn next(
    app: &App,
    by: &By<ViewSchedules>,
    zone: &str,
    form: &ScheduleForm,
) -> Result<punctual_api::Preview, FormFault> {
    let request = form.request(zone)?;
    let request: ScheduleRequest = from_json(request.as_bytes()).map_err(fault)?;
    app.preview(by, request, PreviewQuery::default(), None).await.map_err(fault)
}

pub(super) async fn create_schedule(
    permit: Permit<EditSchedules>,
    app: State<App>,
    looks: Looks,
    _: NoParams,
    Form(Written(form)): Form<Written<ScheduleForm>>,
) -> Answer {
    let name = form.name.trim().to_owned();
    put(permit, app, looks, name, form).await
}

pub(super) async fn save_schedule(
    permit: Permit<EditSchedules>,
    app: State<App>,
    looks: Looks,
    Name(name): Name,
    _: NoParams,
    Form(Written(form)): Form<Written<ScheduleForm>>,
) -> Answer {
    put(permit, app, looks, name, form).await
}

async fn put(
    Permit(by): Permit<EditSchedules>,
    State(app): State<App>,
    looks: Looks,
    name: String,
    form: ScheduleForm,
) -> Answer {
    let revision = parameters::number("revision", Some(&*form.revision).filter(|text| !text.is_empty()), 0..=u32::MAX)?;
    let when = revision.map_or(Precondition::Absent, Precondition::Revision);
    let zone = looks.zone_name();
    let wrong = match form.request(&zone) {
        Err(fault) => fault,
        Ok(body) => {
            let saved = match from_json::<ScheduleRequest>(body.as_bytes()) {
                Ok(request) => app.put_schedule(&by, &name, request, when, None).await.map(drop),
                Err(error) => Err(error),
            };
            match saved {
                Ok(()) if by.may(Right::ViewSchedules) => {
                    return Ok(see(&format!("/schedules/{}?done={}", url_escaped(&name), Confirmation::Saved.name())));
                }
                Ok(()) => return Ok(see("/schedules/new")),
                Err(error) if matches!(error.kind.http_status(), 400 | 404 | 409 | 412 | 413 | 422) => fault(error),
                Err(error) => return Err(error.into()),
            }
        }
    };
    show(&app, &by, looks, form, Some(wrong)).await.map(|response| shown_again(response, None))
}
