//! Keys, people and sessions on the wire. Secrets are in the answers that make them, and nowhere else.

use std::collections::BTreeMap;
use std::fmt;

use punctual_core::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DoneBy;

/// A text that nobody else may see: a password, or the secret of a key or a session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// `POST /v1/keys`. Either `role` or `rights`; neither may go beyond what whoever asks may do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// Of one key that is valid.
    #[schema(max_length = 128)]
    pub name: String,
    /// `viewer`, `operator`, `developer` or `admin`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role: Option<String>,
    /// Such as `jobs.submit`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_items = 64)]
    pub rights: Option<Vec<String>>,
    /// How long the key is valid; for ever by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "P90D")]
    pub expires_in: Option<Span>,
    /// The namespace in which the key counts. Without it, that of the request if it names one, else the cluster if whoever asks
    /// has these rights there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 63)]
    pub namespace: Option<String>,
}

/// `POST /v1/keys/{key}/rotate`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateRequest {
    /// How long the old key stays valid beside the new one; 24h by default, at most 30d.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT24H")]
    pub overlap: Option<Span>,
    /// How long the new key is valid; as long as the old one was by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "P90D")]
    pub expires_in: Option<Span>,
}

/// Whether a key is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    Valid,
    /// Another key took its place, and it is valid until it expires.
    Replaced,
    Expired,
    Revoked,
    /// The person on whose behalf it was made is disabled or was removed.
    OwnerDisabled,
}

impl KeyState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Replaced => "replaced",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::OwnerDisabled => "owner_disabled",
        }
    }
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    /// Public: a part of the key's text.
    pub id: String,
    pub name: String,
    /// Absent: the key is for the cluster, and counts in every namespace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub namespace: Option<String>,
    pub state: KeyState,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role: Option<String>,
    /// What it may do now: what was given to it and its owner still has.
    pub rights: Vec<String>,
    /// The person on whose behalf it was made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<String>,
    pub created: DoneBy,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// Behind the truth by up to a minute.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Timestamp>,
    /// The id of the key that took its place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaced_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked: Option<DoneBy>,
}

/// A new key with its secret, which is never shown again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyCreated {
    pub key: KeyView,
    /// What requests carry: `Authorization: Bearer punctual_key_…`.
    #[schema(value_type = String)]
    pub secret: SecretText,
}

/// Keys in order of name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyList {
    pub keys: Vec<KeyView>,
}

/// `POST /v1/users`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserRequest {
    #[schema(max_length = 128)]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 254)]
    pub mail: Option<String>,
    /// For the cluster, and so in every namespace: `viewer`, `operator`, `developer` or `admin`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role: Option<String>,
    /// By the name of a namespace, what the user may do there: a role, rights, or both.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub namespace_roles: BTreeMap<String, Vec<String>>,
    /// Without one nobody can log in as this person.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, min_length = 12, max_length = 1024)]
    pub password: Option<SecretText>,
}

/// `PATCH /v1/users/{user}`. What is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserEdit {
    /// Empty for none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 254)]
    pub mail: Option<String>,
    /// The role for the cluster; empty for none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role: Option<String>,
    /// By the name of a namespace, what the user may do there from now on; an empty list for nothing. Namespaces that are not
    /// named stay as they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub namespace_roles: BTreeMap<String, Vec<String>>,
    /// Ends the sessions, and the person's keys are refused for as long.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disabled: Option<bool>,
}

/// `PUT /v1/users/{user}/password`. Ends the sessions of the person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordRequest {
    #[schema(value_type = String, min_length = 12, max_length = 1024)]
    pub password: SecretText,
    /// The present one: needed by people who change their own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub current: Option<SecretText>,
}

/// A person, without anything of the password.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserView {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mail: Option<String>,
    /// For the cluster; absent for none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role: Option<String>,
    /// By the name of a namespace, what the user may do there. Shown are those in which whoever asks has a right, too.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub namespace_roles: BTreeMap<String, Vec<String>>,
    pub disabled: bool,
    /// Whether there is a password.
    pub has_password: bool,
    /// Who the person is at the provider of OpenID Connect, if they log in there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub openid: Option<OpenIdAccount>,
    /// Sessions that are open.
    pub sessions: usize,
    /// Grows with each change.
    pub revision: u32,
    pub created: DoneBy,
    pub changed: DoneBy,
}

/// An account at a provider of OpenID Connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenIdAccount {
    #[schema(example = "https://id.example.com")]
    pub issuer: String,
    /// What the provider calls the person for good.
    #[schema(example = "248289761001")]
    pub subject: String,
}

/// People in order of name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserList {
    pub users: Vec<UserView>,
}

/// `POST /v1/sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginRequest {
    #[schema(max_length = 128)]
    pub name: String,
    #[schema(value_type = String, max_length = 1024)]
    pub password: SecretText,
}

/// A session, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// Public: a part of the session's text.
    pub id: String,
    /// The name of the person who logged in.
    pub user: String,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// Behind the truth by up to a minute.
    #[schema(value_type = String, format = DateTime)]
    pub last_used_at: Timestamp,
    /// Where the login came from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// Whether this request was made with it.
    pub current: bool,
}

/// A new session with its secret, which is never shown again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionCreated {
    pub session: SessionView,
    /// What requests carry: `Authorization: Bearer punctual_session_…`.
    #[schema(value_type = String)]
    pub token: SecretText,
}

/// Open sessions, the latest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    pub sessions: Vec<SessionView>,
}

/// `GET /v1/whoami`: on whose behalf requests are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// `local_user`, `cluster_token`, `key` or `person`, for example.
    pub kind: String,
    /// As records show it, such as `user:ana`.
    pub name: String,
    /// The public id of the key or session.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub credential: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// In which this request is made.
    pub namespace: String,
    /// What the principal may do in it, and for the cluster.
    pub rights: Vec<String>,
}
