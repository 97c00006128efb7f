//! Bugs that can be planted, one at a time, to show that the simulator finds them, and what only they do.
//!
//! The module exists only with the feature `planted-bugs`, which the simulator alone asks for: `cargo xtask lint` keeps
//! it out of all other crates.

use crate::id::{JobId, WorkerId};
use crate::lifecycle::JobState;
use crate::shard::Owner;
use crate::shard::event::{Reply, Send, Token};
use crate::shard::live::Stage;
use crate::shard::planted;
use crate::shard::write::{CancelMark, JobWrite, Settle};

/// A mistake that the simulator must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An assignment is sent before its start is durable.
    ExecuteBeforeDurable,
    /// A job that runs can be deleted.
    DeleteIgnoresRunning,
    /// A command is answered before it is durable.
    AnswerBeforeDurable,
    /// One retry more than the policy grants.
    OneRetryTooMany,
    /// A failure is retried although the policy excepts its class.
    ExceptedIsRetried,
    /// A job that cannot be started is tried for ever.
    GiveBacksUnlimited,
    /// An outcome counts whatever attempt it is of.
    StaleOutcomeAccepted,
    /// A start that is taken back gives its number to the next.
    AttemptReused,
    /// Jobs start 50 ms before they are due.
    EarlyStart,
    /// A lost `exactly_once` attempt is simply started again.
    LostIsRetried,
    /// A row that was read before its job ended is taken for a new job.
    GhostRows,
    /// A full window forgets what it had no room for.
    FullWindowForgets,
    /// A reconnecting worker's attempts are taken for never received.
    HeldIsIgnored,
    /// A takeover forgets what was running.
    TakeoverForgetsRunning,
    /// A hello counts although the worker has said another one since.
    LateHelloBelieved,
    /// An answer is taken for that of the oldest batch, whatever lane it is of.
    AnswersMixedUp,
    /// A job starts although its task's file has not arrived.
    FileNotAwaited,
    /// A job starts on a worker that does not serve its namespace.
    NamespaceIgnored,
    /// The watermark of a shard runs ahead of what was decided.
    WatermarkRunsAhead,
    /// A takeover plans from now on, not from where the former owner stopped.
    WatermarkIgnored,
    /// Runs of a schedule meet although it says that they must not.
    OverlapIgnored,
    /// Times that are missed in the next turn get a budget of their own.
    ReckoningForgotten,
    /// A job fails without a notice.
    FailureNotTold,
    /// A start that its worker denies was never received, although the database has lost commits since.
    OldStartBelieved,
    /// A planned time that its schedule has given up runs as if it were in time.
    MissedAfterIgnored,
    /// A run that somebody asks for does not look at the schedule's overlap policy.
    ManualRunsMeet,
    /// An edit forgets which times are to be skipped.
    EditDropsSkip,
    /// An owner without a worker for its jobs does not ask other servers for theirs.
    WorkersNotRequested,
    /// Jobs of a paused queue start.
    PauseIgnored,
    /// Whoever takes a shard over forgets which queues are paused.
    PauseForgotten,
    /// Whoever takes a shard over does not ask for the runs that jobs are of.
    RunNotStartedAgain,
    /// A gang starts without the members that are not in memory.
    GangStartsIncomplete,
    /// The starts of a gang are spread over several transactions.
    GangIsSplit,
}

impl Bug {
    pub const ALL: [Self; 33] = [
        Self::ExecuteBeforeDurable,
        Self::DeleteIgnoresRunning,
        Self::AnswerBeforeDurable,
        Self::OneRetryTooMany,
        Self::ExceptedIsRetried,
        Self::GiveBacksUnlimited,
        Self::StaleOutcomeAccepted,
        Self::AttemptReused,
        Self::EarlyStart,
        Self::LostIsRetried,
        Self::GhostRows,
        Self::FullWindowForgets,
        Self::HeldIsIgnored,
        Self::TakeoverForgetsRunning,
        Self::LateHelloBelieved,
        Self::AnswersMixedUp,
        Self::FileNotAwaited,
        Self::NamespaceIgnored,
        Self::WatermarkRunsAhead,
        Self::WatermarkIgnored,
        Self::OverlapIgnored,
        Self::ReckoningForgotten,
        Self::FailureNotTold,
        Self::OldStartBelieved,
        Self::MissedAfterIgnored,
        Self::ManualRunsMeet,
        Self::EditDropsSkip,
        Self::WorkersNotRequested,
        Self::PauseIgnored,
        Self::PauseForgotten,
        Self::RunNotStartedAgain,
        Self::GangStartsIncomplete,
        Self::GangIsSplit,
    ];
}

impl Owner {
    /// Sends the assignment of a start that is not durable, if [`Bug::ExecuteBeforeDurable`] is planted.
    pub(super) fn send_before_durable(&mut self, id: JobId, worker: WorkerId) {
        if !planted!(self.config, ExecuteBeforeDurable) {
            return;
        }
        let shard = self.shard(id.shard()).expect("the job's shard is owned");
        let live = shard.jobs.get(&id).expect("a starting job is in memory");
        let origin = shard.schedules.origin_of(live);
        let assignment = live.assignment(shard.epoch, live.counters.next_attempt, self.now, origin);
        self.send(worker, Send::Assign(assignment));
    }

    /// Deletes a job with an attempt under way; see [`Bug::DeleteIgnoresRunning`].
    pub(super) fn delete_running(&mut self, token: Token, id: JobId) {
        let now = self.now;
        let live = self.live_mut(id);
        let (key, counters) = (live.key, live.counters);
        live.stage = Stage::MOVING;
        self.push(JobWrite::Settle(Settle {
            key,
            state: JobState::Deleted,
            finished_at: now,
            counters,
            attempt: None,
            reason: None,
            output: None,
            cancel: CancelMark::None,
            notice: None,
            success_of: None,
            node: None,
            member: None,
        }));
        self.reply_after(id, token, Reply::Done(JobState::Deleted));
    }
}
