//! The commands, one file each. They parse, call, and print; they decide nothing.

pub(crate) mod agent;
pub(crate) mod artifact;
pub(crate) mod backfill;
pub(crate) mod bench;
mod binary;
pub(crate) mod calendar;
pub(crate) mod changes;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod flags;
pub(crate) mod import;
pub(crate) mod job;
pub(crate) mod logs;
pub(crate) mod migrate;
pub(crate) mod notify;
pub(crate) mod overdue;
pub(crate) mod patience;
pub(crate) mod ps;
mod reasons;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod server;
pub(crate) mod servers;
pub(crate) mod simulate;
mod sparse;
pub(crate) mod spec;
pub(crate) mod task;
pub(crate) mod verbs;
pub(crate) mod wait;
mod waiting;
mod what;
pub(crate) mod worker;

use std::io::{IsTerminal, Read};

use anyhow::Context as _;
use punctual_api::{FieldCode, Misfit};
use punctual_client::Client;
use punctual_worker::PlainHttp;
use tracing_subscriber::EnvFilter;

use crate::access::{self, TokenSource};
use crate::cli::{Cli, Command};
use crate::config::{Config, Sources, Untrusted, unknown_variables};
use crate::exit::{Exit, usage};
use crate::output::{Chatter, Output};
use crate::zone::Zone;

/// What every command is given.
pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) out: Output,
    verbose: u8,
}

impl Context {
    pub(crate) fn new(cli: &Cli) -> anyhow::Result<Self> {
        let flags = [cli.global.settings.given(), cli.command.flags()].concat();
        let environment = |name: &str| std::env::var(name).ok();
        let untrusted = if cli.command.minds_signals() { Untrusted::Refuse } else { Untrusted::Ignore };
        let file = cli.global.config.clone();
        let config = Config::load(&Sources { flags: &flags, environment: &environment, file, untrusted })?;
        let left_out = config.check_local(cli.command.uses())?;
        let mistakes = mistaken_variables(&cli.command)?;
        let chatter = if cli.global.quiet { Chatter::Quiet } else { Chatter::Hints };
        let out = Output::new(config.output()?, config.color()?, Zone(config.tz()?), chatter);
        for warning in config.ignored.iter().chain(&left_out).chain(&mistakes) {
            out.hint(&format!("warning: {warning}"));
        }
        Ok(Self { config, out, verbose: cli.global.verbose })
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let client = Client::new(&self.config.server()?)?;
        if let (PlainHttp::LoopbackOnly, Some(url)) = (self.plain_http()?, client.plain_http_elsewhere()) {
            return Err(usage(
                format!(
                    "{url} is another machine, and plain http would show commands, jobs and the access token to the network"
                ),
                "use https, or an SSH tunnel; --allow-plain-http allows it in a network that you trust",
            ));
        }
        let token = self.token_source()?;
        Ok(client.with_tokens(|url| token(url)))
    }

    /// Where the access token comes from.
    pub(crate) fn token_source(&self) -> anyhow::Result<TokenSource> {
        access::token_source(&self.config)
    }

    pub(crate) fn plain_http(&self) -> anyhow::Result<PlainHttp> {
        Ok(if self.config.allow_plain_http()? { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly })
    }

    /// With `-v`, commands that ask a server log their requests.
    pub(crate) fn log_requests(&self) -> anyhow::Result<()> {
        match (self.verbose, self.config.text("log")) {
            (0, "") => Ok(()),
            (0 | 1, _) => self.log_at("warn,punctual_client=debug"),
            _ => self.log_at("trace"),
        }
    }

    /// Logs go to stderr. `usual` is the level without `-q` and `-v`.
    pub(crate) fn start_logging(&self, usual: &str) -> anyhow::Result<()> {
        let level = match (self.out.chatter, self.verbose) {
            (Chatter::Quiet, _) => "error",
            (Chatter::Hints, 0) => usual,
            (Chatter::Hints, 1) => "debug",
            (Chatter::Hints, _) => "trace",
        };
        self.log_at(level)
    }

    fn log_at(&self, level: &str) -> anyhow::Result<()> {
        let filter = self.config.log()?.unwrap_or_else(|| EnvFilter::new(level));
        let stderr_colored = self.out.colored && std::io::stderr().is_terminal();
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(stderr_colored)
            // A terminal that hung up takes no lines, and must not take us with it.
            .log_internal_errors(false)
            .try_init()
            .map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
    }
}

/// What is wrong with JSON that can be read and does not fit, with the name that was written where there is one.
pub(crate) fn misfit(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let misfit = Misfit::read(&text);
    match (misfit.code, &misfit.missing) {
        (_, Some(missing)) => format!("`{missing}` {}", misfit.detail),
        (FieldCode::UnknownField, None) => {
            let written = text.split('`').nth(1).unwrap_or_default();
            format!("`{written}`: {}", misfit.detail)
        }
        (_, None) => misfit.detail,
    }
}

/// What the system says of a file, without its numbers.
pub(crate) fn io_reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_lowercase()
}

/// Reads `TEXT`, `@file` or `-` for stdin.
pub(crate) fn text_or_file(argument: &str) -> anyhow::Result<String> {
    match argument.strip_prefix('@') {
        Some(path) => read_file(path),
        None if argument == "-" => read_file("-"),
        None => Ok(argument.to_owned()),
    }
}

/// Reads a file, or stdin for `-`.
pub(crate) fn read_file(path: &str) -> anyhow::Result<String> {
    if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read from stdin")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))
}

/// The same of a file that may be no text.
pub(crate) fn read_bytes(path: &str) -> anyhow::Result<Vec<u8>> {
    if path == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read from stdin")?;
        return Ok(bytes);
    }
    std::fs::read(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &str, error: &std::io::Error) -> anyhow::Error {
    usage(format!("cannot read {path}: {}", io_reason(error)), "name a file that exists, or - for stdin")
}

/// Variables that look like settings and are none. Whoever runs for long does not start with one: it would do something else than
/// was meant.
fn mistaken_variables(command: &Command) -> anyhow::Result<Vec<String>> {
    // Its worker chose its environment.
    if matches!(command, Command::Agent(_)) {
        return Ok(Vec::new());
    }
    let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    let mistakes = unknown_variables(&names);
    match mistakes.first() {
        Some(first) if command.minds_signals() => {
            Err(usage(first.clone(), "correct or remove it; see `punctual config --help` for every setting"))
        }
        _ => Ok(mistakes),
    }
}

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
        Command::Cancel(ids) => verbs::run(verbs::Verb::Cancel, ids, context).await,
        Command::Job(verb) => job::run(verb, context).await,
        Command::Artifact(verb) => artifact::run(verb, context).await,
        Command::Schedule(verb) => schedule::run(verb, context).await,
        Command::Backfill(verb) => backfill::run(verb, context).await,
        Command::Calendar(verb) => calendar::run(verb, context).await,
        Command::Notify(verb) => notify::run(verb, context).await,
        Command::Overdue(args) => overdue::run(args, context).await,
        Command::Simulate(args) => simulate::run(args, context).await,
        Command::Import(verb) => import::run(verb, context).await,
        Command::Task(verb) => task::run(verb, context).await,
        Command::Explain(args) => explain::run(args, context).await,
        Command::Migrate(args) => migrate::run(args, context).await,
        Command::Doctor(args) => doctor::run(args, context).await,
        Command::Bench(args) => bench::run(args, context).await,
        Command::Config(args) => config::run(args, context),
        Command::Completions(args) => completions::run(args, context),
        Command::ExitCodes => explain::exit_codes(context),
    }
}
