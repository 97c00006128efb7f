//! Who is there and who owns what, as this server read it last.

use punctual_core::{ServerId, ShardId, Span, Timestamp};
use punctual_store::{DutyLease, Lease, SeenMember};

use crate::config::SCHEDULER;

/// A picture of the cluster. It is old when it is read; what it says of owners is a hint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// By the store's clock, as far as it is known.
    pub read_at: Timestamp,
    /// The servers that are alive, in order of id. A server that was started anew at the same
    /// address has replaced the one that was there before, unless that one was seen since.
    pub members: Vec<SeenMember>,
    /// Every shard, in order.
    pub leases: Vec<Lease>,
    /// What one server does for all, and who; a lease may be over.
    pub duties: Vec<DutyLease>,
}

impl Cluster {
    /// Who owns the shard, unless its lease is over.
    pub fn owner_of(&self, shard: ShardId) -> Option<ServerId> {
        let lease = self.leases.get(usize::from(shard.0)).filter(|lease| lease.shard == shard)?;
        lease.owner.filter(|_| lease.until > self.read_at)
    }

    pub fn member(&self, id: ServerId) -> Option<&SeenMember> {
        self.members.iter().find(|seen| seen.member.id == id)
    }

    /// Another server that is alive and says that it is reached where `me` is. Workers reach only one of the two, and what
    /// the other owns does not run.
    pub fn namesake(&self, me: ServerId, lease_ttl: Span) -> Option<&SeenMember> {
        let address = &self.member(me)?.member.address;
        let oldest = self.read_at - lease_ttl;
        let is_namesake = |seen: &&SeenMember| {
            seen.member.id != me && !address.is_empty() && seen.member.address == *address && seen.seen_at > oldest
        };
        self.members.iter().find(is_namesake)
    }

    /// Who does this for all, unless its lease is over.
    pub fn holder_of(&self, duty: &str) -> Option<ServerId> {
        let lease = self.duties.iter().find(|lease| lease.duty == duty)?;
        (lease.until > self.read_at).then_some(lease.owner)
    }

    /// Shards that nobody owns now.
    pub(crate) fn free_shards(&self) -> impl Iterator<Item = ShardId> {
        self.leases.iter().map(|lease| lease.shard).filter(|shard| self.owner_of(*shard).is_none())
    }

    /// The servers that share the shards, `me` among them: those that were seen within the
    /// lease time.
    pub(crate) fn live_schedulers(&self, me: ServerId, lease_ttl: Span) -> Vec<ServerId> {
        let oldest = self.read_at - lease_ttl;
        let is_live =
            |seen: &&SeenMember| seen.seen_at > oldest && seen.member.roles.iter().any(|role| role == SCHEDULER);
        let others = self.members.iter().filter(is_live).map(|seen| seen.member.id).filter(|id| *id != me);
        let mut live: Vec<ServerId> = others.chain([me]).collect();
        live.sort_unstable();
        live
    }
}

/// Leaves out servers that were not seen since `oldest`, or were replaced. `me` is alive.
pub(crate) fn alive(members: &[SeenMember], me: ServerId, oldest: Timestamp) -> Vec<SeenMember> {
    let is_replaced = |old: &SeenMember| {
        let replaces = |new: &SeenMember| {
            !new.member.address.is_empty()
                && new.member.address == old.member.address
                && new.member.started_at > old.member.started_at
                // Otherwise both are there.
                && new.member.started_at >= old.seen_at
        };
        members.iter().any(replaces)
    };
    let is_alive = |seen: &&SeenMember| seen.member.id == me || (seen.seen_at > oldest && !is_replaced(seen));
    members.iter().filter(is_alive).cloned().collect()
}

#[cfg(test)]
mod tests {
    use punctual_store::{Member, MemberStatus};

    use super::*;

    const NOW: Timestamp = Timestamp::saturating_from_micros(1_800_000_000_000_000);
    const TTL: Span = Span::from_secs(10);

    fn id(number: u64) -> ServerId {
        ServerId::new(NOW, number)
    }

    /// Started and seen so many seconds ago.
    fn seen(number: u64, address: &str, started: i64, seen: i64) -> SeenMember {
        let member = Member {
            id: id(number),
            address: address.to_owned(),
            version: "0".to_owned(),
            roles: vec![SCHEDULER.to_owned()],
            started_at: NOW - Span::from_secs(started),
            status: MemberStatus::default(),
            zone_data: String::new(),
        };
        SeenMember { member, seen_at: NOW - Span::from_secs(seen) }
    }

    fn live(members: Vec<SeenMember>) -> Vec<ServerId> {
        Cluster { read_at: NOW, members, ..Cluster::default() }.live_schedulers(id(1), TTL)
    }

    #[test]
    fn whoever_was_seen_within_the_lease_time_has_a_share_and_so_do_we() {
        assert_eq!(live(vec![]), [id(1)]);
        assert_eq!(live(vec![seen(2, "b", 99, 9), seen(3, "c", 99, 10), seen(1, "a", 99, 60)]), [id(1), id(2)]);
        let mut without = seen(2, "b", 99, 1);
        without.member.roles.clear();
        assert_eq!(live(vec![without]), [id(1)]);
    }

    #[test]
    fn a_server_that_was_started_anew_counts_once() {
        let alive = |members: Vec<SeenMember>| {
            let alive = alive(&members, id(1), NOW - Span::from_secs(30));
            alive.into_iter().map(|seen| seen.member.id).collect::<Vec<_>>()
        };
        assert_eq!(alive(vec![seen(2, "b", 99, 5), seen(3, "b", 4, 1)]), [id(3)]);
        assert_eq!(alive(vec![seen(2, "", 99, 5), seen(3, "", 4, 1)]), [id(2), id(3)], "nobody knows");
        assert_eq!(alive(vec![seen(1, "b", 99, 5), seen(3, "b", 4, 1)]), [id(1), id(3)], "we know that we live");
        assert_eq!(alive(vec![seen(2, "b", 99, 31)]), []);
        assert_eq!(
            alive(vec![seen(2, "b", 99, 3), seen(3, "b", 4, 1)]),
            [id(2), id(3)],
            "it was seen since: both live"
        );
    }

    #[test]
    fn two_servers_with_one_address_know_of_each_other() {
        let namesake = |members: Vec<SeenMember>, me: u64| {
            let members = alive(&members, id(me), NOW - Span::from_secs(30));
            let cluster = Cluster { read_at: NOW, members, ..Cluster::default() };
            cluster.namesake(id(me), TTL).map(|seen| seen.member.id)
        };
        let both = || vec![seen(1, "a", 99, 1), seen(2, "a", 40, 2), seen(3, "b", 60, 2)];
        assert_eq!((namesake(both(), 1), namesake(both(), 2), namesake(both(), 3)), (Some(id(2)), Some(id(1)), None));
        // One that was killed and started anew was not seen since.
        assert_eq!(namesake(vec![seen(1, "a", 99, 5), seen(2, "a", 4, 1)], 2), None);
        assert_eq!(namesake(vec![seen(1, "a", 99, 1), seen(2, "a", 40, 11)], 1), None, "it is silent");
        assert_eq!(namesake(vec![seen(1, "", 99, 1), seen(2, "", 40, 1)], 1), None, "nobody knows");
    }

    #[test]
    fn a_lease_that_is_over_has_no_owner() {
        let lease = |shard, until| Lease {
            shard: ShardId(shard),
            epoch: punctual_core::shard::write::Epoch(1),
            owner: Some(id(2)),
            until,
        };
        let leases = vec![lease(0, NOW + TTL), lease(1, NOW)];
        let cluster = Cluster { read_at: NOW, leases, ..Cluster::default() };
        assert_eq!(cluster.owner_of(ShardId(0)), Some(id(2)));
        assert_eq!(cluster.owner_of(ShardId(1)), None);
        assert_eq!(cluster.owner_of(ShardId(2)), None);
        assert_eq!(cluster.free_shards().collect::<Vec<_>>(), [ShardId(1)]);
    }
}
