//! `punctual session …`, and logging in and out.

use std::io::{BufRead, IsTerminal, Write};

use clap::{Args, Subcommand};
use punctual_api::{ErrorKind, LoginRequest, SecretText, SessionCreated};
use punctual_client::{Client, ClientError};
use punctual_core::namespace::NamespaceName;

use super::{Context, oidc_login};
use crate::exit::{Exit, usage};
use crate::field_flags::{OF_USERS, USER_WORDS, in_flags, in_words};
use crate::output::{Format, note};
use crate::password::Asking;
use crate::saved_contexts::{SavedContext, SavedContexts, name_of_server};
use crate::view;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionVerb {
    /// List open sessions: one's own, or everybody's for those who manage people
    #[command(aliases = ["ls"])]
    List,
    /// End sessions
    #[command(aliases = ["end", "remove", "rm"])]
    Delete {
        /// The sessions' ids; `current` for the one in use
        #[arg(required = true, value_name = "SESSION")]
        sessions: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual login --server https://jobs.example.com --user ana\n  \
    punctual login --user ana --password-stdin < password.txt\n  \
    punctual login --oidc\n  \
    punctual login --device\n\n\
    The session is kept in $XDG_CONFIG_HOME/punctual/contexts.toml, which only you can read, under the name that\n\
    --context gives or the server's. There is no flag for the password: everybody can read command lines.")]
pub(crate) struct LoginArgs {
    /// The user's name [default: asked for]
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Read the password from stdin
    #[arg(long)]
    password_stdin: bool,
    /// Log in with a browser on this machine, at the OpenID Connect provider of the server
    #[arg(long, conflicts_with_all = ["user", "password_stdin"])]
    oidc: bool,
    /// Log in at that provider with a browser on any machine, by typing a code there
    #[arg(long, conflicts_with_all = ["oidc", "user", "password_stdin"])]
    device: bool,
    /// Print the address, and start no browser
    #[arg(long, requires = "oidc")]
    no_browser: bool,
}

fn named(error: ClientError) -> anyhow::Error {
    in_words(in_flags(error, OF_USERS), USER_WORDS).into()
}

pub(crate) async fn run(verb: SessionVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        SessionVerb::List => {
            let list = client.sessions().await.map_err(named)?;
            out.rows(&list.sessions, &list)?;
        }
        SessionVerb::Delete { sessions } => {
            for session in &sessions {
                client.end_session(session).await.map_err(named)?;
                out.hint(&format!("{session} has ended."));
            }
        }
    }
    Ok(Exit::Ok)
}

/// Begins a session and keeps it in a context, which is the current one from then on.
pub(crate) async fn login(args: LoginArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client_without_token()?;
    let LoginArgs { user, password_stdin, oidc, device, no_browser } = args;
    if oidc || device {
        let created = match device {
            true => oidc_login::by_device(&client).await?,
            false => oidc_login::by_browser(&client, no_browser).await?,
        };
        return keep(created, &client, context).await;
    }
    let user = match user.or_else(|| context.saved.as_ref()?.context.user.clone().filter(|_| password_stdin)) {
        Some(user) => user,
        None => ask_name()?,
    };
    let password = Asking::new(password_stdin).ask(&format!("Password of {user} at {}: ", client.url()))?;
    let request = LoginRequest { name: user, password };
    keep(client.login(&request).await.map_err(named)?, &client, context).await
}

/// Keeps a session in a context.
async fn keep(created: SessionCreated, client: &Client, context: &Context) -> anyhow::Result<Exit> {
    let SessionCreated { session, token: SecretText(token) } = created;
    let user = session.user.clone();
    let server = client.urls().collect::<Vec<_>>().join(",");
    let asked_name = context.asked_context()?;
    let given = context.given_namespace()?;
    let only = if given.is_some() { None } else { only_namespace(client, &token).await };
    let (name, namespace) = SavedContexts::change(|contexts| {
        let of_server = || {
            let known = contexts.contexts.iter().find(|(_, known)| known.server == server);
            known.map_or_else(|| name_of_server(&server), |(name, _)| name.clone())
        };
        let name = asked_name.unwrap_or_else(of_server);
        let known = contexts.contexts.get(&name).filter(|known| known.server == server);
        let ca_file = context.ca_file().or_else(|| known.and_then(|known| known.ca_file.clone()));
        let namespace = given.or_else(|| known.and_then(|known| known.namespace.clone())).or_else(|| only.clone());
        let user = Some(user.clone());
        let token = Some(token);
        let saved = SavedContext { server, ca_file, token, token_command: None, user, namespace: namespace.clone() };
        contexts.contexts.insert(name.clone(), saved);
        contexts.current = Some(name.clone());
        Ok((name, namespace))
    })?;
    let out = &context.out;
    match out.format {
        Format::Json | Format::Jsonl => out.json(&session)?,
        Format::Table | Format::Name => out.line(&session.user)?,
    }
    let until = out.zone.show(session.expires_at);
    out.hint(&format!("Logged in as {user} until {until}, in the context {name}. Log out with: punctual logout"));
    if only.is_some() && namespace == only {
        let namespace = only.unwrap_or_default();
        out.hint(&format!("The context works in the namespace {namespace}, the only one in which {user} has a right."));
    }
    Ok(Exit::Ok)
}

/// The namespace of somebody who has a right in one alone. The namespace default needs no choice.
async fn only_namespace(client: &Client, token: &str) -> Option<String> {
    let list = client.clone().with_tokens(|_| Some(token.to_owned())).namespaces().await.ok()?;
    let [only] = &list.namespaces[..] else { return None };
    Some(only.name.clone()).filter(|name| name != NamespaceName::DEFAULT)
}

/// Ends the session of the context, and forgets it.
pub(crate) async fn logout(context: &Context) -> anyhow::Result<Exit> {
    let out = &context.out;
    let Some(saved) = &context.saved else {
        return Err(usage("there is no context to log out of", "see `punctual context list`"));
    };
    if saved.context.token.is_none() {
        return Err(usage(
            format!("the context {} has no session", saved.name),
            "a token of a command or of a file ends where it was made: `punctual key delete`",
        ));
    }
    let ended = async { context.client()?.end_session("current").await.map_err(anyhow::Error::from) }.await;
    let name = saved.name.clone();
    SavedContexts::change(|contexts| {
        if let Some(found) = contexts.contexts.get_mut(&name) {
            found.token = None;
        }
        Ok(())
    })?;
    if let Err(error) = ended {
        let is_over = error.downcast_ref::<ClientError>().and_then(ClientError::kind).is_some_and(|kind| {
            matches!(kind, ErrorKind::CredentialExpired | ErrorKind::CredentialRevoked | ErrorKind::InvalidToken)
        });
        if !is_over {
            note(&format!(
                "warning: the session is forgotten here, and the server was not told: {error:#}. It ends by itself, or with \
                 `punctual session delete` after the next login"
            ));
        }
    }
    out.hint(&format!("Logged out of the context {name}."));
    Ok(Exit::Ok)
}

pub(crate) async fn whoami(context: &Context) -> anyhow::Result<Exit> {
    let whoami = context.client()?.whoami().await.map_err(named)?;
    view::whoami(&whoami, &context.out)?;
    Ok(Exit::Ok)
}

fn ask_name() -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(usage("there is no user name", "name the user with --user"));
    }
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(b"User: ").and_then(|()| stderr.flush());
    let mut name = String::new();
    let _ = stdin.lock().read_line(&mut name);
    match name.trim() {
        "" => Err(usage("there is no user name", "name the user with --user")),
        name => Ok(name.to_owned()),
    }
}
