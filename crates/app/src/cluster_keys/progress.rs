//! Whether all servers act by a stage of the rotation, and since when.

use punctual_core::{ServerId, Span, Timestamp};
use punctual_store::{ClusterSecretState, SeenMember};

/// A server that does not confirm a stage for so long cannot open the new secret, or is of a version that knows of none. The
/// others go on without it, because the former secret may be known to somebody who must not have it.
pub(super) const LEFT_BEHIND_AFTER: Span = Span::from_secs(600);
/// A server that was silent for so many leases has lost its shards and its workers.
const SILENT_LEASES: i64 = 3;

/// Who has confirmed the stage.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Servers that live and have not confirmed, in order of id.
    pub(super) waiting_for: Vec<ServerId>,
    /// When the last one confirmed, or was left behind. `None` as long as servers are waited for.
    pub(super) confirmed_at: Option<Timestamp>,
}

impl Progress {
    pub(super) fn of(state: &ClusterSecretState, members: &[SeenMember], lease_ttl: Span, now: Timestamp) -> Self {
        let silence = Span::from_micros(lease_ttl.as_micros().saturating_mul(SILENT_LEASES));
        let has_confirmed = |server: ServerId| state.confirmed.iter().any(|confirmed| confirmed.server == server);
        let alive = members.iter().filter(|seen| seen.seen_at + silence >= now);
        let mut waiting_for: Vec<ServerId> =
            alive.map(|seen| seen.member.id).filter(|server| !has_confirmed(*server)).collect();
        waiting_for.sort_unstable();
        let since = state.stage_since.unwrap_or(Timestamp::EPOCH);
        let left_behind_at = since + LEFT_BEHIND_AFTER;
        let last = state.confirmed.iter().map(|confirmed| confirmed.at).max();
        let confirmed_at = match (waiting_for.is_empty(), last) {
            // Servers that start later confirm too, and have never acted by another stage.
            (true, Some(last)) => Some(last.clamp(since, left_behind_at)),
            (false, _) | (true, None) => (now >= left_behind_at).then_some(left_behind_at),
        };
        Self { waiting_for, confirmed_at }
    }
}

#[cfg(test)]
mod tests {
    use punctual_store::{Confirmation, Member, MemberStatus, SecretStage};

    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::EPOCH + Span::from_secs(1_800_000_000 + secs)
    }

    fn server(number: u64) -> ServerId {
        ServerId::new(Timestamp::EPOCH, number)
    }

    fn seen(number: u64, secs: i64) -> SeenMember {
        let member = Member {
            id: server(number),
            address: String::new(),
            version: String::new(),
            roles: Vec::new(),
            started_at: at(0),
            status: MemberStatus::default(),
            zone_data: String::new(),
        };
        SeenMember { member, seen_at: at(secs) }
    }

    fn progress(confirmed: &[(u64, i64)], members: &[SeenMember], now: i64) -> (Vec<ServerId>, Option<Timestamp>) {
        let confirmed = confirmed.iter().map(|(number, secs)| Confirmation { server: server(*number), at: at(*secs) });
        let state = ClusterSecretState {
            revision: 1,
            stage: SecretStage::Announced,
            stage_since: Some(at(0)),
            confirmed: confirmed.collect(),
            ..ClusterSecretState::default()
        };
        let Progress { waiting_for, confirmed_at } = Progress::of(&state, members, Span::from_secs(10), at(now));
        (waiting_for, confirmed_at)
    }

    #[test]
    fn every_server_that_lives_is_waited_for() {
        let members = [seen(1, 20), seen(2, 20)];
        assert_eq!(progress(&[], &members, 20), (vec![server(1), server(2)], None));
        assert_eq!(progress(&[(2, 1)], &members, 20), (vec![server(1)], None));
        assert_eq!(progress(&[(2, 1), (1, 3)], &members, 20), (vec![], Some(at(3))));
        assert_eq!(
            progress(&[(1, 1), (3, 2)], &members, 20),
            (vec![server(2)], None),
            "one that is gone has confirmed"
        );
    }

    #[test]
    fn a_server_that_was_silent_for_long_is_not_waited_for() {
        let members = [seen(1, 60), seen(2, 30)];
        assert_eq!(progress(&[(1, 1)], &members, 60), (vec![server(2)], None), "it may be back in a moment");
        assert_eq!(progress(&[(1, 1)], &members, 61), (vec![], Some(at(1))));
        assert_eq!(progress(&[], &[], 61), (vec![], None), "somebody has to act by it");
    }

    #[test]
    fn a_server_that_never_confirms_is_left_behind() {
        let seen_until = |now| [seen(1, now), seen(2, now)];
        assert_eq!(progress(&[(1, 1)], &seen_until(599), 599), (vec![server(2)], None));
        assert_eq!(progress(&[(1, 1)], &seen_until(600), 600), (vec![server(2)], Some(at(600))));
        assert_eq!(
            progress(&[(1, 1), (2, 5000)], &seen_until(5000), 5000),
            (vec![], Some(at(600))),
            "one that starts later does not prolong the stage"
        );
    }
}
