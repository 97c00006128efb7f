//! `punctual cluster-secret`.

use clap::Subcommand;
use punctual_api::{ClusterSecretStage, ClusterSecretView, RotateClusterSecret};
use punctual_client::ClientError;
use punctual_core::{Span, Timestamp};

use super::Context;
use crate::exit::Exit;
use crate::field_flags::{OF_KEYS, in_flags};
use crate::output::Format;
use crate::when::parse_span;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterSecretVerb {
    /// Show the id and the age of the cluster's secret, and how far a rotation is
    #[command(aliases = ["get"])]
    Show,
    /// Replace the cluster's secret while servers run
    ///
    /// The tokens of attempts and agents, URLs of uploads and downloads, the access token and the proofs between servers are
    /// derived from it. All servers first accept the new secret, then sign with it. What the former one has signed is accepted
    /// until the overlap is over and no attempt runs that began before.
    Rotate {
        /// How long the former secret is accepted once all servers sign with the new one, up to 365d [default: 1d]
        #[arg(long, value_name = "TIME", value_parser = parse_span)]
        overlap: Option<Span>,
    },
    /// Drop the former secret now, such as after a leak
    ///
    /// Everything that it has signed is refused from then on: attempts that began before the rotation cannot report their
    /// outcome, and count as lost.
    Retire,
}

fn named(error: ClientError) -> anyhow::Error {
    in_flags(error, OF_KEYS).into()
}

pub(crate) async fn run(verb: ClusterSecretVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    match verb {
        ClusterSecretVerb::Show => show(&client.cluster_secret().await.map_err(named)?, context)?,
        ClusterSecretVerb::Rotate { overlap } => {
            show(&client.rotate_cluster_secret(&RotateClusterSecret { overlap }).await.map_err(named)?, context)?;
            context.out.hint(
                "The servers go on by themselves. Copy the new access token from the data folder to wherever the former one \
                 is used, before that is refused. `punctual cluster-secret show` shows how far the rotation is.",
            );
        }
        ClusterSecretVerb::Retire => show(&client.retire_cluster_secret().await.map_err(named)?, context)?,
    }
    Ok(Exit::Ok)
}

fn show(view: &ClusterSecretView, context: &Context) -> anyhow::Result<()> {
    match context.out.format {
        Format::Json | Format::Jsonl => context.out.json(view),
        Format::Name => context.out.line(&view.id),
        Format::Table => {
            lines(view, |time| context.out.zone.show(time)).iter().try_for_each(|line| context.out.line(line))
        }
    }
}

fn lines(view: &ClusterSecretView, time: impl Fn(Timestamp) -> String) -> Vec<String> {
    let made = |made_at: Option<Timestamp>| {
        made_at.map_or("made with the cluster".to_owned(), |at| format!("made at {}", time(at)))
    };
    let mut lines = vec![format!("secret {}, {}", view.id, made(view.made_at))];
    lines.extend(
        view.next
            .as_ref()
            .map(|next| format!("next   {}, {}: accepted, does not sign yet", next.id, made(next.made_at))),
    );
    lines.extend(view.former.as_ref().map(|former| {
        let until = view.former_until.map(|until| format!(" until {} at least", time(until))).unwrap_or_default();
        format!("former {}, {}: accepted{until}", former.id, made(former.made_at))
    }));
    lines.push(format!("stage  {}", stage(view.stage)));
    lines.extend(view.waiting_for.iter().map(|server| format!("waits for {server} to confirm")));
    lines
}

pub(super) fn stage(stage: ClusterSecretStage) -> &'static str {
    match stage {
        ClusterSecretStage::Settled => "settled: there is one secret",
        ClusterSecretStage::Announced => "announced: servers accept the next secret and do not sign with it yet",
        ClusterSecretStage::Signing => "signing: servers sign with the new secret and accept the former one",
    }
}

#[cfg(test)]
mod tests {
    use punctual_api::OtherClusterSecret;

    use super::*;

    #[test]
    fn each_stage_is_shown_with_both_secrets() {
        let at = |secs: i64| Timestamp::from_micros(secs * 1_000_000).unwrap();
        let settled = ClusterSecretView {
            id: "aa".to_owned(),
            made_at: None,
            stage: ClusterSecretStage::Settled,
            stage_since: None,
            next: None,
            former: None,
            former_until: None,
            waiting_for: Vec::new(),
        };
        let other = Some(OtherClusterSecret { id: "bb".to_owned(), made_at: Some(at(1)) });
        let announced = ClusterSecretView {
            stage: ClusterSecretStage::Announced,
            next: other.clone(),
            waiting_for: vec!["server_1".to_owned()],
            ..settled.clone()
        };
        let signing = ClusterSecretView {
            stage: ClusterSecretStage::Signing,
            former: other,
            former_until: Some(at(2)),
            made_at: Some(at(3)),
            ..settled.clone()
        };
        let shown =
            |view: &ClusterSecretView| lines(view, |time| (time.as_micros() / 1_000_000).to_string()).join("\n");
        assert_eq!(shown(&settled), "secret aa, made with the cluster\nstage  settled: there is one secret");
        assert_eq!(
            shown(&announced),
            "secret aa, made with the cluster\n\
             next   bb, made at 1: accepted, does not sign yet\n\
             stage  announced: servers accept the next secret and do not sign with it yet\n\
             waits for server_1 to confirm"
        );
        assert_eq!(
            shown(&signing),
            "secret aa, made at 3\n\
             former bb, made at 1: accepted until 2 at least\n\
             stage  signing: servers sign with the new secret and accept the former one"
        );
    }
}
