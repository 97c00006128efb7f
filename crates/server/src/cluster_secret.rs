//! The cluster's secret: how old it is, and its rotation. Its value is in no answer.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use punctual_api::{ClusterSecretView, RotateClusterSecret};
use punctual_app::App;
use punctual_app::permission::{ManageCluster, ViewCluster};

use crate::parse::{JsonOrNothing, NoParams};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Shows the id and the age of the cluster's secret, and how far a rotation is.
#[utoipa::path(get, path = "/v1/cluster-secret", operation_id = "get_cluster_secret", tag = "nodes", responses(
    (status = 200, description = "The secret, without its value", body = ClusterSecretView),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewCluster>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.cluster_secret(&by).await?).into_response())
}

/// Replaces the cluster's secret while servers run.
///
/// All servers first accept the new secret, and then sign with it; each stage begins when all have confirmed the one before. What
/// the former secret has signed is accepted for `overlap` more, and as long as an attempt runs that began before.
#[utoipa::path(post, path = "/v1/cluster-secret/rotate", operation_id = "rotate_cluster_secret", tag = "nodes",
    request_body = RotateClusterSecret, responses(
    (status = 200, description = "The secret and the stage of its rotation", body = ClusterSecretView),
    Problems,
))]
pub(crate) async fn rotate(
    Permit(by): Permit<ManageCluster>,
    State(app): State<App>,
    _: NoParams,
    JsonOrNothing(body): JsonOrNothing<RotateClusterSecret>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.rotate_cluster_secret(&by, body).await?).into_response())
}

/// Drops the former secret of the cluster now.
///
/// Everything that it has signed is refused from then on: outcomes of attempts that began before, tokens of their agents, URLs for
/// uploads and downloads, and access tokens.
#[utoipa::path(post, path = "/v1/cluster-secret/retire", operation_id = "retire_cluster_secret", tag = "nodes", responses(
    (status = 200, description = "The secret that is left", body = ClusterSecretView),
    Problems,
))]
pub(crate) async fn retire(
    Permit(by): Permit<ManageCluster>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.retire_cluster_secret(&by).await?).into_response())
}
