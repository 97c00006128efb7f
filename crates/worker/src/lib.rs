//! The runtime of a worker: takes attempts from servers, runs them, and reports their outcomes.
//!
//! A worker dials out and never listens, and never sees a store. It makes two promises. An attempt is recorded before
//! anything else happens with it, so the list of held attempts that a worker sends is always true. An outcome is kept
//! until a server has acknowledged it, on disk if no server can be reached.
//!
//! ```no_run
//! use punctual_worker::{JobContext, Worker};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), punctual_worker::WorkerError> {
//!     Worker::connect("http://127.0.0.1:8020")
//!         .handler("resize", |job: JobContext| async move {
//!             job.log("resizing");
//!             Ok(job.input().cloned())
//!         })
//!         .run()
//!         .await
//! }
//! ```

mod admissions;
mod asker;
mod attempts;
mod backoff;
mod builder;
mod choice;
mod credentials;
mod dial;
mod downloads;
mod enrolment;
mod error;
mod heartbeat;
mod held;
mod intake;
mod journal;
mod link;
mod outgoing;
mod run;
mod servers;
mod session;
mod spool;
mod status;
mod tasks;
mod upkeep;

pub use builder::{SERVERS_MAX_DEFAULT, SLOTS_MAX, Worker};
pub use credentials::{HTTP_2, PlainHttp};
pub use error::WorkerError;
pub use journal::AttemptLog;
pub use punctual_core::schedule::{ScheduledRun, SourceKind};
pub use punctual_exec::{
    Admission, AdmissionGrant, Admissions, AdmitError, Call, Download, DownloadError, Downloads, ExecutionEnd,
    Executor, Guard, HandlerError, HandlerResult, JobContext, MailServer, Places, Sending, SlackWebhooks, TelegramBots,
    WebhookKeys,
};
pub use status::WorkerStatus;
