//! Secrets on the wire: everything but their values.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DoneBy;

/// A secret, without its value, which nobody can read again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SecretView {
    #[schema(example = "stripe-key")]
    pub name: String,
    /// Grows with each change of the value.
    pub revision: u32,
    pub created: DoneBy,
    pub changed: DoneBy,
    /// How many tasks with a name refer to it; only in lists.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub used_by_tasks: Option<u64>,
}

/// All secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SecretList {
    /// All of them, in order of name.
    pub secrets: Vec<SecretView>,
}

/// `DELETE /v1/secrets/{name}?…`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SecretQuery {
    /// `true` deletes the secret although tasks refer to it. Their attempts fail until there is a secret of this name again.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub force: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DataKeyQuery {
    /// The namespace whose data key is replaced. Without it, those of all namespaces are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub namespace: Option<String>,
}

/// The data keys that secrets are sealed with were replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DataKeyRotated {
    /// The namespaces that have a new key. One whose key was replaced less than a minute ago keeps it.
    pub namespaces: Vec<RotatedDataKey>,
    /// How many secrets were sealed anew.
    pub resealed: u64,
}

/// The data key of one namespace was replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RotatedDataKey {
    #[schema(example = "default")]
    pub namespace: String,
    /// The name of the key that seals its secrets from now on.
    #[schema(example = "namespace/default/00001795622400000000")]
    pub current: String,
    /// How many secrets were sealed with it.
    pub resealed: u64,
}

/// The root key was replaced. Keys are shown by their ids, which are no secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RootKeyRotated {
    /// The id of the root key that sealed the database until now.
    #[schema(example = "9f86d081884c7d65")]
    pub former: String,
    /// The id of the one that seals it from now on.
    #[schema(example = "60303ae22b998861")]
    pub current: String,
    /// Where this server has it. The other servers of the cluster need it there too before they start again.
    pub place: String,
}
