//! Who owns which shard, as far as this worker has heard.
//!
//! The newest epoch counts, whoever told of it. What an older owner assigns after that is
//! ignored: the newer one was told, in a hello, that it is not held here.

use punctual_core::ShardId;
use punctual_core::shard::write::Epoch;

use super::LinkNo;

#[derive(Default)]
pub(crate) struct Owners(Vec<Option<Owner>>);

#[derive(Clone, Copy)]
struct Owner {
    epoch: Epoch,
    /// `None` when the link to it was dropped.
    link: Option<LinkNo>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A newer owner is known.
    Outdated,
    Known,
    Changed,
}

impl Owners {
    pub(crate) fn hear(&mut self, shard: ShardId, epoch: Epoch, link: LinkNo) -> Heard {
        let place = usize::from(shard.0);
        if self.0.len() <= place {
            self.0.resize(place + 1, None);
        }
        match self.0[place] {
            Some(owner) if owner.epoch > epoch => Heard::Outdated,
            Some(Owner { epoch: known, link: Some(by) }) if (known, by) == (epoch, link) => Heard::Known,
            _ => {
                self.0[place] = Some(Owner { epoch, link: Some(link) });
                Heard::Changed
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
            (a, 3, Heard::Changed),
            (a, 3, Heard::Known),
            (b, 2, Heard::Outdated),
            (b, 4, Heard::Changed),
            (a, 3, Heard::Outdated),
        ] {
            assert_eq!(owners.hear(shard, Epoch(epoch), link), heard);
        }
        owners.drop_link(b);
        assert_eq!(owners.link(shard), None);
        assert_eq!(owners.hear(shard, Epoch(3), a), Heard::Outdated, "the epoch is kept");
    }
}
