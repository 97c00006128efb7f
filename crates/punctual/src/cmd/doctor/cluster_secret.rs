//! Whether a rotation of the cluster's secret is under way, and goes on.

use punctual_api::{ClusterSecretStage, ClusterSecretView, ErrorKind};
use punctual_client::Client;
use punctual_core::{Span, Timestamp};

use super::Check;
use crate::zone::short;

const NAME: &str = "cluster secret";
/// Servers confirm a stage within seconds.
const CONFIRMED_LATE: Span = Span::from_secs(30);

pub(super) async fn check(client: &Client, now: Timestamp) -> Check {
    match client.cluster_secret().await {
        Ok(view) => verdict(&view, now),
        Err(error) if error.kind() == Some(ErrorKind::Forbidden) => {
            Check::skip(NAME, "whoever asks may not see the cluster")
        }
        Err(error) => Check::warn(NAME, format!("cannot be read: {error}"), "see the server's log"),
    }
}

fn verdict(view: &ClusterSecretView, now: Timestamp) -> Check {
    let since = view.stage_since.map(|since| now.since(since)).unwrap_or_default();
    if !view.waiting_for.is_empty() && since > CONFIRMED_LATE {
        let reason =
            format!("it is being rotated, and {} did not confirm within {}", view.waiting_for.join(", "), short(since));
        return Check::warn(
            NAME,
            reason,
            "see the log of that server: it needs the same root key and the same version",
        );
    }
    match view.stage {
        ClusterSecretStage::Settled => {
            let age = view.made_at.map(|made| format!(", {} old", short(now.since(made))));
            Check::pass(NAME, format!("{}{}", view.id, age.unwrap_or_default()))
        }
        ClusterSecretStage::Announced => {
            Check::pass(NAME, "a rotation is in progress: servers accept the next secret and do not sign with it yet")
        }
        ClusterSecretStage::Signing => {
            let until = view.former_until.map(|until| format!(" until {until} at least")).unwrap_or_default();
            Check::pass(NAME, format!("a rotation is in progress: the former secret is accepted{until}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_rotation_is_reported_and_a_server_that_holds_it_up_is_named() {
        let at = |secs: i64| Timestamp::from_micros(secs * 1_000_000).unwrap();
        let settled = ClusterSecretView {
            id: "aa".to_owned(),
            made_at: Some(at(0)),
            stage: ClusterSecretStage::Settled,
            stage_since: Some(at(0)),
            next: None,
            former: None,
            former_until: None,
            waiting_for: Vec::new(),
        };
        let check = verdict(&settled, at(7200));
        assert_eq!((check.verdict, check.reason.as_str()), (Verdict::Pass, "aa, 2h old"));
        let announced = ClusterSecretView {
            stage: ClusterSecretStage::Announced,
            waiting_for: vec!["server_1".to_owned()],
            ..settled
        };
        let early = verdict(&announced, at(5));
        assert!(early.verdict == Verdict::Pass && early.reason.contains("in progress"), "{early:?}");
        let late = verdict(&announced, at(60));
        assert!(late.verdict == Verdict::Warn && late.reason.contains("server_1"), "{late:?}");
        let signing = verdict(
            &ClusterSecretView { stage: ClusterSecretStage::Signing, waiting_for: vec![], ..announced },
            at(60),
        );
        assert!(signing.verdict == Verdict::Pass && signing.reason.contains("in progress"), "{signing:?}");
    }
}
