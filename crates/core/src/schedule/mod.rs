//! A schedule: when a task runs, again and again, and the ledger of what became of each of its times.
//!
//! [`ScheduleSpec`] is what is stored of the rules, [`Plan`] what they mean, [`ScheduleRow`] the whole
//! schedule. The owner of its shard decides about each planned time once, and writes an
//! [`OccurrenceRow`]; see `shard/schedules`.

mod command;
mod ledger;
mod plan;
mod row;
mod scheduled_run;
mod shared_instant;
mod source;
mod spec;

pub use command::{ScheduleCommand, ScheduleReply};
pub use ledger::{Marks, OccurrenceRow, Verdict};
pub use plan::{Plan, PlanError, Planned, Unfired};
pub use row::{
    By, ChangeKind, NewSchedule, Pause, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState, StoredCalendar,
    seed_of,
};
pub use scheduled_run::{Origin, OriginSchedule, ScheduledRun};
pub use shared_instant::LeftOut;
pub use source::{Source, SourceKind};
pub use spec::{
    CATCH_UP_MAX, CalendarNames, CatchUp, CatchUpMode, MISSED_AFTER_FLOOR, MISSED_AFTER_RANGE, OVERLAP_QUEUE_MAX,
    Overlap, PAUSE_AFTER_MAX, ScheduleSpec,
};

pub use punctual_recurrence as recurrence;
