//! `punctual authority`.

use clap::Subcommand;
use punctual_api::{AuthorityList, AuthorityView, RotateAuthority};
use punctual_client::ClientError;
use punctual_core::Span;

use super::Context;
use crate::exit::Exit;
use crate::field_flags::{OF_KEYS, in_flags};
use crate::output::Format;
use crate::when::parse_span;

#[derive(Debug, Subcommand)]
pub(crate) enum AuthorityVerb {
    /// Show the authorities that are trusted now: fingerprints, and certificates in PEM
    #[command(aliases = ["get"])]
    Show,
    /// Replace the authority; both are trusted until the former one is retired
    Rotate {
        /// How long the former authority is trusted beside the new one, from 2m to 365d [default: 30d]
        #[arg(long, value_name = "TIME", value_parser = parse_span)]
        overlap: Option<Span>,
    },
}

fn named(error: ClientError) -> anyhow::Error {
    in_flags(error, OF_KEYS).into()
}

pub(crate) async fn run(verb: AuthorityVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    match verb {
        AuthorityVerb::Show => show(&client.authority().await?, context)?,
        AuthorityVerb::Rotate { overlap } => {
            show(&client.rotate_authority(&RotateAuthority { overlap }).await.map_err(named)?, context)?;
            context.out.hint(
                "Give the new certificate to commands and workers that have a --ca-file, before the former authority is \
                 retired.",
            );
        }
    }
    Ok(Exit::Ok)
}

fn show(list: &AuthorityList, context: &Context) -> anyhow::Result<()> {
    match context.out.format {
        Format::Json | Format::Jsonl => context.out.json(list),
        Format::Name => list.authorities.iter().try_for_each(|view| context.out.line(&view.fingerprint)),
        // Comments are allowed around certificates, so the whole output can be used as a --ca-file.
        Format::Table => list.authorities.iter().try_for_each(|view| context.out.line(&text(view, context))),
    }
}

fn text(view: &AuthorityView, context: &Context) -> String {
    let shown = |time| context.out.zone.show(time);
    let end = match view.retired_at {
        Some(retired) => format!("retired at {}", shown(retired)),
        None => format!("expires at {}", shown(view.not_after)),
    };
    let made = shown(view.created_at);
    format!(
        "# authority {}, made at {made}, {end}\n# {}\n{}",
        view.generation,
        view.fingerprint,
        view.certificate.trim_end()
    )
}
