//! One closed list of what can go wrong, and its total mappings.
//!
//! Titles and codes only: the detail and the hint of an error are written where a use case refuses (`app/src/`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! kinds {
    ($($variant:ident $code:literal $status:literal $exit:literal $title:literal;)*) => {
        /// Why a request was not granted. The codes are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorKind { $($variant),* }

        impl ErrorKind {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$variant => $status),* }
            }
            /// What the command line exits with.
            pub const fn exit_code(self) -> u8 {
                match self { $(Self::$variant => $exit),* }
            }
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),* }
            }
        }
    };
}

kinds! {
    InvalidRequest "invalid_request" 400 2 "The request is not valid";
    TlsRequired "tls_required" 400 2 "This port speaks TLS";
    Unauthenticated "unauthenticated" 401 4 "A credential is needed";
    InvalidToken "invalid_token" 401 4 "The token is not valid";
    CredentialExpired "credential_expired" 401 4 "The key or session has expired";
    CredentialRevoked "credential_revoked" 401 4 "The key or session does not count any more";
    OpenIdRefused "openid_refused" 401 4 "The login by OpenID Connect was refused";
    LoginFailed "login_failed" 401 4 "The name or the password is wrong";
InvalidJoinToken "invalid_join_token" 401 4 "The join token is not valid";
    ForeignJoinToken "foreign_join_token" 401 4 "The join token is for another cluster";
    Forbidden "forbidden" 403 4 "The right to do this is missing";
    JoinTokenExpired "join_token_expired" 403 4 "The join token has expired";
    JoinTokenRevoked "join_token_revoked" 403 4 "The join token was deleted";
    JoinTokenUsedUp "join_token_used_up" 403 4 "The join token has no uses left";
    WorkerRevoked "worker_revoked" 403 4 "The worker was revoked";
    WorkerNotEnrolled "worker_not_enrolled" 403 4 "The worker has no enrolment";
    OutOfScope "out_of_scope" 403 4 "The enrolment of the worker permits none of this";
    ForbiddenHost "forbidden_host" 403 4 "This host name is not served";
    BadSignature "bad_signature" 403 4 "The address is not one that we signed";
    UrlExpired "url_expired" 403 4 "The address is not valid any more";
    WrongAttempt "wrong_attempt" 403 4 "The token is for another attempt";
    ForbiddenOrigin "forbidden_origin" 403 4 "Requests from other web pages are refused";
    NotFound "not_found" 404 5 "There is nothing here";
    OpenIdOff "openid_off" 404 5 "Login by OpenID Connect is not set up";
    TaskNotFound "task_not_found" 404 5 "There is no such task";
    JobNotFound "job_not_found" 404 5 "There is no such job";
    ArtifactNotFound "artifact_not_found" 404 5 "There is no such artifact";
    ScheduleNotFound "schedule_not_found" 404 5 "There is no such schedule";
    WorkflowNotFound "workflow_not_found" 404 5 "There is no such workflow";
    QueueNotFound "queue_not_found" 404 5 "There is no such queue";
    BatchNotFound "batch_not_found" 404 5 "There is no such batch";
    RunNotFound "run_not_found" 404 5 "There is no such run";
    BackfillNotFound "backfill_not_found" 404 5 "There is no such backfill";
    CalendarNotFound "calendar_not_found" 404 5 "There is no such calendar";
    SecretNotFound "secret_not_found" 404 5 "There is no such secret";
    NotificationNotFound "notification_not_found" 404 5 "There is no such notification rule";
    KeyNotFound "key_not_found" 404 5 "There is no such key";
    UserNotFound "user_not_found" 404 5 "There is no such user";
    NamespaceNotFound "namespace_not_found" 404 5 "There is no such namespace";
    SessionNotFound "session_not_found" 404 5 "There is no such session";
WorkerTokenNotFound "worker_token_not_found" 404 5 "There is no such join token";
    EnrolmentNotFound "enrolment_not_found" 404 5 "There is no such enrolled worker";
    MethodNotAllowed "method_not_allowed" 405 2 "This method is not allowed here";
    RequestTimeout "request_timeout" 408 7 "The request did not arrive in time";
    TaskExists "task_exists" 409 6 "A task of this name exists";
    TaskInUse "task_in_use" 409 6 "Schedules refer to the task";
    ScheduleNameTaken "name_taken" 409 6 "A schedule of this name exists";
    ScheduleRefused "schedule_refused" 409 6 "The schedule cannot do this now";
    AuthorityRotating "authority_rotating" 409 6 "The authority is being replaced already";
    CalendarInUse "calendar_in_use" 409 6 "Schedules refer to the calendar";
    TooManyCalendars "too_many_calendars" 409 6 "There are as many calendars as there may be";
    SecretInUse "secret_in_use" 409 6 "Tasks refer to the secret";
    TooManySecrets "too_many_secrets" 409 6 "There are as many secrets as there may be";
    RootKeyRefused "root_key_refused" 409 6 "The root key or the data key cannot be rotated";
    ClusterSecretRefused "cluster_secret_refused" 409 6 "The cluster's secret cannot be rotated or retired now";

    TooManyNotifications "too_many_notifications" 409 6 "There are as many notification rules as there may be";
    KeyExists "key_exists" 409 6 "A key of this name exists";
    KeyEnded "key_ended" 409 6 "The key was revoked or replaced";
    TooManyKeys "too_many_keys" 409 6 "There are as many keys as there may be";
    UserExists "user_exists" 409 6 "A user of this name exists";
    TooManyUsers "too_many_users" 409 6 "There are as many users as there may be";
    NamespaceExists "namespace_exists" 409 6 "A namespace of this name exists";
    NamespaceInUse "namespace_in_use" 409 6 "There is something in the namespace";
    TooManyNamespaces "too_many_namespaces" 409 6 "There are as many namespaces as there may be";
    QuotaExceeded "quota_exceeded" 409 6 "A quota of the namespace is used up";
    QueueDraining "queue_draining" 409 6 "The queue accepts no jobs";
    TooManyQueues "too_many_queues" 409 6 "There are as many queues with settings as there may be";
    BatchRefused "batch_refused" 409 6 "The batch cannot do this now";
    BatchUnplaceable "batch_unplaceable" 409 6 "The connected workers cannot start the batch";
    RunRefused "run_refused" 409 6 "The run cannot do this now";
    TooManyWorkflows "too_many_workflows" 409 6 "There are as many workflows as there may be";
    BackfillEnded "backfill_ended" 409 6 "The backfill has ended";
    TooManyBackfills "too_many_backfills" 409 6 "Too many backfills are running";
    TooManyWorkerTokens "too_many_worker_tokens" 409 6 "There are as many join tokens as there may be";
    TooManyEnrolments "too_many_enrolments" 409 6 "There are as many enrolled workers as there may be";
    NoAuthority "no_authority" 409 6 "The cluster has no authority of its own";
    JobAlreadyStarted "job_already_started" 409 6 "The job has started";
    JobAlreadyFinished "job_already_finished" 409 6 "The job has finished";
    JobNotFinished "job_not_finished" 409 6 "The job has not finished";
    AttemptOver "attempt_over" 409 6 "The attempt is not running";
    ArtifactReady "artifact_ready" 409 6 "The file has arrived already";
    ArtifactInUse "artifact_in_use" 409 6 "A task refers to the artifact";
    JobDeleted "job_deleted" 409 6 "The job was deleted";
    RevisionConflict "revision_conflict" 412 6 "What is to be changed has another revision by now";
    PayloadTooLarge "payload_too_large" 413 2 "The request is too large";
    UnsupportedMediaType "unsupported_media_type" 415 2 "The content type is not supported";
    RangeNotSatisfiable "range_not_satisfiable" 416 2 "There is nothing in this range";
    NotServedHere "not_served_here" 421 7 "This server does not serve the interface";
    IdempotencyKeyReused "idempotency_key_reused" 422 6 "The idempotency key belongs to another request";
    UnknownArtifact "unknown_artifact" 422 2 "The task refers to an artifact that is not there";
    ArtifactRefused "artifact_refused" 422 2 "The file cannot be used";
    SizeMismatch "size_mismatch" 422 2 "The file does not have the size that was declared";
    DigestMismatch "digest_mismatch" 422 2 "The file does not have the digest that was declared";
    RateQuotaExceeded "rate_quota_exceeded" 429 7 "The namespace submits more jobs a second than its quota";
    TooManyLogins "too_many_logins" 429 7 "Too many logins failed or are under way";
    TooManyRequests "too_many_requests" 429 7 "Too many requests at a time";
    Internal "internal" 500 1 "Something is wrong in the server";
    DatabaseCorrupt "database_corrupt" 500 1 "The database is corrupt";
    Unavailable "unavailable" 503 7 "The server cannot answer now";
    ProviderUnavailable "provider_unavailable" 503 7 "The OpenID Connect provider cannot be used";
    DatabaseUnavailable "database_unavailable" 503 7 "The database cannot be reached";
    DiskFull "disk_full" 503 7 "The disk of the database is full";
    DatabaseFileReplaced "database_file_replaced" 503 7 "The database file was moved or deleted";
    DatabaseReadOnly "database_read_only" 503 7 "The database is read-only";
    ShardMoving "shard_moving" 503 7 "It is changing hands between servers";
}

impl ErrorKind {
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.code() == code)
    }

    /// The number of the gRPC status that a call of a worker or of another server fails with. Workers ask another server if
    /// it is `UNAVAILABLE`, and give up if it is `INVALID_ARGUMENT` or `NOT_FOUND`.
    pub const fn grpc_code(self) -> i32 {
        const INVALID_ARGUMENT: i32 = 3;
        const NOT_FOUND: i32 = 5;
        const INTERNAL: i32 = 13;
        const UNAVAILABLE: i32 = 14;
        match self.http_status() {
            _ if self.is_retryable() => UNAVAILABLE,
            404 => NOT_FOUND,
            400..=499 => INVALID_ARGUMENT,
            _ => INTERNAL,
        }
    }

    /// Whether the same request may succeed later.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::TooManyRequests
                | Self::TooManyLogins
                | Self::RateQuotaExceeded
                | Self::RequestTimeout
                | Self::ShardMoving
                | Self::ProviderUnavailable
        ) || (self.is_outage() && !matches!(self, Self::DatabaseCorrupt))
    }

    /// Whether the server cannot do anything now, whatever it is asked.
    pub const fn is_outage(self) -> bool {
        matches!(
            self,
            Self::Unavailable
                | Self::DatabaseUnavailable
                | Self::DiskFull
                | Self::DatabaseFileReplaced
                | Self::DatabaseReadOnly
                | Self::DatabaseCorrupt
        )
    }
}

/// An error answer, after RFC 9457 (`application/problem+json`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Names the kind of problem: `/problems/{code}`.
    #[serde(rename = "type")]
    pub type_uri: String,
    pub title: String,
    pub status: u16,
    /// What was wrong with this request.
    pub detail: String,
    /// Stable, for programs.
    pub code: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
    pub request_id: String,
    pub retryable: bool,
    /// The fields that were wrong, where it was fields.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub errors: Vec<FieldError>,
}

/// One field that is wrong. An answer names all of them, at most 20.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// Where: a JSON pointer into the body, or the name of a parameter or header.
    pub pointer: String,
    /// Stable, for programs.
    #[serde(default)]
    pub code: FieldCode,
    pub detail: String,
    /// What to do about it, where several fields are wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
}

impl FieldError {
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), code: FieldCode::default(), detail: detail.into(), hint: None }
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FieldCode {
    /// There is no field or parameter of this name.
    UnknownField,
    /// It must be given.
    Required,
    /// It is another kind of JSON.
    WrongType,
    /// A number, a time or a duration is too small or too large.
    OutOfRange,
    /// A text or a list is too long, or JSON is nested too deeply.
    TooLong,
    /// It has a character that is not allowed there.
    ForbiddenCharacter,
    /// Anything else.
    #[default]
    #[serde(other)]
    InvalidValue,
}

impl FieldCode {
    pub const ALL: [Self; 7] = [
        Self::UnknownField,
        Self::Required,
        Self::WrongType,
        Self::OutOfRange,
        Self::TooLong,
        Self::ForbiddenCharacter,
        Self::InvalidValue,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownField => "unknown_field",
            Self::Required => "required",
            Self::WrongType => "wrong_type",
            Self::OutOfRange => "out_of_range",
            Self::TooLong => "too_long",
            Self::ForbiddenCharacter => "forbidden_character",
            Self::InvalidValue => "invalid_value",
        }
    }

    pub const fn meaning(self) -> &'static str {
        match self {
            Self::UnknownField => "There is no field of this name",
            Self::Required => "The field must be given",
            Self::WrongType => "The field holds another JSON type",
            Self::OutOfRange => "A number, time or duration is too small or too large",
            Self::TooLong => "A text or list is too long, or JSON is nested too deeply",
            Self::ForbiddenCharacter => "A character is not allowed there",
            Self::InvalidValue => "Anything else; see `detail`",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorKind as E;

    #[test]
    fn a_call_fails_with_the_grpc_status_that_workers_act_on() {
        for (kind, code) in [
            (E::InvalidRequest, 3),
            (E::WrongAttempt, 3),
            (E::TaskExists, 3),
            (E::JobNotFound, 5),
            (E::ArtifactNotFound, 5),
            (E::Internal, 13),
            (E::DatabaseCorrupt, 13),
            (E::TooManyRequests, 14),
            (E::RateQuotaExceeded, 14),
            (E::QuotaExceeded, 3),
            (E::ShardMoving, 14),
            (E::DatabaseUnavailable, 14),
        ] {
            assert_eq!(kind.grpc_code(), code, "{kind:?}");
        }
    }
}
