//! `punctual key …`.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand};
use punctual_api::{KeyCreated, KeyRequest, RotateRequest, SecretText};
use punctual_client::ClientError;
use punctual_core::Span;

use super::Context;
use crate::exit::{Exit, failed, usage};
use crate::field_flags::{KEY_WORDS, OF_KEYS, in_flags, in_words};
use crate::input::io_reason;
use crate::output::{Format, Output};
use crate::view;
use crate::when::parse_span;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// Create a key for a program; its secret is shown once
    #[command(aliases = ["add", "new"])]
    Create(CreateArgs),
    /// List keys, also those that ended within the last 7 days
    #[command(aliases = ["ls"])]
    List,
    /// Show a key, without its secret
    #[command(aliases = ["show"])]
    Get {
        /// The key's name or id
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Replace a key by a new one; the old one stays valid for a while
    Rotate(RotateArgs),
    /// Revoke keys; they count nowhere any more within 5 seconds
    #[command(aliases = ["revoke", "remove", "rm"])]
    Delete {
        /// The keys' names or ids
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("grant").args(["role", "right"]).required(true)))]
#[command(after_help = "Examples:\n  \
    punctual key create ci --right jobs.submit --right jobs.view --expires-in 90d --out ci.key\n  \
    punctual key create ops --role operator\n  \
    punctual key create deploy --role developer --namespace team-a")]
pub(crate) struct CreateArgs {
    /// The key's name
    #[arg(value_name = "NAME")]
    name: String,
    /// A role: viewer, operator, developer or admin
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// A right, such as jobs.submit; may be repeated
    #[arg(long, value_name = "RIGHT")]
    right: Vec<String>,
    /// How long the key is valid, such as 90d [default: without end]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    expires_in: Option<Span>,
    /// Write the secret into this new file, which only you can read, and do not show it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// The key's name or id
    #[arg(value_name = "KEY")]
    key: String,
    /// How long the old key stays valid; 0s to end it now [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    overlap: Option<Span>,
    /// How long the new key is valid [default: as long as the old one was]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    expires_in: Option<Span>,
    /// Write the secret into this new file, which only you can read, and do not show it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn named(error: ClientError) -> anyhow::Error {
    in_words(in_flags(error, OF_KEYS), KEY_WORDS).into()
}

pub(crate) async fn run(verb: KeyVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        KeyVerb::Create(CreateArgs { name, role, right, expires_in, out: file }) => {
            let file = file.map(NewFile::create).transpose()?;
            let rights = Some(right).filter(|rights| !rights.is_empty());
            // The namespace goes with the request, and the key is made there.
            let request = KeyRequest { name, role, rights, expires_in, namespace: None };
            let created = client.create_key(&request).await.map_err(named)?;
            show_created(&created, file, out)?;
        }
        KeyVerb::List => {
            let list = client.keys().await.map_err(named)?;
            out.rows(&list.keys, &list)?;
            if list.keys.is_empty() {
                out.hint("No keys. Create one: punctual key create ci --role operator --out ci.key");
            }
        }
        KeyVerb::Get { key } => view::key(&client.key(&key).await.map_err(named)?, out)?,
        KeyVerb::Rotate(RotateArgs { key, overlap, expires_in, out: file }) => {
            let file = file.map(NewFile::create).transpose()?;
            let request = RotateRequest { overlap, expires_in };
            let created = client.rotate_key(&key, &request).await.map_err(named)?;
            show_created(&created, file, out)?;
        }
        KeyVerb::Delete { keys } => {
            for key in &keys {
                client.revoke_key(key).await.map_err(named)?;
                out.hint(&format!("{key} is revoked."));
            }
        }
    }
    Ok(Exit::Ok)
}

fn show_created(created: &KeyCreated, file: Option<NewFile>, out: &Output) -> anyhow::Result<()> {
    let KeyCreated { key, secret: SecretText(secret) } = created;
    if key.namespace.is_none() {
        out.hint(
            "The key is for the cluster: it is valid in all namespaces. --namespace makes one for a single namespace.",
        );
    }
    if let Some(file) = file {
        let path = file.fill(secret)?;
        out.hint(&format!("The secret is in {}. Use it: punctual ps --token-file {}", path.display(), path.display()));
        return match out.format {
            Format::Json | Format::Jsonl => out.json(key),
            Format::Name => out.line(&key.name),
            Format::Table => out.line(&key.id),
        };
    }
    match out.format {
        Format::Json | Format::Jsonl => out.json(created)?,
        Format::Table | Format::Name => out.line(secret)?,
    }
    out.hint("This is the only time that the secret is shown.");
    Ok(())
}

/// A file that is made before the key is: a key whose secret cannot be kept is of no use.
struct NewFile {
    path: PathBuf,
    file: File,
    is_filled: bool,
}

impl NewFile {
    fn create(path: PathBuf) -> anyhow::Result<Self> {
        let made = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let file = made.map_err(|error| {
            usage(format!("cannot create {}: {}", path.display(), io_reason(&error)), "name a file that does not exist")
        })?;
        Ok(Self { path, file, is_filled: false })
    }

    fn fill(mut self, secret: &str) -> anyhow::Result<PathBuf> {
        let written = writeln!(self.file, "{secret}").and_then(|()| self.file.sync_all());
        written.map_err(|error| {
            failed(
                format!("the key was created, and its secret cannot be written: {}", io_reason(&error)),
                "revoke it with `punctual key delete`, and create another one",
            )
        })?;
        self.is_filled = true;
        Ok(std::mem::take(&mut self.path))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_filled && self.path != Path::new("") {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
