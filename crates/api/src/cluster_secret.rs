//! The cluster's secret on the wire. Its value is on none.

use punctual_core::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far a rotation of the cluster's secret is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterSecretStage {
    /// There is one secret.
    Settled,
    /// Servers accept what the next secret has signed, and sign with the one before.
    Announced,
    /// Servers sign with the new secret, and accept what the former one has signed.
    Signing,
}

/// A secret that is accepted beside the one that signs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OtherClusterSecret {
    #[schema(example = "60303ae22b998861")]
    pub id: String,
    /// Absent for the first secret of a cluster.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub made_at: Option<Timestamp>,
}

/// The secret that the cluster's tokens, signed URLs and proofs are derived from. Secrets are shown by their ids, which are no
/// secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterSecretView {
    /// The id of the secret that servers sign with.
    #[schema(example = "9f86d081884c7d65")]
    pub id: String,
    /// Absent for the first secret of a cluster.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub made_at: Option<Timestamp>,
    pub stage: ClusterSecretStage,
    /// When the stage began. Absent if the secret was never rotated.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub stage_since: Option<Timestamp>,
    /// The secret that is going to sign, while it is announced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<OtherClusterSecret>,
    /// The secret that signed before, as long as it is accepted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub former: Option<OtherClusterSecret>,
    /// The former secret is accepted until then, and until no attempt that began before runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub former_until: Option<Timestamp>,
    /// Servers that do not act by this stage yet.
    pub waiting_for: Vec<String>,
}

/// `POST /v1/cluster-secret/rotate`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateClusterSecret {
    /// How long the former secret is accepted once all servers sign with the new one, up to 365 days (default: 1 day).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "P1D")]
    pub overlap: Option<Span>,
}
