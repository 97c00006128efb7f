//! The cluster's authority on the wire.

use punctual_core::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An authority that issues the cluster's certificates. All of it is public.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuthorityView {
    /// Counts the authorities of the cluster, from 1.
    pub generation: u32,
    /// The SHA-256 of the certificate: `sha256:` and 64 hexadecimal digits.
    pub fingerprint: String,
    /// The certificate in PEM.
    pub certificate: String,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When the certificate expires.
    #[schema(value_type = String, format = DateTime)]
    pub not_after: Timestamp,
    /// When it is replaced by the next one. Absent for the latest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub retired_at: Option<Timestamp>,
}

/// The authorities that are trusted now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuthorityList {
    /// What the cluster is called in certificates.
    pub cluster: String,
    /// In order of generation. Servers show certificates of the first until it is retired.
    pub authorities: Vec<AuthorityView>,
}

/// `POST /v1/authority/rotate`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateAuthority {
    /// How long the former authority is trusted beside the new one, from 2 minutes to 365 days (default: 30 days).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "P7D")]
    pub overlap: Option<Span>,
}
