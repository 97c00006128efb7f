//! What every command is given: the settings, and where its output goes.

use std::io::IsTerminal;
use std::path::PathBuf;

use punctual_client::Client;
use punctual_core::namespace::{NamespaceName, NotANamespaceName};
use punctual_worker::PlainHttp;
use tracing_subscriber::EnvFilter;

use crate::access::{self, TokenSource, TrustedUsers};
use crate::cli::{Cli, Command, ContextUse};
use crate::config::{Config, Sources, Untrusted, unknown_variables};
use crate::exit::usage;
use crate::output::{Chatter, Output};
use crate::saved_contexts::{SavedContext, SavedContexts, context_name};
use crate::trust::TrustedAuthorities;
use crate::zone::Zone;

/// What commands speak, as TLS names it.
const HTTP_1: &[u8] = b"http/1.1";

/// What every command is given.
pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) out: Output,
    /// The saved context that this command goes by.
    pub(crate) saved: Option<ChosenContext>,
    verbose: u8,
}

/// A saved context and its name.
#[derive(Debug, Clone)]
pub(crate) struct ChosenContext {
    pub(crate) name: String,
    pub(crate) context: SavedContext,
}

impl Context {
    pub(crate) fn new(cli: &Cli) -> anyhow::Result<Self> {
        let flags = [cli.global.settings.given(), cli.command.flags()].concat();
        let environment = |name: &str| std::env::var(name).ok();
        let untrusted = if cli.command.minds_signals() { Untrusted::Refuse } else { Untrusted::Ignore };
        let file = cli.global.config.clone();
        let mut config = Config::load(&Sources { flags: &flags, environment: &environment, file, untrusted })?;
        let saved = chosen_context(&cli.command, &mut config)?;
        let left_out = config.check_local(cli.command.uses())?;
        let mistakes = mistaken_variables(&cli.command)?;
        let chatter = if cli.global.quiet { Chatter::Quiet } else { Chatter::Hints };
        let out = Output::new(config.output()?, config.color()?, Zone(config.tz()?), chatter);
        for warning in config.ignored.iter().chain(&left_out).chain(&mistakes) {
            out.hint(&format!("warning: {warning}"));
        }
        Ok(Self { config, out, saved, verbose: cli.global.verbose })
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        self.client_at(&self.config.server()?)
    }

    /// A client of the server at an address, with all that the settings say about servers.
    pub(crate) fn client_at(&self, url: &str) -> anyhow::Result<Client> {
        let namespace = self.namespace()?;
        Ok(self.client_of_cluster_at(url)?.in_namespace(namespace.as_deref()))
    }

    /// A client that asks in no particular namespace.
    pub(crate) fn client_of_cluster(&self) -> anyhow::Result<Client> {
        self.client_of_cluster_at(&self.config.server()?)
    }

    fn client_of_cluster_at(&self, url: &str) -> anyhow::Result<Client> {
        let token = self.token_source()?;
        Ok(self.client_without_token_at(url)?.with_tokens(|url| token(url)))
    }

    /// Those that a flag, the environment or the context names.
    pub(crate) fn namespaces(&self) -> anyhow::Result<Vec<String>> {
        let named = self.config.namespace()?.unwrap_or_default();
        let names = named.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        let names: Vec<String> = names.collect();
        if let Some(bad) = names.iter().find(|name| name.parse::<NamespaceName>().is_err()) {
            return Err(self.config.refused("namespace", format!("`{bad}` {NotANamespaceName}")));
        }
        Ok(names)
    }

    /// The one in which this command works; `None` for that of the credential.
    fn namespace(&self) -> anyhow::Result<Option<String>> {
        let mut names = self.namespaces()?;
        if names.len() > 1 {
            return Err(usage("a command works in one namespace", "name one with --namespace"));
        }
        Ok(names.pop())
    }

    /// For a login, which shows no other credential.
    pub(crate) fn client_without_token(&self) -> anyhow::Result<Client> {
        self.client_without_token_at(&self.config.server()?)
    }

    fn client_without_token_at(&self, url: &str) -> anyhow::Result<Client> {
        let client = Client::new(url)?;
        if let (PlainHttp::LoopbackOnly, Some(url)) = (self.plain_http()?, client.plain_http_elsewhere()) {
            return Err(usage(
                format!(
                    "{url} is another machine, and plain http would show commands, jobs and the access token to the network"
                ),
                "use https, or an SSH tunnel; --allow-plain-http allows it in a network that you trust",
            ));
        }
        let no_tls = |reason: String| usage(format!("no TLS: {reason}"), "correct the setting `ca_file`");
        let client = if client.uses_tls() {
            let authorities = self.trusted_authorities(&client)?;
            let tls = authorities.client(&[HTTP_1]).map_err(no_tls)?;
            let own = authorities.own().map_err(no_tls)?;
            client.with_tls(tls.config().as_ref().clone())?.with_storage_authorities(own)
        } else if self.config.ca_file()?.is_some() {
            // The storage of a server without TLS may have it.
            let own = self.trusted_authorities(&client)?.own().map_err(no_tls)?;
            client.with_storage_authorities(own)
        } else {
            client
        };
        let trusted_users = TrustedUsers::new(&self.config)?;
        Ok(client.with_listener_check(move |address| trusted_users.distrust(address))?)
    }

    /// Whom to trust over TLS at the addresses of a client.
    pub(crate) fn trusted_authorities(&self, client: &Client) -> anyhow::Result<TrustedAuthorities> {
        TrustedAuthorities::new(&self.config, client.urls().map(str::to_owned))
    }

    /// Where the access token comes from.
    pub(crate) fn token_source(&self) -> anyhow::Result<TokenSource> {
        access::token_source(&self.config, self.saved.as_ref())
    }

    /// The context that a flag or the environment names.
    pub(crate) fn asked_context(&self) -> anyhow::Result<Option<String>> {
        let name = self.config.context()?;
        if let Some(name) = &name {
            context_name(name).map_err(|reason| self.config.refused("context", reason))?;
        }
        Ok(name)
    }

    /// The server that a flag or the environment names.
    pub(crate) fn given_server(&self) -> anyhow::Result<Option<String>> {
        self.config.given("server").is_some().then(|| self.config.server()).transpose()
    }

    /// The namespace that a flag or the environment names.
    pub(crate) fn given_namespace(&self) -> anyhow::Result<Option<String>> {
        if self.config.given("namespace").is_some() { self.namespace() } else { Ok(None) }
    }

    /// The file of authorities that a flag or the environment names, as it is found from everywhere.
    pub(crate) fn ca_file(&self) -> Option<PathBuf> {
        let path = self.config.given("ca_file").filter(|path| !path.is_empty())?;
        Some(std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path)))
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

/// Finds the context that a command goes by, and has the settings follow it.
fn chosen_context(command: &Command, config: &mut Config) -> anyhow::Result<Option<ChosenContext>> {
    let contexts = match command.context_use() {
        ContextUse::No => return Ok(None),
        ContextUse::Yes | ContextUse::Makes => SavedContexts::read()?,
    };
    let asked = config.context()?;
    let chosen = match contexts.chosen(asked.as_deref()) {
        Err(_) if command.context_use() == ContextUse::Makes => return Ok(None),
        chosen => chosen?,
    };
    let Some((name, context)) = chosen else { return Ok(None) };
    let mut values = vec![("server", context.server.clone())];
    // It is the server's own: another server has another one.
    let is_followed = config.given("server").is_none_or(|given| given == context.server);
    if let Some(path) = context.ca_file.as_ref().filter(|_| is_followed) {
        values.push(("ca_file", path.display().to_string()));
    }
    if let Some(namespace) = context.namespace.as_ref().filter(|_| is_followed) {
        values.push(("namespace", namespace.clone()));
    }
    config.adopt(name, &values);
    Ok(Some(ChosenContext { name: name.to_owned(), context: context.clone() }))
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
