//! Which other servers are there, so that the log says once when one joins, leaves, falls silent or comes back.
//! Decides nothing: shards are taken by their leases, not by this.

use std::collections::BTreeMap;

use punctual_core::{ServerId, Timestamp};
use punctual_store::SeenMember;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Live,
    Silent,
}

/// The other servers as they were at the last call.
#[derive(Debug, Default)]
pub(crate) struct Roll(Option<BTreeMap<ServerId, (Presence, String)>>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RollChange {
    Joined { server: ServerId, address: String },
    Left { server: ServerId, address: String },
    Silent { server: ServerId, address: String },
    Returned { server: ServerId, address: String },
}

impl RollChange {
    pub(crate) fn log(&self) {
        match self {
            Self::Joined { server, address } => tracing::info!(%server, address, "a server joined the cluster"),
            Self::Left { server, address } => tracing::info!(%server, address, "a server left the cluster"),
            Self::Silent { server, address } => {
                tracing::warn!(%server, address, "a server stopped responding: its leases expire");
            }
            Self::Returned { server, address } => tracing::info!(%server, address, "a server responds again"),
        }
    }
}

impl Roll {
    /// What has changed. A server is live if it was seen after `silent_before`; one that left removed its row.
    pub(crate) fn call(&mut self, members: &[SeenMember], me: ServerId, silent_before: Timestamp) -> Vec<RollChange> {
        let others = members.iter().filter(|seen| seen.member.id != me);
        let now: BTreeMap<_, _> = others
            .map(|seen| {
                let presence = if seen.seen_at > silent_before { Presence::Live } else { Presence::Silent };
                (seen.member.id, (presence, seen.member.address.clone()))
            })
            .collect();
        let mut changes = Vec::new();
        // At the first call, who is there has not just come, and who is silent has been so for longer.
        if let Some(before) = &self.0 {
            for (&server, (presence, address)) in &now {
                let address = address.clone();
                match (before.get(&server).map(|(presence, _)| *presence), presence) {
                    (None, Presence::Live) => changes.push(RollChange::Joined { server, address }),
                    (Some(Presence::Live), Presence::Silent) => changes.push(RollChange::Silent { server, address }),
                    (Some(Presence::Silent), Presence::Live) => changes.push(RollChange::Returned { server, address }),
                    (None, Presence::Silent)
                    | (Some(Presence::Live), Presence::Live)
                    | (Some(Presence::Silent), Presence::Silent) => {}
                }
            }
            let gone = before.iter().filter(|(server, (presence, _))| {
                // The row of a silent one is removed after a while, and was reported before.
                *presence == Presence::Live && !now.contains_key(server)
            });
            changes.extend(gone.map(|(&server, (_, address))| RollChange::Left { server, address: address.clone() }));
        }
        self.0 = Some(now);
        changes
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Span;
    use punctual_store::{Member, MemberStatus};

    use super::*;

    const NOW: Timestamp = Timestamp::saturating_from_micros(1_800_000_000_000_000);

    fn id(number: u64) -> ServerId {
        ServerId::new(NOW, number)
    }

    /// Seen so many seconds ago.
    fn seen(number: u64, seconds: i64) -> SeenMember {
        let member = Member {
            id: id(number),
            address: format!("http://{number}"),
            version: "0".to_owned(),
            roles: Vec::new(),
            started_at: NOW,
            status: MemberStatus::default(),
            zone_data: String::new(),
        };
        SeenMember { member, seen_at: NOW - Span::from_secs(seconds) }
    }

    #[test]
    fn each_change_of_the_other_servers_is_told_once() {
        let mut roll = Roll::default();
        let mut call = |members: &[SeenMember]| roll.call(members, id(1), NOW - Span::from_secs(10));
        let address = || "http://2".to_owned();
        assert_eq!(
            call(&[seen(1, 99), seen(3, 99)]),
            [],
            "the first call knows no changes, and we are none of the others"
        );
        assert_eq!(call(&[seen(2, 1), seen(3, 99)]), [RollChange::Joined { server: id(2), address: address() }]);
        assert_eq!(call(&[seen(2, 9)]), [], "a silent server whose row was removed");
        assert_eq!(call(&[seen(2, 10)]), [RollChange::Silent { server: id(2), address: address() }]);
        assert_eq!(call(&[seen(2, 20)]), []);
        assert_eq!(call(&[seen(2, 0)]), [RollChange::Returned { server: id(2), address: address() }]);
        assert_eq!(call(&[]), [RollChange::Left { server: id(2), address: address() }]);
    }
}
