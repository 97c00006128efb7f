//! The owners of shards, as far as this worker knows.
//!
//! The newest epoch counts, whichever server announced it. Later assignments from an older owner are ignored: the newer
//! owner already knows, from a hello, that this worker does not hold them.

use punctual_core::ShardId;
use punctual_core::shard::write::Epoch;

use super::LinkNo;

#[derive(Default)]
pub(crate) struct Owners(Vec<Option<KnownOwner>>);

#[derive(Clone, Copy)]
struct KnownOwner {
    epoch: Epoch,
    /// `None` after the link to the owner was dropped.
    link: Option<LinkNo>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EpochCheck {
    /// A newer owner of the shard is known.
    Outdated,
    Known,
    Changed,
}

impl Owners {
    pub(crate) fn hear(&mut self, shard: ShardId, epoch: Epoch, link: LinkNo) -> EpochCheck {
        let place = usize::from(shard.0);
        if self.0.len() <= place {
            self.0.resize(place + 1, None);
        }
        match self.0[place] {
            Some(owner) if owner.epoch > epoch => EpochCheck::Outdated,
            Some(KnownOwner { epoch: known, link: Some(by) }) if (known, by) == (epoch, link) => EpochCheck::Known,
            _ => {
                self.0[place] = Some(KnownOwner { epoch, link: Some(link) });
                EpochCheck::Changed
            }
        }
    }

    pub(crate) fn link(&self, shard: ShardId) -> Option<LinkNo> {
        self.0.get(usize::from(shard.0)).copied().flatten()?.link
    }

    pub(crate) fn drop_link(&mut self, link: LinkNo) {
        for owner in self.0.iter_mut().flatten().filter(|owner| owner.link == Some(link)) {
            owner.link = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_epoch_counts_whoever_told_of_it() {
        let (mut owners, shard) = (Owners::default(), ShardId(7));
        let (a, b) = (LinkNo(1), LinkNo(2));
        for (link, epoch, heard) in [
            (a, 3, EpochCheck::Changed),
            (a, 3, EpochCheck::Known),
            (b, 2, EpochCheck::Outdated),
            (b, 4, EpochCheck::Changed),
            (a, 3, EpochCheck::Outdated),
        ] {
            assert_eq!(owners.hear(shard, Epoch(epoch), link), heard);
        }
        owners.drop_link(b);
        assert_eq!(owners.link(shard), None);
        assert_eq!(owners.hear(shard, Epoch(3), a), EpochCheck::Outdated, "the epoch is kept");
    }
}
