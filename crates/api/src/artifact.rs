//! Artifacts on the wire: uploaded files that tasks run or read.

use std::collections::BTreeMap;

use punctual_core::{ArtifactId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Declares a file before it is uploaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactRequest {
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The size in bytes.
    pub size: u64,
    /// Of the whole file: 64 hexadecimal digits.
    pub sha256: String,
    #[serde(default)]
    pub kind: ArtifactKind,
}

/// What an artifact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// A static program for Linux, which tasks run.
    #[default]
    Binary,
    /// Any content, which tasks read.
    File,
}

/// `GET /v1/artifacts?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ArtifactQuery {
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// What is known of an uploaded file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactView {
    #[schema(schema_with = schema::artifact_id)]
    pub id: ArtifactId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    pub kind: ArtifactKind,
    pub size: u64,
    pub sha256: String,
    #[schema(schema_with = schema::artifact_state)]
    pub state: String,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it became ready or was refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub settled_at: Option<Timestamp>,
    /// The kind of processor that runs it, if it is ready.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "x86_64")]
    pub machine: Option<String>,
    /// Why it was refused, and what to do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Where object storage has the file, if it is ready: `s3://bucket/…`, or a path in the server's storage folder.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// Where to send the file, while it is pending. Only in the answer to its creation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub upload: Option<UploadTarget>,
}

/// One request that uploads the file. It needs nothing else: the address is signed.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UploadTarget {
    #[schema(example = "PUT")]
    pub method: String,
    pub url: String,
    /// To be sent as they are.
    pub headers: BTreeMap<String, String>,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// Without the address: whoever has it can upload.
impl std::fmt::Debug for UploadTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UploadTarget").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// A page of artifacts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactList {
    pub artifacts: Vec<ArtifactView>,
    /// Pass as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}
