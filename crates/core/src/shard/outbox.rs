//! Decisions on their way to the store, in lanes that do not wait for each other.
//!
//! All writes of a shard go through one lane, in the order in which they were decided, and the
//! batches of a lane are answered in the order in which they were made. Batches of different
//! lanes touch different shards, so their answers may come in any order.

use std::collections::{BTreeSet, VecDeque};

use crate::id::{BatchId, ShardId};
use crate::shard::write::{BatchSeq, JobWrite, ScheduleWrite, SharedBatch, Write};
use crate::time::{Span, Timestamp};

/// Records of starts that say nothing any more are closed along with other writes, or after this:
/// nobody waits for it, and a transaction of its own would cost as much as a start. The same
/// holds for watermarks.
const CLOSE_WITHIN: Span = Span::from_secs(1);

/// Whether the starts of a gang are in one transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GangStarts {
    Together,
    /// A planted bug.
    Split,
}

#[derive(Default)]
struct WriteQueue {
    /// Decided and not yet handed to the store.
    writes: VecDeque<Write>,
    /// Records to be closed, and watermarks to be set, at the next opportunity.
    closes: VecDeque<Write>,
    /// When they are to be closed at the latest.
    close_by: Option<Timestamp>,
    /// Handed to the store and not yet answered, oldest first.
    in_flight: VecDeque<SharedBatch>,
}

pub(super) struct Outbox {
    /// One for each lane.
    queues: Vec<WriteQueue>,
    in_flight_max: usize,
    /// The lane whose turn it is.
    turn: usize,
    batches_made: u64,
}

impl Outbox {
    pub(super) fn new(lanes: usize, in_flight_max: usize) -> Self {
        let queues = std::iter::repeat_with(WriteQueue::default).take(lanes.max(1)).collect();
        Self { queues, in_flight_max: in_flight_max.max(1), turn: 0, batches_made: 0 }
    }

    fn queue(&mut self, shard: ShardId) -> &mut WriteQueue {
        let lane = shard.lane(self.queues.len());
        &mut self.queues[lane]
    }

    pub(super) fn push(&mut self, write: Write, now: Timestamp) {
        let queue = self.queue(write.shard());
        if matches!(write, Write::Job(JobWrite::CloseStarts(_)) | Write::Schedule(ScheduleWrite::Watermark { .. })) {
            queue.closes.push_back(write);
            queue.close_by.get_or_insert(now + CLOSE_WITHIN);
        } else {
            queue.writes.push_back(write);
        }
    }

    /// Adds a write before those that were decided later, because it is retried.
    pub(super) fn push_front(&mut self, write: Write) {
        self.queue(write.shard()).writes.push_front(write);
    }

    /// Whether somebody waits for a write.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.writes.is_empty())
    }

    /// Writes on their way on the lane of a shard.
    pub(super) fn backlog(&self, shard: ShardId) -> usize {
        let queue = &self.queues[shard.lane(self.queues.len())];
        queue.writes.len() + queue.in_flight.iter().map(|batch| batch.writes.len()).sum::<usize>()
    }

    /// When the writes that nobody waits for are to be written.
    pub(super) fn next_close(&self) -> Option<Timestamp> {
        let has_room = |queue: &&WriteQueue| queue.in_flight.len() < self.in_flight_max;
        self.queues.iter().filter(has_room).filter_map(|queue| queue.close_by).min()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.queues.iter().map(|queue| queue.in_flight.len()).sum()
    }

    /// The number and the writes of the next batch: of one lane that has any and is not full.
    pub(super) fn take(&mut self, len_max: usize, gangs: GangStarts, now: Timestamp) -> Option<(BatchSeq, Vec<Write>)> {
        let lanes = self.queues.len();
        let in_turn = (0..lanes).map(|step| (self.turn + step) % lanes);
        let has_some = |lane: &usize| {
            let queue = &self.queues[*lane];
            let has_some = !queue.writes.is_empty() || queue.close_by.is_some_and(|by| by <= now);
            has_some && queue.in_flight.len() < self.in_flight_max
        };
        let lane = in_turn.into_iter().find(has_some)?;
        self.turn = (lane + 1) % lanes;
        let WriteQueue { writes, closes, close_by, .. } = &mut self.queues[lane];
        let until = in_order(writes, len_max, gangs);
        let mut taken: Vec<Write> = writes.drain(..until).collect();
        taken.extend(closes.drain(..closes.len().min(len_max.saturating_sub(taken.len()))));
        if closes.is_empty() {
            *close_by = None;
        }
        self.batches_made += 1;
        Some((BatchSeq(self.batches_made), taken))
    }

    pub(super) fn sent(&mut self, batch: SharedBatch) {
        let lane = batch.lane(self.queues.len());
        self.queues[lane].in_flight.push_back(batch);
    }

    /// The oldest batch in flight.
    pub(super) fn oldest(&self) -> Option<BatchSeq> {
        self.queues.iter().filter_map(|queue| queue.in_flight.front()).map(|batch| batch.seq).min()
    }

    /// Removes the batch that was answered, and returns what is still in flight on its lane.
    pub(super) fn answered(&mut self, seq: BatchSeq) -> (SharedBatch, Vec<SharedBatch>) {
        let is_oldest = |queue: &&mut WriteQueue| queue.in_flight.front().is_some_and(|batch| batch.seq == seq);
        let queue = self.queues.iter_mut().find(is_oldest).expect("batches of one lane are answered in order");
        let batch = queue.in_flight.pop_front().expect("it was just found");
        (batch, queue.in_flight.iter().cloned().collect())
    }

    /// Drops the decisions for a shard that were not handed over yet. Batches in flight will still be answered.
    pub(super) fn forget(&mut self, shard: ShardId) {
        let queue = self.queue(shard);
        queue.writes.retain(|write| write.shard() != shard);
        queue.closes.retain(|write| write.shard() != shard);
        if queue.closes.is_empty() {
            queue.close_by = None;
        }
    }

    /// Whether anything of the shard that matters is not yet answered by the store.
    pub(super) fn holds(&self, shard: ShardId) -> bool {
        let queue = &self.queues[shard.lane(self.queues.len())];
        queue.writes.iter().any(|write| write.shard() == shard)
            || queue.in_flight.iter().any(|batch| batch.epoch_of(shard).is_some())
    }
}

/// How many writes fit into one batch. A definition comes before all else about its schedule there, so
/// what was decided about the schedule before it belongs into an earlier batch. The starts of a gang, which follow each other,
/// are in one batch, though it becomes longer.
fn in_order(writes: &VecDeque<Write>, len_max: usize, gangs: GangStarts) -> usize {
    let mut about = BTreeSet::new();
    let mut taken: usize = 0;
    for write in writes.iter().take(len_max) {
        if let Some(write) = write.as_schedule() {
            let schedule = write.schedule();
            if write.is_definition() && schedule.is_some_and(|id| about.contains(&id)) {
                break;
            }
            about.extend(schedule);
        }
        taken += 1;
    }
    let last = taken.checked_sub(1).and_then(|last| gang_of(&writes[last])).filter(|_| gangs == GangStarts::Together);
    let rest = writes.iter().skip(taken).take_while(|write| last.is_some() && gang_of(write) == last);
    taken + rest.count()
}

fn gang_of(write: &Write) -> Option<BatchId> {
    match write {
        Write::Job(JobWrite::Start(start)) => start.gang,
        Write::Job(_) | Write::Schedule(_) | Write::Notice(_) => None,
    }
}
