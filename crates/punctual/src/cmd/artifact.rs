//! `punctual artifact …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use punctual_api::{ArtifactKind, ArtifactView};
use punctual_client::Client;
use punctual_core::ArtifactId;

use super::Context;
use crate::exit::Exit;
use crate::field_flags::{self, in_flags};
use crate::output::{Format, Output, size_words};
use crate::upload::{Upload, upload};
use crate::view;
use crate::when::whole;

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactVerb {
    /// Upload a static binary for tasks to run, or with --data a file for tasks to read
    ///
    /// A file that was uploaded before is recognized and not sent again.
    #[command(aliases = ["push", "add", "upload"])]
    Create(CreateArgs),
    /// List artifacts, the newest first
    #[command(aliases = ["ls"])]
    List {
        /// How many, at most; 1 to 1000
        #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
        limit: u16,
        /// Go on where another list ended
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Show an artifact, and whether its file has arrived
    #[command(aliases = ["show"])]
    Get {
        #[arg(value_name = "ID")]
        id: ArtifactId,
    },
    /// Delete artifacts that no task, schedule or unfinished job needs
    #[command(aliases = ["remove", "rm"])]
    Delete {
        #[arg(required = true, value_name = "ID")]
        ids: Vec<ArtifactId>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A name for people [default: the file's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Any content, for tasks to read
    #[arg(long)]
    data: bool,
}

pub(crate) async fn run(verb: ArtifactVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        ArtifactVerb::Create(args) => create(&args, &client, out).await?,
        ArtifactVerb::List { limit, cursor } => {
            let page = client.artifacts(Some(limit.into()), cursor.as_deref()).await;
            let page = page.map_err(|error| in_flags(error, field_flags::OF_LISTS))?;
            out.rows(&page.artifacts, &page)?;
            match &page.next_cursor {
                Some(cursor) => out.hint_more(page.artifacts.len(), "artifact", cursor),
                None if page.artifacts.is_empty() => {
                    out.hint("No artifacts. Upload one: punctual artifact create FILE")
                }
                None => {}
            }
        }
        ArtifactVerb::Get { id } => view::artifact(out, &client.artifact(id).await?)?,
        ArtifactVerb::Delete { ids } => {
            for id in ids {
                client.delete_artifact(id).await?;
                out.hint(&format!("{id} is deleted."));
            }
        }
    }
    Ok(Exit::Ok)
}

async fn create(args: &CreateArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let kind = if args.data { ArtifactKind::File } else { ArtifactKind::Binary };
    let Upload { artifact, was_sent } = upload(client, &args.file, args.name.clone(), kind).await?;
    tell(out, &artifact)?;
    if !was_sent {
        out.hint("This file was uploaded before; nothing was sent.");
        return Ok(());
    }
    let machine = artifact.machine.as_deref().map(|machine| format!(", for {machine}")).unwrap_or_default();
    out.hint(&format!("Uploaded {}{machine}.", size_words(artifact.size)));
    Ok(())
}

fn tell(out: &Output, artifact: &ArtifactView) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(artifact),
        Format::Name | Format::Table => out.line(&artifact.id.to_string()),
    }
}
