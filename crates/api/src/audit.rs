//! The audit log, on the wire.

use punctual_core::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A line of the audit log as it is stored and hashed: its fields in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditLine {
    /// Lines are numbered from 1, without gaps.
    pub seq: u64,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Who did it: `local`, `token`, `key:deploy`, `user:ana`; `nobody` for somebody who did not prove who they are.
    pub principal: String,
    /// What the principal is: local_user, cluster_token, key, person, worker, server, agent or nobody.
    pub kind: String,
    /// The public id of the key, session or certificate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub credential: Option<String>,
    /// In which it was done or refused. Absent for what concerns the cluster, and in lines of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub namespace: Option<AuditNamespace>,
    /// Where the request came from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// What was done: the `operationId` of the request in the OpenAPI document, such as `apply_task`.
    pub action: String,
    /// To what, such as the name of a task or the id of a job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<String>,
    /// What it was before, in short. No payloads and no secrets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<String>,
    /// `done`, or the code of the error.
    pub outcome: String,
    /// How many refusals of one kind the line stands for, if it is more than one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub times: Option<u32>,
}

/// The namespace of a line. Another may have its name later, and never its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditNamespace {
    pub id: u32,
    pub name: String,
}

/// A line, and the hash that holds it in the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    #[serde(flatten)]
    pub line: AuditLine,
    /// SHA-256 of the hash before it and the line, in hexadecimal digits.
    pub hash: String,
}

/// A page of the audit log, the latest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditList {
    pub entries: Vec<AuditEntry>,
    /// Pass as `cursor` for the next page; absent on the last. A page may be short, even empty, and not be the last: a filter
    /// may have to look far.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/audit?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Such as `user:ana`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub principal: Option<String>,
    /// Such as `apply_task`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub action: Option<String>,
    /// Such as the name of a task or the id of a job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<String>,
    /// `done`, or the code of an error, such as `forbidden`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outcome: Option<String>,
    /// The name of a namespace. Without it, all lines for those who may read the log of the cluster, and those of the request's
    /// namespace for others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub namespace: Option<String>,
    /// Not before this time: RFC 3339 with a zone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<String>,
    /// Before this time: RFC 3339 with a zone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<String>,
    /// 1 to 1000; 100 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    /// `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// `GET /v1/audit/export?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditExportQuery {
    /// The number of the last line that is there already. Without it, from the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub after_seq: Option<String>,
}

/// Lines to be kept elsewhere, the oldest first; at most 1000.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditExport {
    /// Each is a JSON object: the line byte for byte, with its hash as the last field.
    pub lines: Vec<String>,
    /// There are no more lines up to the head.
    pub is_complete: bool,
    pub head: AuditHead,
}

/// Where the audit log begins and ends, signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditHead {
    /// The number of the last line that was removed because of `audit_retention`; 0: none was.
    pub base_seq: u64,
    pub base_hash: String,
    /// The number of the last line; 0: there is none.
    pub seq: u64,
    pub hash: String,
    /// Ed25519, of number and hash; empty if there is no line.
    pub signature: String,
    /// The key that it can be verified with. It is derived from the cluster's secret.
    pub public_key: String,
}
