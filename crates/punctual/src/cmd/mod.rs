//! The commands, one file or folder each. They parse, call, and print; they decide nothing.

pub(crate) mod agent;
pub(crate) mod artifact;
pub(crate) mod audit;
pub(crate) mod authority;
pub(crate) mod backfill;
pub(crate) mod batch;
pub(crate) mod bench;
pub(crate) mod calendar;
pub(crate) mod cluster_secret;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod import;
pub(crate) mod job;
pub(crate) mod key;
pub(crate) mod logs;
pub(crate) mod migrate;
pub(crate) mod namespace;
pub(crate) mod notify;
mod oidc_login;
pub(crate) mod overdue;
pub(crate) mod ps;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod secret;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod simulate;
pub(crate) mod task;
pub(crate) mod user;
pub(crate) mod wait;
pub(crate) mod worker;
pub(crate) mod worker_tokens;
pub(crate) mod workflow;

pub(crate) use crate::context::Context;

use self::job::JobCommand;
use crate::cli::Command;
use crate::exit::Exit;

pub(crate) async fn dispatch(command: Command, context: &Context) -> anyhow::Result<Exit> {
    match command {
        Command::Dev(args) => dev::run(args, context).await,
        Command::Server(args) => server::run(args, context).await,
        Command::Worker(args) => worker::run(args, context).await,
        Command::Agent(args) => agent::run(args, context).await,
        Command::Run(args) => run::run(*args, context).await,
        Command::Ps(args) => ps::run(args, context).await,
        Command::Logs(args) => logs::run(args, context).await,
        Command::Wait(args) => wait::run(args, context).await,
        Command::Cancel(ids) => job::command(JobCommand::Cancel, ids, context).await,
        Command::Job(verb) => job::run(verb, context).await,
        Command::Audit(verb) => audit::run(verb, context).await,
        Command::Artifact(verb) => artifact::run(verb, context).await,
        Command::Authority(verb) => authority::run(verb, context).await,
        Command::ClusterSecret(verb) => cluster_secret::run(verb, context).await,
        Command::Schedule(verb) => schedule::run(verb, context).await,
        Command::Backfill(verb) => backfill::run(verb, context).await,
        Command::Batch(verb) => batch::run(verb, context).await,
        Command::Workflow(verb) => workflow::run(verb, context).await,
        Command::Calendar(verb) => calendar::run(verb, context).await,
        Command::Queue(verb) => queue::run(verb, context).await,
        Command::Secret(verb) => secret::run(verb, context).await,
        Command::RootKey(verb) => secret::run_root_key(verb, context).await,
        Command::Notify(verb) => notify::run(verb, context).await,
        Command::Overdue(args) => overdue::run(args, context).await,
        Command::Simulate(args) => simulate::run(args, context).await,
        Command::Import(verb) => import::run(verb, context).await,
        Command::Task(verb) => task::run(verb, context).await,
        Command::Login(args) => session::login(args, context).await,
        Command::Logout => session::logout(context).await,
        Command::Whoami => session::whoami(context).await,
        Command::Key(verb) => key::run(verb, context).await,
        Command::User(verb) => user::run(verb, context).await,
        Command::Namespace(verb) => namespace::run(verb, context).await,
        Command::Session(verb) => session::run(verb, context).await,
        Command::Context(verb) => self::context::run(verb, context),
        Command::Explain(args) => explain::run(args, context).await,
        Command::Migrate(args) => migrate::run(args, context).await,
        Command::Doctor(args) => doctor::run(args, context).await,
        Command::Bench(args) => bench::run(args, context).await,
        Command::Config(args) => config::run(args, context),
        Command::Completions(args) => completions::run(args, context),
        Command::ExitCodes => explain::exit_codes(context),
    }
}
