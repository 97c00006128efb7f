//! What stops a round, and what does not. A store that is away does: the round is made again later. A row that nobody
//! can read does not, or it would stop all reports for good; what it would have told is left out.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures_util::future::join_all;
use punctual_core::TaskId;
use punctual_core::task::Task;
use punctual_store::StoreError;

use crate::{App, AppError, Result};

/// Rows that are read at a time.
const READS_AT_ONCE: usize = 32;

pub(super) fn is_outage(error: &AppError) -> bool {
    error.kind.is_outage()
}

/// What was read; nothing where it cannot be read.
pub(super) fn skip_unreadable<T: Default>(read: std::result::Result<T, impl Into<AppError>>) -> Result<T> {
    let error = match read {
        Ok(read) => return Ok(read),
        Err(error) => error.into(),
    };
    if is_outage(&error) { Err(error) } else { Ok(T::default()) }
}

/// The rows that are there and can be read, with their keys.
pub(super) async fn read_each<K, V, F>(keys: BTreeSet<K>, read: impl Fn(K) -> F) -> Result<Vec<(K, V)>>
where
    K: Copy,
    F: Future<Output = std::result::Result<Option<V>, StoreError>>,
{
    let keys: Vec<K> = keys.into_iter().collect();
    let mut rows = Vec::new();
    for part in keys.chunks(READS_AT_ONCE) {
        let answers = join_all(part.iter().map(|key| read(*key))).await;
        for (key, answer) in part.iter().zip(answers) {
            rows.extend(skip_unreadable(answer)?.map(|row| (*key, row)));
        }
    }
    Ok(rows)
}

impl App {
    /// Those that are there. One that cannot be read does not hide the others.
    pub(super) async fn readable_tasks(&self, ids: BTreeSet<TaskId>) -> Result<HashMap<TaskId, Arc<Task>>> {
        match self.tasks_by_id(ids.iter().copied()).await {
            Err(error) if !is_outage(&error) => {}
            read => return read,
        }
        let ids: Vec<TaskId> = ids.into_iter().collect();
        let mut tasks = HashMap::new();
        for part in ids.chunks(READS_AT_ONCE) {
            let read = join_all(part.iter().map(|id| self.tasks_by_id(std::iter::once(*id)))).await;
            for read in read {
                tasks.extend(skip_unreadable(read)?);
            }
        }
        Ok(tasks)
    }
}
