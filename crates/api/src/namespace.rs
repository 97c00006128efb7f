//! Namespaces on the wire: the tenants of a cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DoneBy;
use crate::quota::{NamespaceUsage, Quotas, QuotasEdit};

/// The header that names the namespace of a request. Without it, that of the credential counts, or `default`.
pub const NAMESPACE_HEADER: &str = "punctual-namespace";

/// `POST /v1/namespaces`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespaceRequest {
    /// Lowercase letters, digits and hyphens, with a letter or digit at both ends. It never changes.
    #[schema(min_length = 1, max_length = 63)]
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// How much the namespace may have and use. One that is left out is not limited.
    #[serde(skip_serializing_if = "QuotasEdit::is_empty", default)]
    pub quotas: QuotasEdit,
}

/// `PATCH /v1/namespaces/{name}`. What is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespaceEdit {
    /// Empty for none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// What is left out stays; `null` removes a quota.
    #[serde(skip_serializing_if = "QuotasEdit::is_empty", default)]
    pub quotas: QuotasEdit,
}

/// A namespace as whoever asks sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceView {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub description: Option<String>,
    /// Grows with each change.
    pub revision: u32,
    pub created: DoneBy,
    pub changed: DoneBy,
    /// What whoever asks may do in it.
    pub rights: Vec<String>,
    /// How much the namespace may have and use. One that is left out is not limited.
    #[serde(skip_serializing_if = "Quotas::is_empty", default)]
    pub quotas: Quotas,
    /// What the namespace uses at the moment: only in the answer for one namespace. The `ETag` does not cover it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<NamespaceUsage>,
}

/// Namespaces in order of name: those in which whoever asks has a right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceList {
    pub namespaces: Vec<NamespaceView>,
}
