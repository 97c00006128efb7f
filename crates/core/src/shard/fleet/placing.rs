//! Whether the free slots of the fleet are enough for jobs of several pools at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::WorkerId;
use crate::shard::fleet::Fleet;
use crate::shard::fleet::pools::PoolId;

/// How many jobs of each pool are to start.
pub(in crate::shard) type SlotNeeds = BTreeMap<PoolId, usize>;

pub(in crate::shard) enum Placing {
    /// For each job of each pool its worker.
    Fits(BTreeMap<PoolId, Vec<WorkerId>>),
    /// So many slots more are needed.
    Lacks(usize),
}

/// Which free slots count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::shard) enum FreeSlots {
    All,
    /// Without those that are held back for a gang.
    Unheld,
}

/// Workers that serve the same of the pools.
#[derive(Default)]
struct WorkerClass {
    free: usize,
    workers: Vec<(WorkerId, usize)>,
}

/// A maximum flow from pools to classes of workers. There are few of both.
struct Flow {
    /// By class: the pools that it serves.
    serves: Vec<Vec<usize>>,
    free: Vec<usize>,
    /// By pool and class.
    given: Vec<Vec<usize>>,
}

impl Flow {
    /// Gives the pool one slot more, if need be by giving another pool a slot elsewhere.
    fn augment(&mut self, pool: usize, visited: &mut BTreeSet<usize>) -> bool {
        visited.insert(pool);
        let classes: Vec<usize> = (0..self.serves.len()).filter(|class| self.serves[*class].contains(&pool)).collect();
        if let Some(&class) = classes.iter().find(|class| self.free[**class] > 0) {
            self.free[class] -= 1;
            self.given[pool][class] += 1;
            return true;
        }
        for class in classes {
            for other in self.serves[class].clone() {
                if !visited.contains(&other) && self.given[other][class] > 0 && self.augment(other, visited) {
                    self.given[other][class] -= 1;
                    self.given[pool][class] += 1;
                    return true;
                }
            }
        }
        false
    }
}

impl Fleet {
    /// Finds a worker with a free slot for each job, or says how many slots are missing. Takes nothing.
    pub(in crate::shard) fn place(&self, needs: &SlotNeeds, slots: FreeSlots) -> Placing {
        let mut serves: BTreeMap<WorkerId, Vec<usize>> = BTreeMap::new();
        for (number, pool) in needs.keys().enumerate() {
            for worker in self.pools.idle_in(*pool).filter(|worker| slots == FreeSlots::All || !self.is_held(**worker))
            {
                serves.entry(*worker).or_default().push(number);
            }
        }
        let mut classes: BTreeMap<Vec<usize>, WorkerClass> = BTreeMap::new();
        for (worker, serves) in serves {
            let free = self.workers.get(&worker).map_or(0, |worker| worker.free());
            let class = classes.entry(serves).or_default();
            class.free += free;
            class.workers.push((worker, free));
        }
        // Those that serve the fewest pools first: what is given to them is seldom to be moved.
        let mut classes: Vec<(Vec<usize>, WorkerClass)> = classes.into_iter().collect();
        classes.sort_by_key(|(serves, _)| serves.len());
        let mut left: Vec<usize> = needs.values().copied().collect();
        let mut flow = Flow {
            serves: classes.iter().map(|(serves, _)| serves.clone()).collect(),
            free: classes.iter().map(|(_, class)| class.free).collect(),
            given: vec![vec![0; classes.len()]; left.len()],
        };
        for (class, (serves, _)) in classes.iter().enumerate() {
            for &pool in serves {
                let given = left[pool].min(flow.free[class]);
                flow.free[class] -= given;
                flow.given[pool][class] += given;
                left[pool] -= given;
            }
        }
        for (pool, left) in left.iter_mut().enumerate() {
            while *left > 0 && flow.augment(pool, &mut BTreeSet::new()) {
                *left -= 1;
            }
        }
        let lacking: usize = left.iter().sum();
        if lacking > 0 {
            return Placing::Lacks(lacking);
        }
        let mut fits: BTreeMap<PoolId, Vec<WorkerId>> = BTreeMap::new();
        for (class, (_, WorkerClass { workers, .. })) in classes.into_iter().enumerate() {
            let mut slots = workers.into_iter().flat_map(|(worker, free)| std::iter::repeat_n(worker, free));
            for (pool, id) in needs.keys().enumerate() {
                fits.entry(*id).or_default().extend(slots.by_ref().take(flow.given[pool][class]));
            }
        }
        Placing::Fits(fits)
    }

    /// Workers that serve these pools run nothing but a gang until this is called again. Empty: none.
    pub(in crate::shard) fn hold_for(&mut self, pools: BTreeSet<PoolId>) {
        self.held = pools;
    }

    /// Whether the worker's free slots are held back for a gang.
    pub(super) fn is_held(&self, id: WorkerId) -> bool {
        !self.held.is_empty()
            && self.workers.get(&id).is_some_and(|worker| worker.pools.iter().any(|pool| self.held.contains(pool)))
    }
}
