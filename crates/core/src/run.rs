//! What an attempt executes.

mod command;
mod facts;
mod telegram;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::ArtifactId;
use crate::size::ByteSize;
use crate::time::Span;
pub use command::Command;
pub use facts::{
    Escape, FACT_NAMES, Facts, JOB_ID_HEADER, PLACEHOLDERS_MAX, begins_with_secret, check_placeholders, secrets_in,
};
pub use telegram::{ParseMode, Telegram, default_bot};

/// The capability of workers that give programs a network.
pub const BINARY_WITH_NETWORK: &str = "binary:network";

/// The capability of servers, which start the runs of workflows. No worker may claim it.
pub const WORKFLOW: &str = "workflow";

/// What an attempt executes. One variant, one executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Run {
    /// An uploaded static binary, in a sandbox.
    Binary(Binary),
    /// An HTTP request: a ping (GET) or a webhook (POST).
    Http(HttpCall),
    /// A mail, by the worker's mail server.
    Email(Email),
    /// A message to a Slack webhook.
    Slack(Slack),
    /// A message by a Telegram bot.
    Telegram(Telegram),
    /// Sleeps, fails, prints or crashes on demand, for tests and benchmarks.
    Probe(Probe),
    /// A function in a worker of the user's own.
    Handler(Handler),
    /// A shell line on the worker's own machine, outside the sandbox, where the worker allows it.
    Command(Command),
    /// A run of a workflow. No worker is given it: a server starts the run, and the job ends with it.
    Workflow(WorkflowRun),
}

impl Run {
    /// What a worker must be able to do; workers announce the same words.
    pub fn capability(&self) -> String {
        match self {
            Self::Binary(Binary { network: Network::Host, .. }) => BINARY_WITH_NETWORK.to_owned(),
            Self::Binary(_) => "binary".to_owned(),
            Self::Http(_) => "http".to_owned(),
            Self::Email(_) => "email".to_owned(),
            Self::Slack(_) => "slack".to_owned(),
            Self::Telegram(_) => "telegram".to_owned(),
            Self::Probe(_) => "probe".to_owned(),
            Self::Handler(handler) => format!("handler:{}", handler.name),
            Self::Command(_) => "command".to_owned(),
            Self::Workflow(_) => WORKFLOW.to_owned(),
        }
    }

    /// The type of task, for people and filters.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Binary(_) => "binary",
            Self::Http(_) => "http",
            Self::Email(_) => "email",
            Self::Slack(_) => "slack",
            Self::Telegram(_) => "telegram",
            Self::Probe(_) => "probe",
            Self::Handler(_) => "handler",
            Self::Command(_) => "command",
            Self::Workflow(_) => WORKFLOW,
        }
    }

    pub const KINDS: [&'static str; 9] =
        ["binary", "http", "email", "slack", "telegram", "probe", "handler", "command", WORKFLOW];

    /// How much longer than the task's timeout an attempt may take to end after it was asked to.
    pub fn grace(&self) -> Span {
        match self {
            Self::Binary(binary) => binary.grace,
            Self::Command(command) => command.grace,
            // Its definition limits its time, and that limit is kept by the run itself.
            Self::Workflow(_) => Span::from_secs(100 * 365 * 24 * 3600),
            Self::Http(_) | Self::Email(_) | Self::Slack(_) | Self::Telegram(_) | Self::Probe(_) | Self::Handler(_) => {
                Span::ZERO
            }
        }
    }

    /// The uploaded files that it reads.
    pub fn files(&self) -> &[TaskFile] {
        match self {
            Self::Binary(binary) => &binary.files,
            Self::Command(command) => &command.files,
            Self::Http(_)
            | Self::Email(_)
            | Self::Slack(_)
            | Self::Telegram(_)
            | Self::Probe(_)
            | Self::Handler(_)
            | Self::Workflow(_) => &[],
        }
    }

    /// Every uploaded file that it runs or reads.
    pub fn artifacts(&self) -> impl Iterator<Item = ArtifactId> {
        self.artifact().into_iter().chain(self.files().iter().map(|file| file.artifact))
    }

    /// The uploaded program that it runs.
    pub fn artifact(&self) -> Option<ArtifactId> {
        match self {
            Self::Binary(binary) => Some(binary.artifact),
            Self::Http(_)
            | Self::Email(_)
            | Self::Slack(_)
            | Self::Telegram(_)
            | Self::Probe(_)
            | Self::Handler(_)
            | Self::Command(_)
            | Self::Workflow(_) => None,
        }
    }
}

/// A static binary that was uploaded, in a sandbox. See docs/binaries.md for what it finds there
/// and what its exit code means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Binary {
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "artifact_06bp4k…"))]
    pub artifact: ArtifactId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment; nothing of the worker's is passed on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Uploaded files that it reads, in the folder that `PUNCTUAL_FILES` names. They are copied into its memory when it
    /// starts, and count towards `limits.memory`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<TaskFile>,
    #[serde(default)]
    pub network: Network,
    #[serde(default)]
    pub limits: Limits,
    /// The time from SIGTERM to SIGKILL, when it is cancelled or its time is over.
    #[serde(default = "default_grace")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = "x-duration", example = "PT10S"))]
    pub grace: Span,
}

/// An uploaded file that a task reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskFile {
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "artifact_06bpwz2d0e5kx8r4n7v1t3m9qc"))]
    pub artifact: ArtifactId,
    /// What it is called in the folder of the task's files.
    #[cfg_attr(feature = "schema", schema(example = "rates.csv"))]
    pub name: String,
}

impl TaskFile {
    /// More than this belong into an archive.
    pub const COUNT_MAX: usize = 16;
}

pub const fn default_grace() -> Span {
    Span::from_secs(10)
}

/// The network of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None at all, not even to itself.
    #[default]
    None,
    /// That of the worker's machine.
    Host,
}

/// What one attempt may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "512MiB"))]
    pub memory: ByteSize,
    /// Cores; 0.5 is half of one.
    pub cpu: f64,
    /// Processes and threads.
    pub pids: u32,
    /// What it prints, and its result.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "10MiB"))]
    pub output: ByteSize,
    /// What it writes to /tmp.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "64MiB"))]
    pub disk: ByteSize,
    pub open_files: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(512),
            cpu: 1.0,
            pids: 64,
            output: ByteSize::mib(10),
            disk: ByteSize::mib(64),
            open_files: 256,
        }
    }
}

/// A mail. The worker knows the server and the sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Email {
    /// Addresses, such as `ops@example.com` or `Ops <ops@example.com>`.
    pub to: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bcc: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    pub subject: String,
    /// Absent, and no `html`: the job's input; of a JSON text, what stands in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
}

/// A message to a Slack incoming webhook.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Slack {
    /// The address that Slack gave for the channel, or the name of one in the worker's settings,
    /// where it is better kept: whoever has the address can post.
    pub webhook: String,
    /// In Slack's markup. Absent: the job's input. A JSON object is sent as the message itself, anything else as
    /// text, shown as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Slack {
    /// Whether this is a URL, and not the name of one in the worker's settings.
    pub fn is_address(&self) -> bool {
        self.webhook.contains("://")
    }
}

impl fmt::Debug for Slack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let webhook = if self.is_address() { "***" } else { &self.webhook };
        f.debug_struct("Slack").field("webhook", &webhook).field("text", &self.text).finish()
    }
}

/// One HTTP request: a ping or a webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HttpCall {
    pub url: String,
    #[serde(default)]
    pub method: Method,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Sent as it is. Absent: the job's input, if it has one and the method allows a body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Status codes that count as success. Empty: any 2xx.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect_status: Vec<u16>,
    /// Status codes after which the request is tried again. Empty: 408, 425, 429 and all but 3xx and 4xx. An answer
    /// with `Retry-After` is always followed by another try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retry_status: Vec<u16>,
    /// The first 64 KiB of the answer's body must contain a match of this regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body: Option<String>,
    /// Redirects that are followed. Each goes through the same checks as the first request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub follow_redirects: u8,
    /// Whether a redirect with 307 or 308 may send the body to another origin: another scheme, host or port. Otherwise
    /// the attempt fails there. Headers and signatures of the task are never sent to another origin.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forward_body: bool,
    /// Signs the request by Standard Webhooks with the worker's key of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_with: Option<String>,
    /// For one request; the task's timeout holds as well.
    #[serde(default = "default_http_timeout")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = "x-duration", example = "PT30S"))]
    pub timeout: Span,
}

impl HttpCall {
    /// More redirects than this are a loop.
    pub const REDIRECTS_MAX: u8 = 10;

    /// What `expect_body` may grow to when it is compiled, for servers and workers alike.
    pub const EXPECT_BODY_COMPILED_BYTES_MAX: usize = 1 << 20;

    /// A GET with every rule at its default.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            method: Method::default(),
            headers: BTreeMap::new(),
            body: None,
            expect_status: Vec::new(),
            retry_status: Vec::new(),
            expect_body: None,
            follow_redirects: 0,
            forward_body: false,
            sign_with: None,
            timeout: default_http_timeout(),
        }
    }

    /// Headers that a task may not set, in any case of letters: they belong to the
    /// connection, or the receiver relies on ours.
    pub fn is_reserved_header(name: &str) -> bool {
        const RESERVED: [&str; 11] = [
            "host",
            "connection",
            "content-length",
            "transfer-encoding",
            "upgrade",
            "te",
            "trailer",
            "idempotency-key",
            "webhook-id",
            "webhook-timestamp",
            "webhook-signature",
        ];
        const RESERVED_STARTS: [&str; 2] = ["proxy-", "punctual-"];
        let starts_with =
            |start: &str| name.get(..start.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(start));
        RESERVED_STARTS.into_iter().any(starts_with)
            || RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
    }
}

pub const fn default_http_timeout() -> Span {
    Span::from_secs(30)
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    pub const fn takes_body(self) -> bool {
        !matches!(self, Self::Get | Self::Head)
    }
}

/// A task for tests and measurements.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    #[cfg_attr(feature = "schema", schema(value_type = String, format = "x-duration", example = "10ms"))]
    pub sleep: Span,
    /// The first so many attempts fail.
    pub fail_times: u32,
    /// Written to the log, and returned as the job's output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Returns the worker's clock at the first instruction, in microseconds.
    pub report_time: bool,
    /// Appends "job attempt begin|end" to this file, as a witness that shares nothing with us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
    /// Kills the whole worker process with SIGKILL.
    pub crash: bool,
}

/// A run of a workflow: the input of the job is that of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkflowRun {
    /// The name of the workflow.
    pub name: String,
    /// Without it, the version that is the newest when the job starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A function that a worker registered under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Handler {
    pub name: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}
