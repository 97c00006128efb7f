use bytes::Bytes;
use punctual_core::job::Input;
use punctual_core::shard::event::{Load, Sweep};
use punctual_core::shard::write::{CancelMark, OpenStart};
use punctual_core::{JobId, JobKey, JobRow, ShardId};
use punctual_store::{FoundRow, LoadPage, OpenStarts};

use super::{Hot, ModelStore};

impl ModelStore {
    pub fn load_now(&self, load: &Load) -> LoadPage {
        let state = self.state();
        // From the first row of the shard that may follow, so that a long backlog is not walked each time.
        let first = load.after.unwrap_or(JobKey::original(JobId::first_at(punctual_core::Timestamp::EPOCH)));
        let rows = state
            .hot
            .range((load.shard, first)..)
            .take_while(|((shard, key), _)| *shard == load.shard && key.due_at <= load.until)
            .filter(|((_, key), _)| load.after.is_none_or(|after| *key > after))
            .filter(|(_, hot)| load.sweep != Sweep::Urgent || hot.priority.get() > 0)
            .map(|((_, key), hot)| row(*key, hot));
        let mut page = LoadPage::default();
        for (row, looked_at) in rows.take(load.look_at_max()).zip(1..) {
            let key = row.key;
            if !load.skip.contains(&row.task) {
                page.rows.push(row);
            }
            if page.rows.len() == load.limit || looked_at == load.look_at_max() {
                page.stopped_at = Some(key);
                break;
            }
        }
        page
    }

    pub fn find_now(&self, id: JobId) -> FoundRow {
        let state = self.state();
        if let Some((key, hot)) = state.hot_job(id) {
            return FoundRow::Hot(row(key, hot));
        }
        match state.finished.get(&id) {
            Some(finished) => FoundRow::Finished {
                state: finished.state,
                attempt: finished.attempt.as_ref().map(|ran| ran.attempt),
                counters: finished.hot.counters,
            },
            None => FoundRow::Absent,
        }
    }

    pub fn inputs_now(&self, keys: &[JobKey]) -> Vec<Option<Bytes>> {
        let state = self.state();
        keys.iter().map(|key| state.hot.get(&(key.shard(), *key)).and_then(|hot| hot.input.clone())).collect()
    }

    pub fn open_starts_now(&self, shard: ShardId) -> OpenStarts {
        let state = self.state();
        let mut open = OpenStarts { whole_since: state.whole_since, ..OpenStarts::default() };
        for (name, (server, starts)) in state.starts.iter().filter(|(name, _)| name.shard == shard) {
            let before = open.running.len();
            for start in starts {
                let Some(hot) = state.hot.get(&(shard, start.key)) else { continue };
                if hot.counters.next_attempt != start.attempt {
                    continue;
                }
                let asked = state.cancel_requests.has(&start.key.id);
                let cancel = if asked { CancelMark::Recorded } else { CancelMark::None };
                let found = OpenStart { starts: *name, start: *start, server: *server, cancel };
                open.running.push((found, row(start.key, hot)));
            }
            if open.running.len() == before {
                open.spent.push(*name);
            }
        }
        open
    }
}

fn row(key: JobKey, hot: &Hot) -> JobRow {
    let input = match &hot.input {
        None => Input::None,
        Some(bytes) if bytes.len() <= Input::INLINE_MAX => Input::Inline(bytes.clone()),
        Some(bytes) => Input::Stored { len: u32::try_from(bytes.len()).expect("no input is 4 GiB long") },
    };
    JobRow {
        key,
        task: hot.task,
        priority: hot.priority,
        counters: hot.counters,
        submitted_at: hot.submitted_at,
        tracing_id: hot.tracing_id.clone(),
        source: hot.source.map(Box::new),
        node: hot.node.map(Box::new),
        member: hot.member.map(Box::new),
        give_backs: hot.give_backs.clone(),
        input,
    }
}
