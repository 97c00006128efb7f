//! Schedules: what was planned is decided about, once, when its time has come.
//!
//! Each shard has its schedules in memory with a timer on the next planned time of all. A planned time
//! whose slot has come gets a verdict: a [`ScheduleWrite::Decide`] with the job that it makes, if it fires.
//! When all up to some moment are durable, a [`ScheduleWrite::Watermark`] says so. After a crash in between, the next
//! owner decides again about what has a verdict already; the ledger has room for one only, so the second is void.
//!
//! [`ScheduleWrite::Decide`]: crate::shard::write::ScheduleWrite::Decide
//! [`ScheduleWrite::Watermark`]: crate::shard::write::ScheduleWrite::Watermark

mod calendars;
mod catch_up;
mod commands;
mod decide;
mod definitions;
mod delayed;
mod late;
mod load;
mod overlap;
mod owner;
mod planning;
mod progress;
mod table;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::id::{JobId, ScheduleId, ShardId};
use crate::lifecycle::JobState;
use crate::random::SplitMix64;
use crate::schedule::{Origin, OriginSchedule, Source};
use crate::shard::event::{Made, Token};
use crate::shard::live::Live;
use crate::shard::outbox::Outbox;
use crate::shard::schedules::catch_up::Reckoning;
use crate::shard::schedules::definitions::DeferredRequest;
use crate::shard::schedules::delayed::DelayedTimes;
use crate::shard::schedules::overlap::Track;
use crate::shard::schedules::progress::Progress;
use crate::shard::schedules::table::ScheduleTable;
use crate::shard::write::ScheduleWrite;
use crate::shard::{Answer, Config};
use crate::time::{Span, Timestamp};

pub(in crate::shard) use calendars::Calendars;

/// The schedules of one shard.
#[derive(Default)]
pub(super) struct Schedules {
    table: ScheduleTable,
    /// Planned times that wait out their jitter.
    slots: DelayedTimes,
    /// Runs under way, and times that wait for their end, of schedules that ask for it.
    tracks: BTreeMap<ScheduleId, Track>,
    progress: Progress,
    /// When the shard was taken over. What was due by then may have a verdict that we do not know.
    taken_at: Timestamp,
    /// Times after the watermark of which we know that a former owner decided about them: those that wait,
    /// and those whose runs have not ended.
    decided_before: BTreeSet<(ScheduleId, Timestamp)>,
    /// Schedules that were planned anew from a slot on, so that jitter brings up times before it that are decided.
    floors: BTreeMap<ScheduleId, Timestamp>,
    /// Schedules that have begun to make up for what was missed.
    reckonings: BTreeMap<ScheduleId, Reckoning>,
    /// Until when the reckonings matter.
    reckoned_until: Timestamp,
    /// Schedules that wait until the verdicts under way are known, with the first slot that does.
    stalled: BTreeMap<ScheduleId, Timestamp>,
    /// Creations on their way to the store: the moment from which on they count, and what they will be.
    adding: BTreeMap<ScheduleId, (Timestamp, Made)>,
    /// Edits on their way to the store, with the revision of calendars that they know.
    editing: BTreeMap<ScheduleId, u32>,
    /// Definitions that wait for verdicts on earlier times, and the requests that came after them.
    deferred: BTreeMap<ScheduleId, Vec<DeferredRequest>>,
    /// Commands that wait for their write to be durable, in order.
    waiting: BTreeMap<ScheduleId, VecDeque<(Token, Answer)>>,
    /// All of them are in memory. Until then nothing is decided.
    is_loaded: bool,
    /// Runs that ended before all were in memory.
    ended_early: Vec<(ScheduleId, JobState)>,
    /// Runs that started before all were in memory.
    started_early: Vec<(Source, JobId, Timestamp)>,
    /// The time of the last run that somebody requested.
    last_manual: Timestamp,
}

/// Decides about the schedules of one shard, at one moment. This is all that it may use of the owner: it knows no
/// workers, and of jobs only that they are under way.
struct Planner<'a> {
    schedules: &'a mut Schedules,
    shard: ShardId,
    /// The shard is about to be given up: nothing of it starts any more.
    is_retiring: bool,
    config: &'a Config,
    now: Timestamp,
    chance: &'a mut SplitMix64,
    outbox: &'a mut Outbox,
    calendars: &'a mut Calendars,
    answers: &'a mut Vec<(Token, Answer)>,
    /// Who asks for the run that is being decided about, if it is not planned.
    requester: Option<String>,
}

impl Planner<'_> {
    /// Takes a decided write, in the order in which decisions are made.
    fn push(&mut self, write: ScheduleWrite) {
        self.outbox.push(write.into(), self.now);
    }
}

impl Schedules {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// When the run of a planned time was to start, and how late it may be, including runs that were missed or queued.
    pub(super) fn promised(&self, source: &Source) -> Option<(Timestamp, Option<Span>)> {
        let entry = self.table.place(source.schedule).and_then(|place| self.table.entry(place))?;
        Some((entry.plan.slot(source.at, entry.seed()), entry.plan.spec.late_after))
    }

    /// The origin of a scheduled job, with the plan that is in memory.
    pub(super) fn origin_of(&self, live: &Live) -> Option<Box<Origin>> {
        let source = *live.source.as_deref()?;
        let entry = self.table.place(source.schedule).and_then(|place| self.table.entry(place));
        let schedule = entry.map(|entry| OriginSchedule {
            name: entry.name.clone(),
            plan: Arc::clone(&entry.plan),
            last_success: entry.last_success(),
        });
        Some(Box::new(Origin { source, schedule }))
    }

    /// The run of a planned time has durably succeeded.
    pub(super) fn succeeded(&mut self, schedule: ScheduleId, at: Timestamp) {
        if let Some(entry) = self.table.place(schedule).and_then(|place| self.table.entry_mut(place)) {
            entry.succeeded(at);
        }
    }

    /// When something is to be decided, if anything ever is.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        let slot = self.slots.first().map(|slot| slot.planned.slot);
        let wake = self.table.next_wake().into_iter().chain(slot).min()?;
        self.is_loaded.then_some(wake)
    }
}
