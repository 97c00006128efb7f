//! Notifications, artifacts, the audit log, and who may do what.

use axum::extract::State;
use punctual_api::{ArtifactQuery, AuditQuery, DeliveryQuery};
use punctual_app::permission::{
    CreateKeys, EditSecrets, ManagePeople, ReadAudit, ViewArtifacts, ViewJobs, ViewNotifications, ViewSecrets,
};
use punctual_app::{App, Checked};
use punctual_core::access::Right;
use punctual_dashboard::Confirmation;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::jobs::given;
use super::overview::Done;
use super::sessions::Form;
use super::viewer::{Looks, notice};
use super::work::PageQuery;
use super::{Answer, answer, see};
use crate::parse::{NoParams, Params};
use crate::permit::Permit;

pub(super) async fn notifications(
    Permit(by): Permit<ViewNotifications>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<PageQuery>,
) -> Answer {
    let asked = DeliveryQuery { limit: None, cursor: given(query.cursor) };
    asked.check()?;
    let rules = app.list_notifications(&by).await?;
    let deliveries = app.deliveries(&by, None, asked).await?;
    Ok(answer(punctual_dashboard::notifications(&looks.viewer(&app, by.principal()).await, &rules, &deliveries)))
}

pub(super) async fn artifacts(
    Permit(by): Permit<ViewArtifacts>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<PageQuery>,
) -> Answer {
    let asked = ArtifactQuery { limit: None, cursor: given(query.cursor) };
    asked.check()?;
    let list = app.list_artifacts(&by, &asked).await?;
    Ok(answer(punctual_dashboard::artifacts(&looks.viewer(&app, by.principal()).await, &list)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinesQuery {
    principal: Option<String>,
    action: Option<String>,
    object: Option<String>,
    outcome: Option<String>,
    cursor: Option<String>,
}

impl Checked for LinesQuery {}

pub(super) async fn audit(
    Permit(by): Permit<ReadAudit>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<LinesQuery>,
) -> Answer {
    let query = AuditQuery {
        principal: given(query.principal),
        action: given(query.action),
        object: given(query.object),
        outcome: given(query.outcome),
        cursor: given(query.cursor),
        ..AuditQuery::default()
    };
    query.check()?;
    let list = app.audit(&by, query.clone()).await?;
    Ok(answer(punctual_dashboard::audit(&looks.viewer(&app, by.principal()).await, &query, &list)))
}

pub(super) async fn keys(Permit(by): Permit<CreateKeys>, State(app): State<App>, looks: Looks, _: NoParams) -> Answer {
    let keys = app.list_keys(&by).await?;
    let sessions = app.list_sessions(by.principal()).await?;
    Ok(answer(punctual_dashboard::keys(&looks.viewer(&app, by.principal()).await, &keys, &sessions)))
}

pub(super) async fn people(
    Permit(by): Permit<ManagePeople>,
    State(app): State<App>,
    looks: Looks,
    _: NoParams,
) -> Answer {
    let list = app.list_users(&by).await?;
    Ok(answer(punctual_dashboard::people(&looks.viewer(&app, by.principal()).await, &list)))
}

pub(super) async fn namespaces(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    looks: Looks,
    _: NoParams,
) -> Answer {
    let list = app.list_namespaces(by.principal()).await?;
    Ok(answer(punctual_dashboard::namespaces(&looks.viewer(&app, by.principal()).await, &list)))
}

pub(super) async fn secrets(
    Permit(by): Permit<ViewSecrets>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<Done>,
) -> Answer {
    let list = app.list_secrets(&by).await?;
    let viewer = looks.viewer(&app, by.principal()).await;
    Ok(answer(punctual_dashboard::secrets(&viewer, &list, None, notice(query.done.as_deref()))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretForm {
    name: String,
    value: String,
}

impl Checked for SecretForm {}

/// Whoever may store secrets and see none of their names is sent to the overview.
pub(super) async fn set_secret(
    Permit(by): Permit<EditSecrets>,
    State(app): State<App>,
    _: NoParams,
    Form(SecretForm { name, value }): Form<SecretForm>,
) -> Answer {
    let value = Zeroizing::new(value.into_bytes());
    app.put_secret(&by, name.trim(), value).await?;
    let page = if by.may(Right::ViewSecrets) { "/secrets" } else { "/" };
    Ok(see(&format!("{page}?done={}", Confirmation::SecretStored.name())))
}
