//! The durable state: the lease, its epoch, and the rows. Applies an owner's writes under the fence; decides nothing.

use crate::bounds::Grain;
use crate::cluster::Step;
use crate::mutations::Mutation;
use crate::state::{Answer, AttemptNo, Call, Epoch, JobEnd, JobNo, NextAction, Outcome, Row, ServerNo, Verdict, Write};

impl Step<'_> {
    /// A call reaches the store.
    pub(crate) fn apply(&mut self, server: ServerNo, job: JobNo) {
        let Call::Sent(epoch, write) = *self.call(server, job) else { return };
        let answer = if self.passes_fence(epoch) { self.write(epoch, job, write) } else { Answer::Fenced };
        *self.call(server, job) = Call::Answered(epoch, write, answer);
        if self.bounds().grain == Grain::Coarse {
            self.learn(server, job);
        }
    }

    pub(crate) fn passes_fence(&self, epoch: Epoch) -> bool {
        epoch == self.state.store.epoch || self.has(Mutation::NoFence)
    }

    fn write(&mut self, epoch: Epoch, job: JobNo, write: Write) -> Answer {
        let row = self.state.store.rows[usize::from(job)];
        let expected = match write {
            Write::Start { attempt, .. } => Some(attempt),
            Write::Remove { next, .. } => Some(next),
            Write::End { .. } => None,
        };
        // A start is a record of its own: a running job's row looks as if it waited.
        let waits_for = match row {
            Row::Waiting { next: attempt } | Row::Running { attempt, .. } => Some(attempt),
            Row::Finished { .. } => None,
        };
        let is_expected = expected.is_none() || expected == waits_for;
        if !is_expected && !self.has(Mutation::RowUnchecked) {
            return Answer::Void;
        }
        self.committed(epoch);
        let row = match write {
            Write::Start { attempt, worker } => {
                self.state.witness.early |= self.is_early(job);
                self.seen(job, attempt).is_start_durable = true;
                Row::Running { attempt, worker, cancel: false }
            }
            Write::Remove { end, .. } => Row::Finished { end, attempt: None },
            Write::End { attempt, verdict, then, .. } => {
                self.put_on_record(job, attempt, verdict);
                match then {
                    NextAction::Settle(end) => Row::Finished { end, attempt: Some(attempt) },
                    NextAction::Requeue { next } => Row::Waiting { next },
                }
            }
        };
        self.state.store.rows[usize::from(job)] = row;
        Answer::Applied
    }

    /// Every transition passes here, so that the witness sees under which epoch it was made.
    fn committed(&mut self, epoch: Epoch) {
        self.state.witness.unfenced |= epoch != self.state.store.epoch;
    }

    fn put_on_record(&mut self, job: JobNo, attempt: AttemptNo, verdict: Verdict) {
        let seen = self.seen(job, attempt);
        // A loss is a doubt, not an outcome: a late result may take its place.
        let is_replaced = seen.on_record.is_some_and(|before| before != Verdict::WorkerLost && before != verdict);
        seen.on_record = Some(verdict);
        self.state.witness.replaced |= is_replaced;
    }

    /// The wish to cancel a running job becomes durable.
    pub(crate) fn record_cancel(&mut self, epoch: Epoch, job: JobNo) {
        self.committed(epoch);
        if let Row::Running { cancel, .. } = &mut self.state.store.rows[usize::from(job)] {
            *cancel = true;
        }
    }

    /// The late result of a lost attempt.
    pub(crate) fn resolve_lost(&mut self, epoch: Epoch, job: JobNo, attempt: AttemptNo, outcome: Outcome) {
        self.committed(epoch);
        self.put_on_record(job, attempt, Verdict::Reported(outcome));
        let end = match outcome {
            Outcome::Succeeded => JobEnd::Succeeded,
            // A job whose cancel was requested ends as cancelled and not as lost.
            Outcome::Failed | Outcome::Cancelled => JobEnd::Failed,
            Outcome::NotStarted => unreachable!("it resolves nothing"),
        };
        self.state.store.rows[usize::from(job)] = Row::Finished { end, attempt: Some(attempt) };
    }
}
