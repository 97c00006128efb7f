//! The settings of an owner. Where a setting of the server has another name, the field says so; `engine_config` in
//! `punctual/src/wiring.rs` maps them.

#[cfg(feature = "planted-bugs")]
use crate::shard::bug::Bug;
use crate::time::Span;

#[derive(Debug, Clone)]
pub struct Config {
    /// How far ahead rows are read into memory.
    pub look_ahead: Span,
    /// Jobs that wait in memory, over all shards and but for a few for each pool. When it
    /// is full, rows stay in the store until there is room: nothing is lost, only read later.
    pub window_max: usize,
    /// Rows of one read. Setting `read_batch`.
    pub page_len: usize,
    /// How often the look-ahead is read on. Setting `poll_interval`.
    pub sweep_every: Span,
    /// How often all rows up to the look-ahead are read again, for what a hint missed
    /// and for rows that became visible after the sweep had passed them. Setting `full_poll_interval`.
    pub floor_sweep_every: Span,
    /// A worker that was not heard of for this long is dead. Setting `worker_dead_after`.
    pub worker_silence: Span,
    /// Workers end what overruns its timeout; the owner does so this much later.
    pub timeout_grace: Span,
    /// A job is set aside when this many workers died while they ran it.
    pub quarantine_after: u16,
    /// A receiver cannot put a retry off for longer than this.
    pub retry_after_max: Span,
    /// A planned time of a schedule that is decided this much later was missed, and the schedule's catch-up rule
    /// applies. An upper bound for schedules without a setting of their own. A failover takes less. Setting
    /// `missed_after`.
    pub schedule_grace: Span,
    /// The maximum number of writes in one transaction. More would hold the fence, and everything that waits for the
    /// commit, for longer than they gain. Setting `write_batch`.
    pub batch_max: usize,
    /// Connections that a store writes on side by side. The shards are spread over them, and
    /// each has batches of its own: one for SQLite, which has one writer.
    pub lanes: usize,
    /// Batches of one lane on their way to the store at a time. A second one waits in the
    /// store's queue while the first is flushed, so that the writer is never idle.
    pub batches_in_flight_max: usize,
    /// What is known of quotas of running attempts before anybody has told the owner.
    pub quotas_at_start: QuotasAtStart,
    /// A bug that the simulator has to find.
    #[cfg(feature = "planted-bugs")]
    pub bug: Option<Bug>,
}

/// What is known of quotas of running attempts at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotasAtStart {
    /// There are none.
    None,
    /// They are still to be read. Nothing starts before, or a server that has just started would go beyond them.
    Unknown,
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
            quotas_at_start: QuotasAtStart::None,
            #[cfg(feature = "planted-bugs")]
            bug: None,
        }
    }
}
