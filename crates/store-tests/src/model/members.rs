use punctual_core::shard::write::Epoch;
use punctual_core::{ServerId, Span, Timestamp};
use punctual_store::{DutyLease, Member, Result, SeenMember};

use super::ModelStore;

impl ModelStore {
    pub fn beat_now(&self, member: Member) -> Result<()> {
        self.state().all_or_nothing(|state| {
            let seen_at = state.now;
            state.members.put(member.id, SeenMember { member, seen_at });
            Ok(())
        })
    }

    pub fn members_now(&self) -> Vec<SeenMember> {
        self.state().members.values().cloned().collect()
    }

    pub fn leave_now(&self, server: ServerId) -> Result<()> {
        self.state().all_or_nothing(|state| {
            state.members.take(&server);
            Ok(())
        })
    }

    pub fn forget_members_now(&self, before: Timestamp) -> Result<usize> {
        self.state().all_or_nothing(|state| {
            let is_old = |(id, seen): (&ServerId, &SeenMember)| (seen.seen_at < before).then_some(*id);
            let old: Vec<ServerId> = state.members.iter().filter_map(is_old).collect();
            for id in &old {
                state.members.take(id);
            }
            Ok(old.len())
        })
    }

    pub fn hold_duty_now(&self, server: ServerId, duty: &str, ttl: Span) -> Result<Option<Epoch>> {
        self.state().all_or_nothing(|state| {
            let now = state.now;
            let epoch = match state.duties.get(&duty.to_owned()) {
                None => Epoch(1),
                Some(lease) if lease.owner == server => lease.epoch,
                Some(lease) if lease.until <= now => Epoch(lease.epoch.0 + 1),
                Some(_) => return Ok(None),
            };
            let duty = duty.to_owned();
            state.duties.put(duty.clone(), DutyLease { duty, owner: server, epoch, until: now + ttl });
            Ok(Some(epoch))
        })
    }

    pub fn drop_duties_now(&self, server: ServerId) -> Result<()> {
        self.state().all_or_nothing(|state| {
            let held: Vec<DutyLease> = state.duties.values().filter(|lease| lease.owner == server).cloned().collect();
            for lease in held {
                state.duties.put(lease.duty.clone(), DutyLease { until: Timestamp::EPOCH, ..lease });
            }
            Ok(())
        })
    }

    pub fn duties_now(&self) -> Vec<DutyLease> {
        self.state().duties.values().cloned().collect()
    }
}
