//! Namespaces on the wire: the tenants of a cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DoneBy;

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
}

/// `PATCH /v1/namespaces/{name}`. What is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespaceEdit {
    /// Empty for none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
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
}

/// Namespaces in order of name: those in which whoever asks has a right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceList {
    pub namespaces: Vec<NamespaceView>,
}
