//! The audit log.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use punctual_api::{AuditExport, AuditExportQuery, AuditList, AuditQuery};
use punctual_app::App;
use punctual_app::permission::ReadAudit;

use crate::parse::Params;
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Lists who changed what, and what was refused, the latest first.
#[utoipa::path(get, path = "/v1/audit", operation_id = "list_audit", tag = "audit", params(AuditQuery), responses(
    (status = 200, description = "A page of the audit log", body = AuditList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ReadAudit>,
    State(app): State<App>,
    Params(query): Params<AuditQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.audit(&by, query).await?).into_response())
}

/// Gives out the lines of the audit log to be kept elsewhere, the oldest first, and its signed head.
#[utoipa::path(get, path = "/v1/audit/export", operation_id = "export_audit", tag = "audit", params(AuditExportQuery), responses(
    (status = 200, description = "Up to 1000 lines", body = AuditExport),
    Problems,
))]
pub(crate) async fn export(
    Permit(by): Permit<ReadAudit>,
    State(app): State<App>,
    Params(query): Params<AuditExportQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.export_audit(&by, query).await?).into_response())
}
