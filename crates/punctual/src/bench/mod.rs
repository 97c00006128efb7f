//! The workloads of `punctual bench`. Each starts a server and a worker of its own, so
//! that none inherits what another left behind.

mod arena;
mod backlog;
mod database;
mod drain;
mod figure;
mod load;
mod machine;
mod pickup;
mod pinned;
mod precision;
mod process;
mod secured;
mod submit;
mod wire;
mod workflows;

use clap::ValueEnum;
pub(crate) use figure::Figure;
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Jobs that do nothing wait; then the worker starts
    Drain,
    /// 1, 16 and 64 clients, one job to a request
    SubmitSingle,
    /// 1,000 and 10,000 jobs to a request
    SubmitBulk,
    /// From the submission to the handler's start, one job each 20 ms
    Pickup,
    /// Start minus due, at 1,000 due a second
    Precision,
    /// Drain and precision with a million jobs waiting
    Backlog,
    /// Drain while a transaction holds a snapshot of the PostgreSQL
    Pinned,
    /// Diamonds of four nodes beside as many plain jobs, a fan-out of 10,000, and the memory of waiting runs
    Workflows,
}

impl Workload {
    /// All but those that take minutes.
    pub(crate) const USUAL: [Self; 5] =
        [Self::Drain, Self::SubmitSingle, Self::SubmitBulk, Self::Pickup, Self::Precision];

    pub(crate) async fn run(self, options: &Options) -> anyhow::Result<Vec<Figure>> {
        match self {
            Self::Drain => drain::run(options).await,
            Self::SubmitSingle => submit::single(options).await,
            Self::SubmitBulk => submit::bulk(options).await,
            Self::Pickup => pickup::run(options).await,
            Self::Precision => precision::run(options).await,
            Self::Backlog => backlog::run(options).await,
            Self::Pinned => pinned::run(options).await,
            Self::Workflows => workflows::run(options).await,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// A server that runs already, instead of one of our own.
    pub(crate) url: Option<String>,
    pub(crate) jobs: Option<u64>,
    /// How many servers of our own.
    pub(crate) servers: usize,
    pub(crate) quick: bool,
    /// Single submissions are to run at once, and so disturb each other.
    pub(crate) due_now: bool,
    /// TLS, and a credential with each request.
    pub(crate) tls: bool,
    /// Settings of our own server and worker.
    pub(crate) settings: Vec<(String, String)>,
}

impl Options {
    fn jobs_or(&self, usual: u64) -> u64 {
        self.jobs.unwrap_or(usual)
    }
}

/// On stderr, and only if that is a terminal.
fn bar(name: &str, len: u64) -> ProgressBar {
    let form = if len == 0 { "{msg} {spinner} {elapsed}" } else { "{msg} {bar:30} {human_pos}/{human_len} {per_sec}" };
    let style = ProgressStyle::with_template(form).expect("the template is valid");
    let bar = ProgressBar::new(len).with_style(style).with_message(name.to_owned());
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}
