use punctual_core::{Timestamp, WorkerId};
use punctual_store::{Result, SeenWorker};

use super::ModelStore;

impl ModelStore {
    pub fn keep_workers_now(&self, workers: Vec<SeenWorker>) -> Result<()> {
        self.state().all_or_nothing(|state| {
            for told in workers {
                let row = match state.workers.get(&told.id) {
                    Some(known) => {
                        let first_seen_at = known.first_seen_at.min(told.first_seen_at);
                        let left_at = known.left_at.max(told.left_at);
                        let newer = if told.last_seen_at >= known.last_seen_at { told } else { known.clone() };
                        SeenWorker { first_seen_at, left_at, ..newer }
                    }
                    None => told,
                };
                state.workers.put(row.id, row);
            }
            Ok(())
        })
    }

    pub fn workers_by_id_now(&self, ids: &[WorkerId]) -> Vec<SeenWorker> {
        let state = self.state();
        ids.iter().filter_map(|id| state.workers.get(id).cloned()).collect()
    }

    pub fn workers_since_now(&self, since: Timestamp, limit: usize) -> Vec<SeenWorker> {
        let state = self.state();
        let mut workers: Vec<SeenWorker> =
            state.workers.values().filter(|worker| worker.last_seen_at >= since).cloned().collect();
        workers.sort_by_key(|worker| std::cmp::Reverse((worker.last_seen_at, worker.id)));
        workers.truncate(limit);
        workers
    }
}
