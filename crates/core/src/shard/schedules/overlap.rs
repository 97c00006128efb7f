//! Runs of one schedule that meet.

use std::collections::{BTreeSet, VecDeque};

use crate::id::{JobId, ScheduleId};
use crate::lifecycle::JobState;
use crate::schedule::{
    By, ChangeKind, Marks, OVERLAP_QUEUE_MAX, OccurrenceRow, Overlap, Pause, Planned, ScheduleChange, ScheduleReply,
    SourceKind, Verdict,
};
use crate::shard::event::Token;
use crate::shard::planted;
use crate::shard::schedules::catch_up::Replay;
use crate::shard::schedules::decide::{Firing, VerdictStep, replay_pause};
use crate::shard::schedules::table::EntryIndex;
use crate::shard::schedules::{Planner, Schedules};
use crate::shard::write::{Decision, ScheduleWrite};
use crate::time::Timestamp;

/// The author of a pause after too many failures.
const OURSELVES: &str = "scheduler";

/// The runs of one schedule that have not ended, and the times that wait for that.
#[derive(Default)]
pub(super) struct Track {
    active: BTreeSet<JobId>,
    pub(super) queued: VecDeque<OccurrenceRow>,
    /// The next replay in turn does not start before.
    replay_from: Timestamp,
}

impl Track {
    pub(super) fn begin(&mut self, job: JobId) {
        self.active.insert(job);
    }

    fn is_idle(&self) -> bool {
        self.active.is_empty() && self.queued.is_empty()
    }
}

/// What becomes of a run at whose time another one may not have ended.
pub(super) enum OverlapDecision {
    Fires(JobId),
    /// The time waits for the previous run to end.
    Queued,
    /// The time waits for the previous run, which is to be cancelled.
    CancelsPrevious,
    /// The reason is for people.
    Skipped(String),
    /// The time is decided when the pending verdicts are known.
    InDoubt,
}

impl Schedules {
    pub(super) fn track(&mut self, id: ScheduleId) -> &mut Track {
        self.tracks.entry(id).or_default()
    }

    /// A run that has not ended.
    fn active(&self, id: ScheduleId) -> Option<JobId> {
        self.tracks.get(&id)?.active.first().copied()
    }

    fn is_queued(&self, id: ScheduleId, at: Timestamp) -> bool {
        self.tracks.get(&id).is_some_and(|track| track.queued.iter().any(|queued| queued.at == at))
    }

    /// Whether this time, or one before it that is under way, may have been decided about by a former owner. What it
    /// meets is known when that is.
    fn must_wait_for_verdicts(&self, id: ScheduleId, planned: &Planned) -> bool {
        self.progress.is_in_doubt(id) || (planned.slot <= self.taken_at && self.progress.is_under_way(id))
    }

    /// A former owner had decided about it, so it does not wait.
    pub(super) fn never_queued(&mut self, id: ScheduleId, at: Timestamp) {
        if let Some(track) = self.tracks.get_mut(&id) {
            track.queued.retain(|queued| queued.at != at);
        }
    }

    /// Removes all queued times.
    pub(super) fn take_queued(&mut self, id: ScheduleId) -> VecDeque<OccurrenceRow> {
        self.tracks.get_mut(&id).map(|track| std::mem::take(&mut track.queued)).unwrap_or_default()
    }

    fn queued(&self, id: ScheduleId) -> usize {
        self.tracks.get(&id).map_or(0, |track| track.queued.len())
    }

    /// Schedules with runs that have not ended, or with times that wait for that.
    pub(super) fn tracked(&self) -> Vec<ScheduleId> {
        self.tracks.keys().copied().collect()
    }

    /// The runs that are to make way for a time that waits.
    pub(super) fn runs_to_cancel(&self, id: ScheduleId) -> Vec<JobId> {
        let entry = self.table.place(id).and_then(|place| self.table.entry(place));
        let cancels_all = entry.is_some_and(|entry| entry.plan.spec.overlap == Overlap::CancelPrevious);
        let cancels = |waiting: &OccurrenceRow| cancels_all || waiting.marks.has(Marks::CANCELS_PREVIOUS);
        let track = self.tracks.get(&id).filter(|track| track.queued.iter().any(cancels));
        track.map(|track| track.active.iter().copied().collect()).unwrap_or_default()
    }

    /// A job of a schedule has come into memory; it may have been made eligible again.
    pub(in crate::shard) fn run_seen(&mut self, schedule: ScheduleId, job: JobId) {
        self.track(schedule).begin(job);
    }
}

impl Planner<'_> {
    /// Decides about a time that is to run, by a rule for runs that meet.
    pub(super) fn decide_overlap(
        &mut self,
        place: EntryIndex,
        planned: Planned,
        firing: Firing,
        overlap: Overlap,
    ) -> OverlapDecision {
        let Some(entry) = self.schedules.table.entry(place) else { return OverlapDecision::InDoubt };
        let id = entry.id;
        if overlap != Overlap::Allow && self.schedules.must_wait_for_verdicts(id, &planned) {
            return OverlapDecision::InDoubt;
        }
        let queued = self.schedules.queued(id);
        let meets = self.schedules.active(id).filter(|_| !planted!(self.config, OverlapIgnored));
        let is_free = overlap == Overlap::Allow || (meets.is_none() && queued == 0);
        if is_free {
            let occurrence = self.occurrence(entry, &planned, Verdict::Fired);
            let job = self.fire(place, occurrence, firing, VerdictStep::First);
            return job.map_or(OverlapDecision::InDoubt, OverlapDecision::Fires);
        }
        let waits_already = || "another run is already queued".to_owned();
        let skipped = match overlap {
            // A former definition may have let times wait.
            Overlap::Skip => Some(meets.map_or_else(waits_already, |job| format!("{job} had not ended"))),
            Overlap::QueueOne if queued > 0 => Some(waits_already()),
            Overlap::QueueAll if queued >= OVERLAP_QUEUE_MAX => {
                Some(format!("{OVERLAP_QUEUE_MAX} runs are already queued"))
            }
            Overlap::QueueOne | Overlap::QueueAll | Overlap::CancelPrevious | Overlap::Allow => None,
        };
        if let Some(reason) = skipped {
            self.decide_without_run(place, &planned, Verdict::SkippedOverlap, Some(reason.clone()));
            return OverlapDecision::Skipped(reason);
        }
        if overlap != Overlap::CancelPrevious {
            self.queue(place, &planned, Marks::NONE);
            return OverlapDecision::Queued;
        }
        self.supersede_queued(id, planned.at);
        let is_asked_for = firing.kind == SourceKind::Manual;
        self.queue(place, &planned, Marks::NONE.with_if(Marks::CANCELS_PREVIOUS, is_asked_for));
        OverlapDecision::CancelsPrevious
    }

    /// A missed time runs after those before it.
    pub(super) fn replay_in_turn(&mut self, place: EntryIndex, planned: &Planned, firing: Firing) -> Replay {
        let Some(entry) = self.schedules.table.entry(place) else { return Replay::Waits };
        let (id, per_minute) = (entry.id, entry.plan.spec.catch_up.per_minute);
        if self.schedules.must_wait_for_verdicts(id, planned) {
            self.schedules.stall(place, planned.slot);
            return Replay::Waits;
        }
        if self.schedules.active(id).is_none() && self.schedules.queued(id) == 0 {
            let occurrence = self.occurrence(entry, planned, Verdict::Fired);
            let due_at = firing.due_at.max(self.schedules.track(id).replay_from);
            let firing = Firing { due_at, ..firing };
            self.fire(place, occurrence, firing, VerdictStep::First);
            self.schedules.track(id).replay_from = firing.due_at + replay_pause(per_minute);
        } else if self.schedules.queued(id) >= OVERLAP_QUEUE_MAX {
            let reason = Some(format!("{OVERLAP_QUEUE_MAX} runs are already queued"));
            self.decide_without_run(place, planned, Verdict::Missed, reason);
            return Replay::Refused;
        } else {
            self.queue(place, planned, Marks::REPLAYED);
        }
        Replay::Runs
    }

    fn queue(&mut self, place: EntryIndex, planned: &Planned, mark: Marks) {
        let Some(entry) = self.schedules.table.entry(place) else { return };
        if self.schedules.is_queued(entry.id, planned.at) {
            return;
        }
        let occurrence = self.occurrence(entry, planned, Verdict::Queued);
        let occurrence = OccurrenceRow { marks: occurrence.marks.with(mark), ..occurrence };
        let id = entry.id;
        self.schedules.track(id).queued.push_back(occurrence.clone());
        self.push_verdict(Box::new(Decision { occurrence, job: None, notice: None }));
    }

    /// The newest time takes the place of those that wait.
    fn supersede_queued(&mut self, id: ScheduleId, at: Timestamp) {
        let queued = std::mem::take(&mut self.schedules.track(id).queued);
        let (older, newer): (VecDeque<_>, VecDeque<_>) = queued.into_iter().partition(|queued| queued.at < at);
        self.schedules.track(id).queued = newer;
        self.release_without_run(older, Verdict::SkippedOverlap, "a later time took its place");
    }

    pub(super) fn release_without_run(
        &mut self,
        waiting: impl IntoIterator<Item = OccurrenceRow>,
        verdict: Verdict,
        reason: &str,
    ) {
        for occurrence in waiting {
            let reason = Some(reason.to_owned());
            let occurrence = OccurrenceRow { verdict, decided_at: self.now, reason, ..occurrence };
            self.push_release(Box::new(Decision { occurrence, job: None, notice: None }));
        }
    }

    /// A job that others may wait for has durably ended, or never came to be.
    pub(super) fn run_ended(&mut self, schedule: ScheduleId, job: JobId, state: Option<JobState>) {
        if let Some(track) = self.schedules.tracks.get_mut(&schedule) {
            track.active.remove(&job);
        }
        match state {
            Some(state) if self.schedules.is_loaded => self.count_failures(schedule, state),
            Some(state) => self.schedules.ended_early.push((schedule, state)),
            None => {}
        }
        self.release_next(schedule);
    }

    /// Starts the time that waits longest, if nothing runs any more.
    pub(super) fn release_next(&mut self, id: ScheduleId) {
        // What is asked for counts when it is durable, and waits for verdicts: no more of them meanwhile.
        if self.is_retiring || !self.schedules.is_loaded || self.schedules.is_changing(id) {
            return;
        }
        let Some(track) = self.schedules.tracks.get_mut(&id) else { return };
        let Some(place) = self.schedules.table.place(id) else {
            let waiting = std::mem::take(&mut track.queued);
            self.schedules.tracks.remove(&id);
            self.release_without_run(waiting, Verdict::SkippedByRequest, "the schedule was deleted");
            return;
        };
        let entry = self.schedules.table.entry(place).expect("it was just found");
        if !track.active.is_empty() && entry.plan.spec.overlap != Overlap::Allow {
            return;
        }
        let (is_paused, is_used_up) = (entry.is_paused(), entry.is_used_up());
        if is_used_up && !is_paused {
            let waiting = std::mem::take(&mut track.queued).into_iter();
            let (asked_for, planned): (VecDeque<_>, VecDeque<_>) =
                waiting.partition(|waiting| waiting.marks.has(Marks::MANUAL));
            track.queued = asked_for;
            let reason = "the schedule had run as often as `max_runs` allows";
            self.release_without_run(planned, Verdict::SkippedMaxRuns, reason);
        }
        let Some(track) = self.schedules.tracks.get_mut(&id) else { return };
        // A pause holds up what waits, too, but not what somebody asks for.
        let may_run = |waiting: &OccurrenceRow| !is_paused || waiting.marks.has(Marks::MANUAL);
        let next = track.queued.iter().position(may_run).and_then(|place| track.queued.remove(place));
        let Some(occurrence) = next else {
            // Kept while it paces replays that come in later turns.
            if track.is_idle() && track.replay_from <= self.now {
                self.schedules.tracks.remove(&id);
            }
            return;
        };
        let is_replay = occurrence.marks.has(Marks::REPLAYED);
        // Our clock may have gone back since it was queued.
        let earliest = self.now.max(occurrence.slot);
        let due_at = if is_replay { track.replay_from.max(earliest) } else { earliest };
        let per_minute = self.schedules.table.entry(place).map_or(1, |entry| entry.plan.spec.catch_up.per_minute);
        if is_replay && let Some(track) = self.schedules.tracks.get_mut(&id) {
            track.replay_from = due_at + replay_pause(per_minute);
        }
        let kind = match is_replay {
            true => SourceKind::Replayed,
            false if occurrence.marks.has(Marks::MANUAL) => SourceKind::Manual,
            false => SourceKind::Planned,
        };
        let occurrence = OccurrenceRow { decided_at: self.now, ..occurrence };
        self.fire(place, occurrence, Firing { kind, due_at }, VerdictStep::Release);
        // Where runs may meet by now, all that waited go on.
        self.release_next(id);
    }

    /// Keeps count of failures in a row, and pauses a schedule that had too many.
    pub(super) fn count_failures(&mut self, id: ScheduleId, state: JobState) {
        let now = self.now;
        let Some(place) = self.schedules.table.place(id) else { return };
        let Some(entry) = self.schedules.table.entry_mut(place) else { return };
        let Some(max) = entry.plan.spec.pause_after_failures else { return };
        let failures = match state {
            JobState::Failed | JobState::Lost | JobState::Quarantined => entry.failures().saturating_add(1),
            JobState::Succeeded => 0,
            JobState::Cancelled | JobState::Deleted | JobState::Scheduled | JobState::Running => return,
        };
        if failures == entry.failures() {
            return;
        }
        entry.change_rare(|rare| rare.failures = failures);
        if failures < max || entry.is_paused() {
            let state = entry.state();
            self.push(ScheduleWrite::Set { id, state, change: None });
            return;
        }
        // What came before is not paused. One that is far behind is paused all the same.
        let since = self.plan_up(place).then(|| now.max(self.schedules.progress.decided));
        let Some(entry) = self.schedules.table.entry_mut(place) else { return };
        let by = By { at: now, who: OURSELVES.to_owned() };
        let note = Some(format!("{failures} runs in a row failed"));
        let pause = Pause { by: by.clone(), note: note.clone() };
        entry.change_rare(|rare| rare.pause = Some(pause));
        let (state, revision) = (entry.state(), entry.revision);
        let change = ScheduleChange { by, kind: ChangeKind::Paused, note, former_spec: None };
        self.schedules.waits(id, Token::NOBODY, ScheduleReply::Done { revision });
        self.push_change(place, since, ScheduleWrite::Set { id, state, change: Some(change) });
    }
}
