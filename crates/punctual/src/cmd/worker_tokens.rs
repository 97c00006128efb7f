//! `punctual worker token …`, `punctual worker enrolments` and `punctual worker revoke`.

use clap::{Args, Subcommand};
use punctual_api::{EnrolmentQuery, WorkerEdit, WorkerTokenRequest};
use punctual_core::{EnrolmentId, JoinTokenId, Span};

use super::Context;
use crate::exit::Exit;
use crate::output::{Format, counted};
use crate::when::parse_span;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Create a token with which workers on other hosts join
    ///
    /// The token is printed once. Give it to the worker in a file, and start it with --join FILE.
    ///
    /// The workers run the jobs of the namespaces that --namespace names, which may be repeated; without it, those of the
    /// namespace default.
    Create(CreateArgs),
    /// List join tokens, without their secrets
    #[command(aliases = ["ls"])]
    List,
    /// Change the namespaces of all workers that joined with a token, and of those that will
    Edit {
        /// The id of the token
        #[arg(value_name = "ID")]
        id: JoinTokenId,
        /// The namespaces whose jobs they run from now on, separated by commas
        #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
        namespaces: Vec<String>,
    },
    /// Delete join tokens: nobody joins with them any more, and workers that joined stay
    #[command(aliases = ["remove", "rm", "revoke"])]
    Delete {
        /// The ids of the tokens
        #[arg(required = true, value_name = "ID")]
        ids: Vec<JoinTokenId>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual worker token create --queues images --kinds binary > join.token\n  \
    punctual worker token create --queues a,b --kinds http,handler:resize --labels gpu=true --expires 1h --uses 20\n  \
    punctual worker token create --queues mail --kinds email --namespace team-a --namespace team-b")]
pub(crate) struct CreateArgs {
    /// The queues that the workers may serve, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    queues: Vec<String>,
    /// The kinds of tasks that they may run, separated by commas: binary, http, command, handler, handler:NAME, …
    #[arg(long, value_name = "KINDS", value_delimiter = ',', required = true)]
    kinds: Vec<String>,
    /// The labels that they have, as key=value separated by commas
    #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    /// How long workers can join with it, from 1m to 30d
    #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "1h")]
    expires: Span,
    /// How many workers can join with it
    #[arg(long, value_name = "N", default_value_t = 1)]
    uses: u32,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.trim().split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not a label, such as zone=eu")),
    }
}

pub(crate) async fn run(verb: TokenVerb, context: &Context) -> anyhow::Result<Exit> {
    // Workers are the cluster's, and may work for several namespaces.
    let (client, out) = (context.client_of_cluster()?, &context.out);
    match verb {
        TokenVerb::Create(args) => {
            let CreateArgs { queues, kinds, labels, expires, uses } = args;
            let namespaces = context.namespaces()?;
            let request = WorkerTokenRequest {
                queues,
                kinds,
                labels: labels.into_iter().collect(),
                expires_in: Some(expires),
                uses: Some(uses),
                namespaces,
            };
            let created = client.create_worker_token(&request).await?;
            match out.format {
                Format::Json | Format::Jsonl => out.json(&created)?,
                Format::Name => out.line(&created.details.id.to_string())?,
                // Alone on stdout, so that it can go into a file.
                Format::Table => out.line(&created.token)?,
            }
            let (id, until) = (created.details.id, out.zone.show(created.details.expires_at));
            out.hint(&format!(
                "{id} admits {} until {until}. It is not shown again. On the other host, keep it in a file that only the \
                 worker's user can read: punctual worker --server https://HOST:PORT --join FILE",
                counted(created.details.uses as usize, "worker"),
            ));
        }
        TokenVerb::List => {
            let list = client.worker_tokens().await?;
            out.rows(&list.tokens, &list)?;
            if list.tokens.is_empty() {
                out.hint("No join tokens. Create one: punctual worker token create --queues default --kinds binary");
            }
        }
        TokenVerb::Edit { id, namespaces } => {
            let token = client.edit_worker_token(id, &WorkerEdit { namespaces }).await?;
            out.hint(&format!("Workers of {id} serve {} within 5 seconds.", token.namespaces.join(", ")));
        }
        TokenVerb::Delete { ids } => {
            for id in ids {
                client.delete_worker_token(id).await?;
                out.hint(&format!("{id} is deleted."));
            }
        }
    }
    Ok(Exit::Ok)
}

#[derive(Debug, Args)]
pub(crate) struct EnrolmentArgs {
    /// How many at most
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Continue a list: next_cursor of its last page
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

pub(crate) async fn enrolments(args: EnrolmentArgs, context: &Context) -> anyhow::Result<Exit> {
    let query = EnrolmentQuery { limit: args.limit.map(|limit| limit.to_string()), cursor: args.cursor };
    let list = context.client()?.enrolments(&query).await?;
    context.out.rows(&list.enrolments, &list)?;
    if list.enrolments.is_empty() {
        context.out.hint("No worker has joined. Make a token for one: punctual worker token create");
    }
    if let Some(cursor) = &list.next_cursor {
        context.out.hint(&format!("There are more: punctual worker enrolments --cursor {cursor}"));
    }
    Ok(Exit::Ok)
}

pub(crate) async fn edit(ids: Vec<EnrolmentId>, namespaces: Vec<String>, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client_of_cluster()?;
    let edit = WorkerEdit { namespaces };
    for id in ids {
        let worker = client.edit_worker(id, &edit).await?;
        context.out.hint(&format!("{id} serves {} within 5 seconds.", worker.namespaces.join(", ")));
    }
    Ok(Exit::Ok)
}

pub(crate) async fn revoke(ids: Vec<EnrolmentId>, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    for id in ids {
        client.revoke_worker(id).await?;
        context.out.hint(&format!("{id} is revoked; what it ran is lost or runs elsewhere."));
    }
    context.out.hint("A join token with uses left still admits workers: punctual worker token list");
    Ok(Exit::Ok)
}
