//! The cluster's authority.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use punctual_api::{AuthorityList, RotateAuthority};
use punctual_app::App;
use punctual_app::permission::{ManageCluster, ViewCluster};

use crate::parse::{JsonOrNothing, NoParams};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Shows the authorities that issue the cluster's certificates.
///
/// These certificates are public: every TLS handshake shows them. Compare the fingerprint with one that you got another way before
/// you trust them.
#[utoipa::path(get, path = "/v1/authority", operation_id = "get_authority", tag = "nodes", responses(
    (status = 200, description = "The authorities that are trusted now", body = AuthorityList),
    Problems,
))]
pub(crate) async fn read(
    Permit(_): Permit<ViewCluster>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.authorities().await?).into_response())
}

/// Replaces the authority that issues the cluster's certificates.
///
/// The former one is trusted beside the new one for `overlap`, so that everybody has the time to learn of the new one.
#[utoipa::path(post, path = "/v1/authority/rotate", operation_id = "rotate_authority", tag = "nodes",
    request_body = RotateAuthority, responses(
    (status = 200, description = "The authorities that are trusted from now on", body = AuthorityList),
    Problems,
))]
pub(crate) async fn rotate(
    Permit(by): Permit<ManageCluster>,
    State(app): State<App>,
    _: NoParams,
    JsonOrNothing(body): JsonOrNothing<RotateAuthority>,
) -> Result<Response, Refused> {
    let RotateAuthority { overlap } = body;
    Ok(axum::Json(app.rotate_authority(&by, overlap).await?).into_response())
}
