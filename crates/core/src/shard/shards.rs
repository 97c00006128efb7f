//! The shards that are ours.

use crate::id::{JobId, ShardId};
use crate::shard::live::{Live, Shard};

/// Found by their numbers.
#[derive(Default)]
pub(super) struct Shards {
    /// `None` where the shard is not ours.
    places: Vec<Option<Box<Shard>>>,
}

impl Shards {
    pub(super) fn insert(&mut self, shard: Shard) {
        let place = usize::from(shard.id.0);
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        self.places[place] = Some(Box::new(shard));
    }

    pub(super) fn remove(&mut self, id: ShardId) -> Option<Box<Shard>> {
        self.places.get_mut(usize::from(id.0)).and_then(Option::take)
    }

    pub(super) fn get(&self, id: ShardId) -> Option<&Shard> {
        self.places.get(usize::from(id.0))?.as_deref()
    }

    pub(super) fn get_mut(&mut self, id: ShardId) -> Option<&mut Shard> {
        self.places.get_mut(usize::from(id.0))?.as_deref_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Shard> {
        self.places.iter().flatten().map(|shard| &**shard)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.places.iter_mut().flatten().map(|shard| &mut **shard)
    }

    /// The numbers of all shards that are ours, and of some that are not, beginning with `first`.
    pub(super) fn ids_from(&self, first: ShardId) -> impl Iterator<Item = ShardId> + use<> {
        let count = self.places.len();
        (0..count).map(move |step| ShardId(((usize::from(first.0) + step) % count) as u16))
    }

    /// A job in memory.
    pub(super) fn live(&self, id: JobId) -> Option<&Live> {
        self.get(id.shard())?.jobs.get(&id)
    }

    /// A job in memory, to be changed.
    pub(super) fn live_mut(&mut self, id: JobId) -> Option<&mut Live> {
        self.get_mut(id.shard())?.jobs.get_mut(&id)
    }

    /// All jobs in memory.
    pub(super) fn all_live(&self) -> impl Iterator<Item = &Live> {
        self.iter().flat_map(|shard| shard.jobs.values())
    }
}
