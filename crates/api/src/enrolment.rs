//! Workers on other hosts on the wire: the tokens that they join with, and the workers that joined.

use std::collections::BTreeMap;

use punctual_core::{EnrolmentId, JoinTokenId, Span, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /v1/worker-tokens`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerTokenRequest {
    /// The queues that workers with this token may serve.
    pub queues: Vec<String>,
    /// The kinds of tasks that they may run, such as `binary`, `http`, `command`, `handler` or `handler:resize`.
    pub kinds: Vec<String>,
    /// The labels that they have. What a worker says of its labels does not count.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub labels: BTreeMap<String, String>,
    /// How long workers can join with it: 1h by default, 1m to 30d.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT1H")]
    pub expires_in: Option<Span>,
    /// How many workers can join with it: 1 by default, up to 10,000.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uses: Option<u32>,
    /// The namespaces whose jobs they run; `default` by default.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub namespaces: Vec<String>,
}

/// A join token without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerToken {
    #[schema(value_type = String)]
    pub id: JoinTokenId,
    /// `active`, `used_up`, `expired` or `deleted`.
    pub state: String,
    pub namespaces: Vec<String>,
    pub queues: Vec<String>,
    pub kinds: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// How many workers have joined with it.
    pub used: u32,
    pub uses: u32,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    pub created_by: String,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// A join token that was just created, the one time that it is shown.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CreatedWorkerToken {
    #[serde(flatten)]
    pub details: WorkerToken,
    /// The secret text that workers join with. It is not stored and cannot be shown again.
    pub token: String,
    /// The fingerprint of the authority by which workers recognize the servers.
    pub authority: String,
}

/// Never shows the token.
impl std::fmt::Debug for CreatedWorkerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CreatedWorkerToken").field(&self.details).finish()
    }
}

/// `GET /v1/worker-tokens`: all of them, the oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerTokenList {
    pub tokens: Vec<WorkerToken>,
}

/// A worker that joined, and what it may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EnrolmentView {
    #[schema(value_type = String)]
    pub id: EnrolmentId,
    /// As the worker called itself when it joined.
    pub name: String,
    /// `active`, `expired` or `revoked`.
    pub state: String,
    pub namespaces: Vec<String>,
    pub queues: Vec<String>,
    pub kinds: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// The join token that it used.
    #[schema(value_type = String)]
    pub token: JoinTokenId,
    #[schema(value_type = String, format = DateTime)]
    pub enrolled_at: Timestamp,
    /// When it got its latest certificate.
    #[schema(value_type = String, format = DateTime)]
    pub renewed_at: Timestamp,
    /// When that certificate expires. Workers renew it by themselves when half of its time has passed.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
}

/// `GET /v1/worker-enrolments`: the oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EnrolmentList {
    pub enrolments: Vec<EnrolmentView>,
    /// For the next page.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/worker-enrolments?…`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EnrolmentQuery {
    /// How many at most: 50 by default, up to 500.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    /// `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// `PATCH /v1/worker-enrolments/{id}` and `PATCH /v1/worker-tokens/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerEdit {
    /// The namespaces whose jobs the worker runs from now on: 1 to 256.
    #[schema(min_items = 1, max_items = 256)]
    pub namespaces: Vec<String>,
}
