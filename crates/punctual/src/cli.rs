//! The commands and their options.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::cmd;
use crate::config::{GlobalFlags, Uses};
use crate::exit::Exit;

/// A task scheduler: run tasks now, later, exactly on time, and know what became of them.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, max_term_width = 100, after_help = after_help())]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

fn after_help() -> String {
    format!(
        "Start here:\n  punctual dev                         a server and a worker on this machine\n  \
         punctual run --probe '{{\"output\":\"hi\"}}' --wait\n  punctual ps\n\n{}",
        Exit::table()
    )
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    #[command(flatten)]
    pub(crate) settings: GlobalFlags,
    /// Read the settings from this file [env: PUNCTUAL_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// No hints
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Log more; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a server and a worker on this machine, with nothing to set up
    Dev(cmd::dev::DevArgs),
    /// Start a server
    Server(cmd::server::ServerArgs),
    /// Start a worker
    Worker(cmd::worker::WorkerArgs),
    /// Run one attempt for a worker that was started with --spawn
    #[command(hide = true)]
    Agent(cmd::agent::AgentArgs),
    /// Submit a job: now, later, or at a given time
    Run(Box<cmd::run::RunArgs>),
    /// Show jobs, the latest scheduled first
    Ps(cmd::ps::PsArgs),
    /// Show what a job wrote
    Logs(cmd::logs::LogsArgs),
    /// Wait until jobs have finished
    Wait(cmd::wait::WaitArgs),
    /// End jobs
    Cancel(cmd::job::JobIds),
    /// Manage jobs
    #[command(subcommand)]
    Job(cmd::job::JobVerb),
    /// Manage tasks
    #[command(subcommand)]
    Task(cmd::task::TaskVerb),
    /// Run tasks on a schedule: by cron expression, interval or time of day
    #[command(subcommand)]
    Schedule(cmd::schedule::ScheduleVerb),
    /// Backfill schedules: run planned times of the past
    #[command(subcommand)]
    Backfill(cmd::backfill::BackfillVerb),
    /// Run jobs together: all of them are stored, start or succeed, or none
    #[command(subcommand)]
    Batch(cmd::batch::BatchVerb),
    /// Run tasks in an order: workflows, their runs, gates
    #[command(subcommand)]
    Workflow(cmd::workflow::WorkflowVerb),
    /// Manage calendars: dates on which schedules do or do not run
    #[command(subcommand)]
    Calendar(cmd::calendar::CalendarVerb),
    /// Manage queues: see what waits and runs in them, pause, resume and drain them
    #[command(subcommand)]
    Queue(cmd::queue::QueueVerb),
    /// Manage secrets: values that tasks refer to and nobody can read again
    #[command(subcommand)]
    Secret(cmd::secret::SecretVerb),
    /// Manage the root key, which seals secrets in the database
    #[command(subcommand)]
    RootKey(cmd::secret::RootKeyVerb),
    /// Send notifications about what failed, was missed or is late
    #[command(subcommand)]
    Notify(cmd::notify::NotifyVerb),
    /// Show what should have started and has not, and why
    Overdue(cmd::overdue::OverdueArgs),
    /// Simulate all schedules ahead of time: starts, overlaps, the peak and the busy hours
    Simulate(cmd::simulate::SimulateArgs),
    /// Import schedules from elsewhere
    #[command(subcommand)]
    Import(cmd::import::ImportVerb),
    /// Manage uploaded files
    #[command(subcommand)]
    Artifact(cmd::artifact::ArtifactVerb),
    /// Log in, and keep the session in a context
    Login(cmd::session::LoginArgs),
    /// End the session of the context in use
    Logout,
    /// Show on whose behalf commands ask the server, and what they may do
    Whoami,
    /// Manage API keys: credentials for programs
    #[command(subcommand)]
    Key(cmd::key::KeyVerb),
    /// Manage the people who may log in
    #[command(subcommand)]
    User(cmd::user::UserVerb),
    /// Manage namespaces: tenants that share the cluster and see nothing of each other
    #[command(subcommand)]
    Namespace(cmd::namespace::NamespaceVerb),
    /// Manage sessions: who is logged in
    #[command(subcommand)]
    Session(cmd::session::SessionVerb),
    /// Manage contexts: the servers that you use, with their credentials
    #[command(subcommand)]
    Context(cmd::context::ContextVerb),
    /// See who changed what, and verify that the record is complete
    #[command(subcommand)]
    Audit(cmd::audit::AuditVerb),
    /// Show or replace the authority that issues the cluster's certificates
    #[command(subcommand)]
    Authority(cmd::authority::AuthorityVerb),
    /// Show or replace the secret that the cluster's tokens are derived from
    #[command(subcommand)]
    ClusterSecret(cmd::cluster_secret::ClusterSecretVerb),
    /// Explain a job's state, or what a state, an error or an exit code means
    Explain(cmd::explain::ExplainArgs),
    /// Bring the schema of a PostgreSQL up to date, or see how it stands
    Migrate(cmd::migrate::MigrateArgs),
    /// Check that everything is in place
    Doctor(cmd::doctor::DoctorArgs),
    /// Measure this machine
    Bench(cmd::bench::BenchArgs),
    /// Show every setting, its value, and where that came from
    Config(cmd::config::ConfigArgs),
    /// Print completions for a shell
    Completions(cmd::completions::CompletionsArgs),
    /// What the exit codes mean
    #[command(long_about = Exit::table())]
    ExitCodes,
}

/// What a command exits with that fails by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The code of the table.
    HasItsCode,
    /// One code for all failures: the others are those of the program that it runs.
    BesideAProgram,
}

/// Whether these arguments, which cannot be read, are those of `run FILE`: its failures have a code of their own.
pub(crate) fn runs_a_file(args: impl Iterator<Item = std::ffi::OsString>) -> bool {
    let words: Vec<_> = args.skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<_> = words.iter().take_while(|word| *word != "--").skip_while(|word| *word != "run").collect();
    // What follows a flag is mostly its value.
    let is_file = |pair: &[&String]| {
        let (before, word) = (pair[0], pair[1]);
        word.starts_with("./") || (word.contains('/') && !word.starts_with('-') && !before.starts_with('-'))
    };
    words.windows(2).any(is_file)
}

/// What a command has to do with saved contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContextUse {
    No,
    Yes,
    /// It may be the first to name it.
    Makes,
}

/// How many threads a command is worth.
pub(crate) enum Threads {
    One,
    Many,
}

impl Command {
    /// The settings that this command's own flags name.
    pub(crate) fn flags(&self) -> &[(&'static str, String)] {
        match self {
            Self::Dev(args) => args.settings.given(),
            Self::Server(args) => args.settings.given(),
            Self::Worker(args) => args.settings.given(),
            Self::Migrate(args) => args.settings(),
            _ => &[],
        }
    }

    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Run(args) if args.passes_exit_code_on() => Failure::BesideAProgram,
            _ => Failure::HasItsCode,
        }
    }

    pub(crate) fn threads(&self) -> Threads {
        match self {
            Self::Dev(_) | Self::Server(_) | Self::Worker(_) | Self::Bench(_) => Threads::Many,
            _ => Threads::One,
        }
    }

    /// The settings that a file in the current folder cannot have and that this command would go by.
    pub(crate) fn uses(&self) -> Uses {
        match self {
            Self::Completions(_) | Self::ExitCodes | Self::Agent(_) => Uses::Nothing,
            Self::Context(_) => Uses::Only(&["server"]),
            // It shows them, and goes by none.
            Self::Config(_) | Self::Bench(_) => Uses::Only(&[]),
            Self::Migrate(_) => Uses::Only(&["database"]),
            Self::Doctor(_) => Uses::Everything,
            _ if self.minds_signals() => Uses::Everything,
            _ => Uses::Client,
        }
    }

    /// Whether the command goes by a saved context. What runs for long does not: a login is a person's.
    pub(crate) fn context_use(&self) -> ContextUse {
        match self {
            Self::Completions(_) | Self::ExitCodes | Self::Agent(_) | Self::Bench(_) | Self::Migrate(_) => {
                ContextUse::No
            }
            Self::Context(_) => ContextUse::No,
            Self::Login(_) => ContextUse::Makes,
            _ if self.minds_signals() => ContextUse::No,
            _ => ContextUse::Yes,
        }
    }

    /// Long-running commands end in order when they are asked to; others just end.
    pub(crate) fn minds_signals(&self) -> bool {
        match self {
            Self::Dev(_) => true,
            Self::Server(args) => args.verb.is_none(),
            Self::Worker(args) => args.verb.is_none(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn pages(command: &mut clap::Command, path: &str, text: &mut String) {
        *text += &format!("$ {path} -h\n{}\n", command.render_help());
        for verb in command.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
            let path = format!("{path} {}", verb.get_name());
            pages(verb, &path, text);
        }
    }

    #[test]
    fn the_help_pages_are_those_we_reviewed() {
        let mut text = String::new();
        let mut command = Cli::command().term_width(100);
        command.build();
        pages(&mut command, "punctual", &mut text);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_command_that_runs_a_file_is_known_even_if_it_cannot_be_read() {
        let runs = |line: &str| runs_a_file(line.split_whitespace().map(Into::into));
        for line in
            ["punctual run ./tool --nonsense", "punctual -q run --detach ./x", "punctual run /bin/x --at soon -- a"]
        {
            assert!(runs(line), "{line}");
        }
        for line in
            ["punctual run task --config /etc/x --nonsense", "punctual ps ./x", "punctual run task -- ./x", "run"]
        {
            assert!(!runs(line), "{line}");
        }
    }

    #[test]
    fn the_commands_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }
}
