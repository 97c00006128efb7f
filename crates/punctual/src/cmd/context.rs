//! `punctual context …`: the servers that somebody uses.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use comfy_table::Cell;
use punctual_client::Client;
use serde::Serialize;

use super::Context;
use crate::access::checked;
use crate::exit::{Exit, usage};
use crate::input::read_file;
use crate::output::{Format, Output, Row};
use crate::saved_contexts::{SavedContext, SavedContexts, context_name, no_context};
use crate::table::Yield;

#[derive(Debug, Subcommand)]
pub(crate) enum ContextVerb {
    /// List contexts by name, without their tokens
    #[command(aliases = ["ls"])]
    List,
    /// Use a context from now on
    Use {
        /// The context's name
        #[arg(value_name = "NAME", value_parser = context_name)]
        name: String,
    },
    /// Show a context, without its token
    #[command(aliases = ["get"])]
    Show {
        /// The context's name [default: the one in use]
        #[arg(value_name = "NAME", value_parser = context_name)]
        name: Option<String>,
    },
    /// Create or change a context
    Set(SetArgs),
    /// Delete contexts; sessions do not end, see `punctual logout`
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// The contexts' names
        #[arg(required = true, value_name = "NAME", value_parser = context_name)]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("credential").args(["token_stdin", "token_command", "no_token"])))]
#[command(after_help = "Examples:\n  \
    punctual context set ci --server https://jobs.example.com --token-stdin < ci.key\n  \
    punctual context set prod --token-command 'pass show punctual/prod'\n  \
    punctual context set prod --namespace team-a")]
pub(crate) struct SetArgs {
    /// The context's name
    #[arg(value_name = "NAME", value_parser = context_name)]
    name: String,
    /// Read the token of a key from stdin
    #[arg(long)]
    token_stdin: bool,
    /// A command that prints the token, such as a password manager
    #[arg(long, value_name = "COMMAND")]
    token_command: Option<String>,
    /// Forget the token
    #[arg(long)]
    no_token: bool,
}

/// A context as it is shown.
#[derive(Debug, Serialize)]
struct ContextView {
    name: String,
    current: bool,
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
    /// `session`, `key`, `token` or `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

impl ContextView {
    fn new(name: &str, context: &SavedContext, contexts: &SavedContexts) -> Self {
        let credential = match (&context.token, &context.token_command) {
            (Some(token), _) if token.starts_with("punctual_session_") => Some("session"),
            (Some(token), _) if token.starts_with("punctual_key_") => Some("key"),
            (Some(_), _) => Some("token"),
            (None, Some(_)) => Some("command"),
            (None, None) => None,
        };
        Self {
            name: name.to_owned(),
            current: contexts.current.as_deref() == Some(name),
            server: context.server.clone(),
            ca_file: context.ca_file.clone(),
            credential,
            user: context.user.clone(),
            namespace: context.namespace.clone(),
        }
    }
}

impl Row for ContextView {
    const HEADER: &'static [&'static str] = &["NAME", "CURRENT", "SERVER", "NAMESPACE", "CREDENTIAL", "USER"];
    const YIELDS: &'static [Yield] =
        &[Yield::Drop("USER"), Yield::Drop("CREDENTIAL"), Yield::Cut("NAMESPACE", 16), Yield::Cut("NAME", 20)];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, _: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(if self.current { "yes" } else { "-" }),
            Cell::new(&self.server),
            Cell::new(self.namespace.as_deref().unwrap_or("-")),
            Cell::new(self.credential.unwrap_or("-")),
            Cell::new(self.user.as_deref().unwrap_or("-")),
        ]
    }
}

pub(crate) fn run(verb: ContextVerb, context: &Context) -> anyhow::Result<Exit> {
    let out = &context.out;
    match verb {
        ContextVerb::List => {
            let contexts = SavedContexts::read()?;
            let shown: Vec<ContextView> =
                contexts.contexts.iter().map(|(name, context)| ContextView::new(name, context, &contexts)).collect();
            out.rows(&shown, &shown)?;
            if shown.is_empty() {
                out.hint("No contexts. Make one: punctual login --server URL");
            }
        }
        ContextVerb::Use { name } => {
            SavedContexts::change(|contexts| {
                if !contexts.contexts.contains_key(&name) {
                    return Err(no_context(&name));
                }
                contexts.current = Some(name.clone());
                Ok(())
            })?;
            out.hint(&format!("{name} is used from now on."));
        }
        ContextVerb::Show { name } => {
            let contexts = SavedContexts::read()?;
            let asked = name.map_or_else(|| context.asked_context(), |name| Ok(Some(name)))?;
            let Some((name, found)) = contexts.chosen(asked.as_deref())? else {
                return Err(usage("no context is in use", "choose one with `punctual context use NAME`"));
            };
            show(&ContextView::new(name, found, &contexts), out)?;
        }
        ContextVerb::Set(args) => set(args, context)?,
        ContextVerb::Delete { names } => {
            for name in &names {
                SavedContexts::change(|contexts| {
                    if contexts.contexts.remove(name).is_none() {
                        return Err(no_context(name));
                    }
                    contexts.current = contexts.current.take().filter(|current| current != name);
                    Ok(())
                })?;
                out.hint(&format!("{name} is deleted."));
            }
        }
    }
    Ok(Exit::Ok)
}

fn set(args: SetArgs, context: &Context) -> anyhow::Result<()> {
    let SetArgs { name, token_stdin, token_command, no_token } = args;
    let token = match token_stdin {
        true => Some(checked(&read_file("-")?).map_err(|_| usage("stdin has no token", "write the token of a key"))?),
        false => None,
    };
    let (server, ca_file) = (context.given_server()?, context.ca_file());
    let namespace = context.given_namespace()?;
    if let Some(server) = &server {
        Client::new(server)?;
    }
    SavedContexts::change(|contexts| {
        let known = contexts.contexts.get(&name).cloned();
        let is_new = known.is_none();
        let mut saved = known.unwrap_or_default();
        match server {
            // Its token is for the former server.
            Some(server) if server != saved.server => {
                saved = SavedContext { server, ..SavedContext::default() };
            }
            Some(_) => {}
            None if is_new => return Err(usage("a new context needs a server", "name it with --server")),
            None => {}
        }
        if ca_file.is_some() {
            saved.ca_file = ca_file;
        }
        if namespace.is_some() {
            saved.namespace = namespace;
        }
        if token.is_some() || token_command.is_some() || no_token {
            (saved.token, saved.token_command, saved.user) = (token, token_command, None);
        }
        contexts.contexts.insert(name.clone(), saved);
        if contexts.current.is_none() {
            contexts.current = Some(name.clone());
        }
        Ok(())
    })?;
    context.out.hint(&format!("{name} is set. Use it: punctual context use {name}"));
    Ok(())
}

fn show(view: &ContextView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(view),
        Format::Name => return out.line(&view.name),
        Format::Table => {}
    }
    let ContextView { name, current, server, ca_file, credential, user, namespace } = view;
    out.line(&format!("{name}{}", if *current { "  (in use)" } else { "" }))?;
    out.line(&format!("  server      {server}"))?;
    if let Some(ca_file) = ca_file {
        out.line(&format!("  ca file     {}", ca_file.display()))?;
    }
    if let Some(namespace) = namespace {
        out.line(&format!("  namespace   {namespace}"))?;
    }
    out.line(&format!("  credential  {}", credential.unwrap_or("none")))?;
    user.as_ref().map_or(Ok(()), |user| out.line(&format!("  user        {user}")))
}
