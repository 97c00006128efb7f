//! Says that this server lives, and reads who else does.

use std::sync::Arc;

use punctual_core::{Span, Timestamp};
use punctual_store::{Member, MemberStatus, Result, Store};
use tokio::sync::{oneshot, watch};

use crate::cluster::{Cluster, alive};
use crate::config::{Clock, EngineConfig, SCHEDULER};
use crate::duties::{Duties, MEMBERSHIP};
use crate::inbox::{Inbox, Input};
use crate::lease_state::LeaseState;
use crate::queries::status_of;
use crate::roll::{Roll, RollChange};
use crate::zone_data::{ZoneDataDifference, ZoneDataWatch};

/// A server that was not seen for so many lease times is not alive.
const ALIVE_TTLS: i64 = 3;
/// Its row is of interest to people for a while longer.
const KEPT_TTLS: i64 = 30;

/// How much of the cluster is read anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The leases, and the rest if a shard is free: whether to take it depends on who is there.
    Leases,
    Everything,
}

pub(crate) struct MemberDuty {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) inbox: Inbox,
    pub(crate) config: EngineConfig,
    pub(crate) clock: Clock,
    pub(crate) lease: Arc<LeaseState>,
    pub(crate) duties: Arc<Duties>,
    pub(crate) started_at: Timestamp,
    pub(crate) published: watch::Sender<Arc<Cluster>>,
    pub(crate) roll: Roll,
    pub(crate) zone_data: ZoneDataWatch,
}

impl MemberDuty {
    pub(crate) async fn beat(&self, status: MemberStatus) -> Result<()> {
        let mut member = self.config.member.clone();
        // Others must not leave shards to a server that takes none.
        member.roles.retain(|role| role != SCHEDULER || self.lease.may_own());
        let beat = Member {
            id: self.config.server,
            address: member.address,
            version: member.version,
            roles: member.roles,
            started_at: self.started_at,
            status,
            zone_data: member.zone_data,
        };
        self.store.beat(beat).await
    }

    /// How the driver is doing; nothing when it has ended.
    pub(crate) async fn status(&self) -> MemberStatus {
        let (answer, status) = oneshot::channel();
        self.inbox.send(Input::Query(Box::new(move |owner| {
            let _ = answer.send(status_of(owner));
        })));
        status.await.unwrap_or_default()
    }

    /// Reads the cluster and shows it to everybody.
    pub(crate) async fn look(&mut self, look: Look) -> Result<Arc<Cluster>> {
        let known = Arc::clone(&self.published.borrow());
        let read_at = (self.clock)();
        let leases = self.store.leases().await?;
        let mut cluster = Cluster { read_at, leases, members: known.members.clone(), duties: known.duties.clone() };
        if look == Look::Everything || cluster.free_shards().next().is_some() {
            let oldest = read_at - ttls(&self.config, ALIVE_TTLS);
            let members = self.store.members().await?;
            let changes = self.roll.call(&members, self.config.server, read_at - self.config.lease_ttl);
            changes.iter().for_each(RollChange::log);
            let others = self.zone_data.differences(&members, self.config.server, read_at - self.config.lease_ttl);
            others.iter().for_each(ZoneDataDifference::log);
            cluster.members = alive(&members, self.config.server, oldest);
            cluster.duties = self.store.duties().await?;
        }
        let cluster = Arc::new(cluster);
        self.published.send_replace(Arc::clone(&cluster));
        Ok(cluster)
    }

    /// Forgets servers that are long gone, if that is our duty.
    pub(crate) async fn forget(&self) -> Result<()> {
        if self.duties.holds(MEMBERSHIP) {
            let before = (self.clock)() - ttls(&self.config, KEPT_TTLS);
            let gone = self.store.forget_members(before).await?;
            if gone > 0 {
                tracing::info!(servers = gone, "removed the records of servers that are gone");
            }
        }
        Ok(())
    }
}

fn ttls(config: &EngineConfig, count: i64) -> Span {
    Span::from_micros(config.lease_ttl.as_micros().saturating_mul(count))
}
