//! The words of the REST interface: what requests and answers look like in JSON.
//! Shared by the server, which answers with them, and the client, which reads them.

pub mod artifact;
pub mod attempt;
pub mod audit;
pub mod authority;
pub mod backfill;
pub mod batch;
pub mod calendar;
pub mod cluster_secret;
pub mod definition;
pub mod enrolment;
pub mod error;
pub mod event;
pub mod forecast;
mod friendly;
pub mod identity;
pub mod job;
pub mod job_list;
pub mod misfit;
pub mod namespace;
pub mod node;
pub mod notification;
pub mod occurrence;
pub mod openid;
mod overdue;
pub mod queue;
mod quota;
pub mod schedule;
pub mod schedule_request;
mod schema;
pub mod secret;
pub mod submission;
pub mod task;
pub mod warning;
pub mod workflow;

/// The header of `GET /livez` that says which server answers.
pub const SERVER_HEADER: &str = "punctual-server";

pub use artifact::{ArtifactKind, ArtifactList, ArtifactQuery, ArtifactRequest, ArtifactView, UploadTarget};
pub use attempt::{Attempt, AttemptDetails, LogLine, LogLines};
pub use audit::{
    AuditEntry, AuditExport, AuditExportQuery, AuditHead, AuditLine, AuditList, AuditNamespace, AuditQuery,
};
pub use authority::{AuthorityList, AuthorityView, RotateAuthority};
pub use backfill::{
    AbortRequest, BackfillInclude, BackfillList, BackfillPlan, BackfillQuery, BackfillRequest, BackfillRunList,
    BackfillRunQuery, BackfillRunView, BackfillStanding, BackfillTime, BackfillView, BackfilledBy, BackfilledTime,
    OlderTimes, UnknownTimes,
};
pub use batch::{
    BatchList, BatchQuery, BatchRequest, BatchSummary, BatchView, CompensationRequest, JobInBatch, MemberList,
    MemberQuery, MemberRequest, MemberView,
};
pub use calendar::{
    CalendarFile, CalendarList, CalendarQuery, CalendarRequest, CalendarSummary, CalendarView, EventsLeftOut,
};
pub use cluster_secret::{ClusterSecretStage, ClusterSecretView, OtherClusterSecret, RotateClusterSecret};
pub use definition::{JobNotification, LateOutcome, RetryCount, TaskDefinition};
pub use enrolment::{
    CreatedWorkerToken, EnrolmentList, EnrolmentQuery, EnrolmentView, WorkerEdit, WorkerToken, WorkerTokenList,
    WorkerTokenRequest,
};
pub use error::{ErrorKind, FieldCode, FieldError, Problem};
pub use event::JobChange;
pub use forecast::{Busy, Forecast, ForecastQuery, HourOfForecast, ScheduleForecast};
pub use friendly::make_durations_friendly;
pub use identity::{
    KeyCreated, KeyList, KeyRequest, KeyState, KeyView, LoginRequest, OpenIdAccount, PasswordRequest, RotateRequest,
    SecretText, SessionCreated, SessionList, SessionView, UserEdit, UserList, UserRequest, UserView, Whoami,
};
pub use job::{Answered, Job, JobAction, JobSchedule, RequestedBy, Rerun, TaskRef};
pub use job_list::{JobList, JobSummary, ListQuery};
pub use misfit::{Misfit, not_json};
pub use namespace::{NAMESPACE_HEADER, NamespaceEdit, NamespaceList, NamespaceRequest, NamespaceView};
pub use node::{HeldDuty, Node, OwnedShard, ServerList, ServerView, Stats, WorkerList, WorkerQuery, WorkerView};
pub use notification::{
    DeliveryList, DeliveryQuery, DeliveryView, EmailChannel, MessageAttempt, MessageEvent, MessageSchedule,
    MessageTask, NotificationList, NotificationMessage, NotificationPreview, NotificationPreviewRequest,
    NotificationRequest, NotificationTemplates, NotificationView, SlackChannel, TelegramChannel, TestAnswer,
    WaitingMessage, WebhookChannel,
};
pub use occurrence::{
    ClockChangeView, LeftOutTime, OccurrenceList, OccurrenceQuery, OccurrenceView, Preview, PreviewQuery,
    PreviewedTime, UnfiredBy,
};
pub use openid::{
    BrowserLoginQuery, DeviceLogin, DevicePending, DevicePollRequest, DeviceStatus, LoginExchange, ProviderAnswerQuery,
    login_check,
};
pub use overdue::{AilingTask, Overdue, OverdueJob, OverdueQuery, OverdueTime};
pub use queue::{QueueDefaults, QueueList, QueueQuery, QueueRequest, QueueView};
pub use quota::{NamespaceUsage, Quotas, QuotasEdit};
pub use schedule::{
    DoneBy, IfExists, Moves, NoteRequest, PauseView, PlannedStart, QueueCleared, RunAnswer, RunOutcome, RunRequest,
    ScheduleBulkAnswer, ScheduleBulkRequest, ScheduleChangeView, ScheduleList, ScheduleQuery, ScheduleStanding,
    ScheduleSummary, ScheduleView, SkipAnswer, SkipRequest,
};
pub use schedule_request::{CalendarsRequest, CatchUpRequest, RuleRequest, ScheduleRequest};
pub use secret::{DataKeyQuery, DataKeyRotated, RootKeyRotated, RotatedDataKey, SecretList, SecretQuery, SecretView};
pub use submission::{BulkRequest, BulkSubmitted, JobContent, JobLinks, JobRequest, JobSubmitted};
pub use task::{TaskList, TaskQuery, TaskRequest, TaskView};
pub use warning::Warning;
pub use workflow::{
    DecideRequest, GateDecision, ItemsView, JobInRun, NodeView, RelatedNode, ResumeRequest, RunEventRequest, RunList,
    RunQuery, RunSummary, RunView, SkipNodeRequest, VersionQuery, WorkflowApplied, WorkflowList, WorkflowQuery,
    WorkflowRunRequest, WorkflowSummary, WorkflowView,
};

/// Limits of the interface, in one place for code and docs.
pub mod limits {
    /// A request body, but for bulk submissions.
    pub const BODY_BYTES_MAX: usize = 1 << 20;
    /// The body of a bulk submission.
    pub const BULK_BODY_BYTES_MAX: usize = 16 << 20;
    /// Jobs in one request.
    pub const BULK_JOBS_MAX: usize = 10_000;
    /// Schedules in one request.
    pub const BULK_SCHEDULES_MAX: usize = 10_000;
    /// A job's input.
    pub const INPUT_BYTES_MAX: usize = 256 << 10;
    /// A tracing id, in characters.
    pub const TRACING_ID_CHARS_MAX: usize = 256;
    /// An idempotency key, in characters.
    pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;
    /// Names of tasks, queues and handlers: `[A-Za-z0-9._-]{1,128}`.
    pub const NAME_CHARS_MAX: usize = 128;
    pub const LABELS_MAX: usize = 64;
    pub const LABEL_CHARS_MAX: usize = 256;
    pub const HEADERS_MAX: usize = 64;
    /// The name of a task's request header.
    pub const HEADER_NAME_BYTES_MAX: usize = 256;
    /// The value of a task's request header.
    pub const HEADER_VALUE_BYTES_MAX: usize = 8 << 10;
    /// All request headers of a task, names and values together.
    pub const HEADERS_BYTES_MAX: usize = 64 << 10;
    pub const URL_CHARS_MAX: usize = 2048;
    /// The text of a task's request body.
    pub const HTTP_BODY_BYTES_MAX: usize = 256 << 10;
    /// A task's definition as JSON. It travels to a worker whole, beside a job's input, in
    /// one message of at most 4 MiB.
    pub const SPEC_BYTES_MAX: usize = 512 << 10;
    /// Rows of a page of a list.
    pub const PAGE_LEN_MAX: usize = 1000;
    pub const PAGE_LEN_DEFAULT: usize = 50;
    /// Planned times in one preview.
    pub const PREVIEW_MAX: usize = 1000;
    pub const PREVIEW_DEFAULT: usize = 10;
    /// Planned times that one request skips.
    pub const SKIP_MAX: u32 = 1000;
    /// Why a schedule was paused, in characters.
    pub const NOTE_CHARS_MAX: usize = 256;
    /// From the beginning of a forecast to its end.
    pub const FORECAST_SPAN_MAX: punctual_core::Span = punctual_core::Span::from_secs(31 * 86_400);
    /// Schedules that one forecast plays: their plans are in memory while it does.
    pub const FORECAST_SCHEDULES_MAX: usize = 20_000;
    /// Tasks whose last run is looked at for a forecast; others take as long as is assumed.
    pub const FORECAST_TASKS_MAX: usize = 200;
    /// Hours that a forecast shows one by one.
    pub const FORECAST_HOURS_SHOWN: i64 = 24;
    /// Times in the range of one backfill.
    pub const BACKFILL_TIMES_MAX: usize = 100_000;
    /// Runs of one backfill at a time.
    pub const BACKFILL_ACTIVE_MAX: u32 = 1000;
    pub const BACKFILL_ACTIVE_DEFAULT: u32 = 10;
    /// Dates of a calendar.
    pub const CALENDAR_DATES_MAX: usize = 10_000;
    /// Calendars in all: a list shows every one.
    pub const CALENDARS_MAX: usize = 1000;
    /// Of a password, in characters.
    pub const PASSWORD_CHARS_MIN: usize = 12;
    /// Of a password: hashing a longer one would take longer for nothing.
    pub const PASSWORD_BYTES_MAX: usize = 1024;
    /// Of the description of a namespace.
    pub const NAMESPACE_DESCRIPTION_CHARS_MAX: usize = 1000;
    /// Namespaces in which one user has rights of their own.
    pub const NAMESPACES_OF_USER_MAX: usize = 1000;
    /// How long the key that was replaced stays valid beside the new one.
    pub const KEY_OVERLAP_MAX: punctual_core::Span = punctual_core::Span::from_secs(30 * 86_400);
    pub const KEY_OVERLAP_DEFAULT: punctual_core::Span = punctual_core::Span::from_secs(86_400);
    /// A shorter life of a key is a mistake.
    pub const KEY_LIFE_MIN: punctual_core::Span = punctual_core::Span::from_secs(1);
    pub const KEY_LIFE_MAX: punctual_core::Span = punctual_core::Span::from_secs(3650 * 86_400);
    /// A mail address of a person.
    pub const MAIL_CHARS_MAX: usize = 254;
    /// `?wait=` at most.
    pub const WAIT_SECONDS_MAX: i64 = 60;
    /// Nesting of a job's input.
    pub const JSON_DEPTH_MAX: usize = punctual_core::json::DEPTH_MAX;
}
