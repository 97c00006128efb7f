//! Finds servers whose time zone data has another version than ours, so that the log says it once of each. They may
//! plan the same schedule for different times. Decides nothing.

use std::collections::BTreeSet;

use punctual_core::{ServerId, Timestamp};
use punctual_store::SeenMember;

/// The servers that were reported.
#[derive(Debug, Default)]
pub(crate) struct ZoneDataWatch(BTreeSet<ServerId>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ZoneDataDifference {
    server: ServerId,
    address: String,
    theirs: String,
    ours: String,
}

impl ZoneDataDifference {
    pub(crate) fn log(&self) {
        let Self { server, address, theirs, ours } = self;
        tracing::warn!(
            %server, address, theirs, ours,
            "another server has a different version of the time zone data: schedules may fire at different times after \
             a takeover; install the same version of tzdata on all servers and restart them"
        );
    }
}

impl ZoneDataWatch {
    /// Servers that differ and were not reported. Those that were not seen after `silent_before`, or do not say their
    /// version, are left out.
    pub(crate) fn differences(
        &mut self,
        members: &[SeenMember],
        me: ServerId,
        silent_before: Timestamp,
    ) -> Vec<ZoneDataDifference> {
        let own = members.iter().find(|seen| seen.member.id == me).map(|seen| seen.member.zone_data.as_str());
        let Some(ours) = own.filter(|ours| !ours.is_empty()) else { return Vec::new() };
        let differs = |seen: &&SeenMember| {
            seen.seen_at > silent_before && !seen.member.zone_data.is_empty() && seen.member.zone_data != ours
        };
        let others: Vec<&SeenMember> = members.iter().filter(differs).collect();
        let reported = std::mem::take(&mut self.0);
        self.0 = others.iter().map(|seen| seen.member.id).collect();
        let new = others.into_iter().filter(|seen| !reported.contains(&seen.member.id));
        new.map(|seen| ZoneDataDifference {
            server: seen.member.id,
            address: seen.member.address.clone(),
            theirs: seen.member.zone_data.clone(),
            ours: ours.to_owned(),
        })
        .collect()
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

    fn seen(number: u64, zone_data: &str, seconds_ago: i64) -> SeenMember {
        let member = Member {
            id: id(number),
            address: format!("http://{number}"),
            version: "0".to_owned(),
            roles: Vec::new(),
            started_at: NOW,
            status: MemberStatus::default(),
            zone_data: zone_data.to_owned(),
        };
        SeenMember { member, seen_at: NOW - Span::from_secs(seconds_ago) }
    }

    #[test]
    fn a_server_with_other_zone_data_is_reported_once() {
        let mut watch = ZoneDataWatch::default();
        let mut reported = |members: &[SeenMember]| {
            let found = watch.differences(members, id(1), NOW - Span::from_secs(10));
            found.into_iter().map(|other| (other.server, other.theirs, other.ours)).collect::<Vec<_>>()
        };
        let other = || vec![(id(2), "2025b".to_owned(), "2026a".to_owned())];
        let (us, same, older) = (seen(1, "2026a", 0), seen(3, "2026a", 0), seen(2, "2025b", 0));
        assert_eq!(reported(&[older.clone(), same.clone()]), [], "we are not there yet");
        assert_eq!(reported(&[us.clone(), seen(2, "2025b", 99), seen(4, "", 0), same.clone()]), []);
        assert_eq!(reported(&[us.clone(), older.clone(), same]), other());
        assert_eq!(reported(&[us.clone(), older.clone()]), [], "once");
        assert_eq!(reported(std::slice::from_ref(&us)), []);
        assert_eq!(reported(&[us, older]), other(), "it came back");
    }
}
