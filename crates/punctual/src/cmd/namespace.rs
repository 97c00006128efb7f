//! `punctual namespace …`.

use clap::{ArgGroup, Args, Subcommand};
use punctual_api::{NamespaceEdit, NamespaceRequest};
use punctual_client::{ClientError, IfMatch};

use super::Context;
use crate::exit::Exit;
use crate::field_flags::{NAMESPACE_WORDS, OF_NAMESPACES, in_flags, in_words};
use crate::output::Format;
use crate::quota_args::{QuotaArg, edit_of};
use crate::view;

#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceVerb {
    /// List the namespaces in which you have a right
    #[command(aliases = ["ls"])]
    List,
    /// Show a namespace, what it uses of its quotas, and what you may do in it
    #[command(aliases = ["show"])]
    Get {
        /// The namespace's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Create a namespace
    #[command(aliases = ["add", "new"])]
    Create(CreateArgs),
    /// Change the description or the quotas of a namespace; its name never changes
    Edit(EditArgs),
    /// Delete namespaces in which there is nothing but history
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// The namespaces' names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual namespace create team-a --description 'Billing' --quota stored_jobs=100000\n  \
    punctual user edit ana --namespace-role team-a=developer\n  \
    punctual ps --namespace team-a")]
pub(crate) struct CreateArgs {
    /// 1 to 63 lowercase letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// A description for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// How much it may have or use: stored_jobs, running_attempts, submissions_per_second, schedules, artifact_bytes, log_bytes, retention
    #[arg(long, value_name = "NAME=VALUE")]
    quota: Vec<QuotaArg>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual namespace edit team-a --quota stored_jobs=100000 --quota submissions_per_second=500\n  \
    punctual namespace edit team-a --quota artifact_bytes=10GiB --quota retention=7d\n  \
    punctual namespace edit team-a --quota stored_jobs=")]
#[command(group(ArgGroup::new("change").args(["description", "quota"]).required(true).multiple(true)))]
pub(crate) struct EditArgs {
    /// The namespace's name
    #[arg(value_name = "NAME")]
    name: String,
    /// A description for people; empty for none
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// How much it may have or use: stored_jobs, running_attempts, submissions_per_second, schedules, artifact_bytes, log_bytes, retention; without a
    /// value, the quota is removed
    #[arg(long, value_name = "NAME=VALUE")]
    quota: Vec<QuotaArg>,
    /// Change it only if it has this revision
    #[arg(long, value_name = "REVISION")]
    if_revision: Option<u32>,
}

fn named(error: ClientError) -> anyhow::Error {
    in_words(in_flags(error, OF_NAMESPACES), NAMESPACE_WORDS).into()
}

pub(crate) async fn run(verb: NamespaceVerb, context: &Context) -> anyhow::Result<Exit> {
    // They are named, and not chosen.
    let client = context.client_of_cluster()?;
    let out = &context.out;
    match verb {
        NamespaceVerb::List => {
            let list = client.namespaces().await.map_err(named)?;
            out.rows(&list.namespaces, &list)?;
            if list.namespaces.is_empty() {
                out.hint("You have no right in any namespace. Ask an administrator for a role in one.");
            }
        }
        NamespaceVerb::Get { name } => view::namespace(&client.namespace(&name).await.map_err(named)?, out)?,
        NamespaceVerb::Create(CreateArgs { name, description, quota }) => {
            let request = NamespaceRequest { name, description, quotas: edit_of(&quota) };
            let created = client.create_namespace(&request).await.map_err(named)?;
            match out.format {
                Format::Json | Format::Jsonl => out.json(&created)?,
                Format::Table | Format::Name => out.line(&created.name)?,
            }
            out.hint(&format!(
                "Work in it with --namespace {0}, or: punctual context set NAME --namespace {0}. Workers that joined with a \
                 token serve the namespaces of their token; let some serve this one: punctual worker token create \
                 --namespace {0} --queues default --kinds binary,http",
                created.name
            ));
        }
        NamespaceVerb::Edit(EditArgs { name, description, quota, if_revision }) => {
            let edit = NamespaceEdit { description, quotas: edit_of(&quota) };
            let edited = client.edit_namespace(&name, &edit, IfMatch::of_revision(if_revision)).await.map_err(named)?;
            view::namespace(&edited, out)?;
        }
        NamespaceVerb::Delete { names } => {
            for name in &names {
                client.delete_namespace(name, IfMatch::Any).await.map_err(named)?;
                out.hint(&format!("{name} is deleted."));
            }
        }
    }
    Ok(Exit::Ok)
}
