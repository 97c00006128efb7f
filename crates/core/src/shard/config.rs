//! The settings of an owner, each with the mission's default.

use crate::time::Span;

#[derive(Debug, Clone)]
pub struct Config {
    /// How far ahead rows are read into memory.
    pub look_ahead: Span,
    /// Jobs that wait in memory, over all shards and but for a few for each class. When it
    /// is full, rows stay in the store until there is room: nothing is lost, only read later.
    pub window_max: usize,
    /// Rows of one read.
    pub page_len: usize,
    /// How often the look-ahead is read on.
    pub sweep_every: Span,
    /// How often all rows up to the look-ahead are read again, for what a hint missed
    /// and for rows that became visible after the sweep had passed them.
    pub floor_sweep_every: Span,
    /// A worker that was not heard of for this long is dead.
    pub worker_silence: Span,
    /// Workers end what overruns its timeout; the owner does so this much later.
    pub timeout_grace: Span,
    /// A job is set aside when this many workers died while they ran it.
    pub quarantine_after: u16,
    /// A receiver cannot put a retry off for longer than this.
    pub retry_after_max: Span,
    /// A planned time of a schedule that is decided this much later was missed, and the schedule's catch-up rule
    /// applies. An upper bound for schedules without a setting of their own. A failover takes less.
    pub schedule_grace: Span,
    /// Writes of one transaction. More would hold the fence, and all who wait for the
    /// commit, for longer than they gain.
    pub batch_max: usize,
    /// Connections that a store writes on side by side. The shards are spread over them, and
    /// each has batches of its own: one for SQLite, which has one writer.
    pub lanes: usize,
    /// Batches of one lane on their way to the store at a time. A second one waits in the
    /// store's queue while the first is flushed, so that the writer is never idle.
    pub batches_in_flight_max: usize,
    /// A bug that the simulator has to find.
    #[cfg(feature = "planted-bugs")]
    pub bug: Option<Bug>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            look_ahead: Span::from_secs(30),
            window_max: 20_000,
            page_len: 1000,
            sweep_every: Span::from_secs(1),
            floor_sweep_every: Span::from_secs(10),
            worker_silence: Span::from_secs(20),
            timeout_grace: Span::from_secs(10),
            quarantine_after: 3,
            retry_after_max: Span::from_secs(24 * 3600),
            schedule_grace: Span::from_secs(60),
            batch_max: 2000,
            lanes: 1,
            batches_in_flight_max: 2,
            #[cfg(feature = "planted-bugs")]
            bug: None,
        }
    }
}

/// Bugs that can be switched on, one at a time, to show that the simulator finds them.
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
    /// The watermark of a shard runs ahead of what was decided.
    WatermarkRunsAhead,
    /// A takeover plans from now on, not from where the former owner stopped.
    WatermarkIgnored,
    /// Runs of a schedule meet although it says that they must not.
    OverlapIgnored,
    /// What is missed in the next turn has a budget of its own.
    ReckoningForgotten,
    /// A job fails and nobody is told.
    FailureNotTold,
    /// A start that its worker denies was never received, although the database has lost commits since.
    OldStartBelieved,
    /// A planned time that its schedule has given up runs as if it were in time.
    MissedAfterIgnored,
    /// A run that somebody asks for does not look at the schedule's overlap policy.
    ManualRunsMeet,
    /// An edit forgets which times are to be skipped.
    EditDropsSkip,
}

impl Bug {
    pub const ALL: [Self; 26] = [
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
        Self::WatermarkRunsAhead,
        Self::WatermarkIgnored,
        Self::OverlapIgnored,
        Self::ReckoningForgotten,
        Self::FailureNotTold,
        Self::OldStartBelieved,
        Self::MissedAfterIgnored,
        Self::ManualRunsMeet,
        Self::EditDropsSkip,
    ];
}

impl Config {
    #[cfg(feature = "planted-bugs")]
    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    pub(super) const fn has(&self, _bug: Bug) -> bool {
        false
    }
}
