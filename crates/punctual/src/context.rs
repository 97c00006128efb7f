//! What every command is given: the settings, and where its output goes.

use std::io::IsTerminal;

use punctual_client::Client;
use punctual_worker::PlainHttp;
use tracing_subscriber::EnvFilter;

use crate::access::{self, TokenSource, TrustedUsers};
use crate::cli::{Cli, Command};
use crate::config::{Config, Sources, Untrusted, unknown_variables};
use crate::exit::usage;
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
        let trusted_users = TrustedUsers::new(&self.config)?;
        Ok(client.with_listener_check(move |address| trusted_users.distrust(address))?.with_tokens(|url| token(url)))
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
