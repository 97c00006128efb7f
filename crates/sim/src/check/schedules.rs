//! Promises about schedules, judged from what the store took. Only what a plan means, which instants it
//! names, is the core's; whether each was treated as promised is worked out here.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::schedule::{
    Marks, OccurrenceRow, Overlap, Plan, ScheduleCommand, ScheduleReply, ScheduleSpec, SourceKind, Verdict, seed_of,
};
use punctual_core::shard::event::Token;
use punctual_core::shard::write::{JobWrite, ScheduleWrite, Void, Write};
use punctual_core::{JobId, ScheduleId, Span, Timestamp};

use punctual_store::JobRecord;

use crate::calendars::calendars;
use crate::history::{Fact, History};

pub(super) type Found = Vec<(Option<JobId>, String)>;

/// A server needs so long to see a planned time after the faults are over: a takeover, and some.
const SLACK: Span = Span::from_secs(25);

/// One definition of a schedule, for the slots after `since` and up to `until`.
pub(super) struct Period {
    pub(super) plan: Plan,
    seed: u64,
    since: Timestamp,
    until: Timestamp,
}

pub(super) struct ScheduleFacts {
    is_paused: bool,
    pub(super) periods: Vec<Period>,
    pub(super) rows: BTreeMap<Timestamp, OccurrenceRow>,
    max_runs: Vec<Option<u32>>,
}

/// Writes about schedules in the order in which the store took them, without what was void.
pub(super) fn taken(history: &History) -> impl Iterator<Item = (Timestamp, &Write)> {
    history.iter().flat_map(|(at, fact)| {
        let (writes, void): (&[Write], Option<&Void>) = match fact {
            Fact::Committed { batch, void } => (&batch.writes, Some(void)),
            _ => (&[], None),
        };
        writes.iter().filter(move |write| void.is_some_and(|void| !is_void(write, void))).map(move |write| (at, write))
    })
}

/// Whether the store left it out. BatchAnswer down here once more, because what is told depends on it.
pub(super) fn is_void(write: &Write, void: &Void) -> bool {
    match write {
        Write::Schedule(ScheduleWrite::Add(row)) => void.schedules.contains(&row.id),
        Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) => {
            void.occurrences.contains(&(decision.occurrence.schedule, decision.occurrence.at))
        }
        Write::Job(JobWrite::Start(start)) => void.jobs.contains(&start.key.id),
        Write::Job(JobWrite::ResolveLost(resolve)) => void.jobs.contains(&resolve.id),
        Write::Job(JobWrite::Settle(settle)) => settle.attempt.is_none() && void.jobs.contains(&settle.key.id),
        _ => false,
    }
}

fn plan_of(spec: &str, seed: u64) -> Plan {
    // Times that a calendar closes are planned, too; with an open one all of them are.
    Plan::read(spec, &calendars(None), seed).expect("it was planned before")
}

pub(super) fn schedule_facts(history: &History) -> BTreeMap<ScheduleId, ScheduleFacts> {
    let end = history.iter().last().map_or(Timestamp::EPOCH, |(at, _)| at);
    let mut schedule_facts: BTreeMap<ScheduleId, ScheduleFacts> = BTreeMap::new();
    for (at, write) in taken(history) {
        match write {
            Write::Schedule(ScheduleWrite::Add(row)) => {
                let seed = seed_of(&row.name);
                let plan = plan_of(&row.edit.spec, seed);
                let max_runs = vec![plan.spec.max_runs];
                let first = Period { plan, seed, since: row.state.since, until: end };
                schedule_facts.insert(
                    row.id,
                    ScheduleFacts { is_paused: false, periods: vec![first], rows: BTreeMap::new(), max_runs },
                );
            }
            Write::Schedule(ScheduleWrite::Set { id, state, .. }) => {
                if let Some(facts) = schedule_facts.get_mut(id) {
                    facts.is_paused = state.pause.is_some();
                }
            }
            Write::Schedule(ScheduleWrite::Edit { id, edit, state, .. }) => {
                let facts = schedule_facts.get_mut(id).expect("only what is there is edited");
                let last = facts.periods.last_mut().expect("there is a first one");
                last.until = state.since;
                let seed = last.seed;
                let plan = plan_of(&edit.spec, seed);
                facts.max_runs.push(plan.spec.max_runs);
                facts.periods.push(Period { plan, seed, since: state.since, until: end });
            }
            Write::Schedule(ScheduleWrite::Drop { id, change }) => {
                if let Some(last) = schedule_facts.get_mut(id).and_then(|facts| facts.periods.last_mut()) {
                    // What was due by then was decided about before.
                    last.until = change.by.at.min(at);
                }
            }
            _ => {}
        }
    }
    for (_, fact) in history.iter() {
        let Fact::Ledger { id, rows } = fact else { continue };
        if let Some(facts) = schedule_facts.get_mut(id) {
            facts.rows = rows.iter().map(|row| (row.at, row.clone())).collect();
        }
    }
    schedule_facts
}

/// When everything due must have been seen by somebody.
fn seen_by(history: &History) -> Timestamp {
    history.iter().last().map_or(Timestamp::EPOCH, |(at, _)| at) - SLACK
}

pub(super) fn every_planned_time_has_its_verdict(history: &History) -> Found {
    let (seen_by, busy) = (seen_by(history), busy(history));
    let mut found = Vec::new();
    for (id, facts) in schedule_facts(history) {
        let (mut planned_times, used_up_at) = (BTreeSet::new(), facts.used_up_at());
        for period in &facts.periods {
            let from = period.since - period.plan.jitter();
            for planned in period.plan.times_after(from, period.seed) {
                if planned.at > period.until {
                    break;
                }
                // One that comes before the next definition, and whose slot comes after it, belongs to both.
                if planned.slot <= period.since {
                    continue;
                }
                planned_times.insert(planned.at);
                let is_excused = used_up_at.is_some_and(|last| planned.slot > last);
                if planned.slot <= seen_by && !facts.rows.contains_key(&planned.at) && !is_excused {
                    let text =
                        format!("{id} was planned for {} (slot {}) and has no verdict", planned.at, planned.slot);
                    found.push((None, text));
                }
            }
        }
        for row in facts.rows.values() {
            if !row.marks.has(Marks::MANUAL) && !planned_times.contains(&row.at) {
                found.push((row.job, format!("{id} was never planned for {}, {:?}", row.at, row.verdict)));
            }
            if row.verdict == Verdict::Queued && !facts.is_paused && !busy.contains(&id) {
                found.push((None, format!("{id} waits with {}, and nothing of it runs", row.at)));
            }
        }
    }
    found
}

impl ScheduleFacts {
    /// The slot of the run with which it may have run as often as it is allowed to.
    fn used_up_at(&self) -> Option<Timestamp> {
        let least = self.max_runs.iter().flatten().min()?;
        let fired = self.rows.values().filter(|row| row.verdict == Verdict::Fired && !row.marks.has(Marks::MANUAL));
        let mut fired: Vec<(Timestamp, Timestamp)> = fired.map(|row| (row.decided_at, row.slot)).collect();
        fired.sort_unstable();
        fired.get(*least as usize - 1).map(|(_, slot)| *slot)
    }
}

/// Schedules of which a job has not ended.
fn busy(history: &History) -> BTreeSet<ScheduleId> {
    let hot = |fact: &Fact| match fact {
        Fact::Final { record: Some(JobRecord::Hot { job, .. }), .. } => job.source.map(|source| source.schedule),
        _ => None,
    };
    history.iter().filter_map(|(_, fact)| hot(fact)).collect()
}

/// Each fired time has one job that exists, and no job stands for two.
pub(super) fn a_verdict_has_its_job(history: &History) -> Found {
    let mut there = BTreeSet::new();
    for (_, fact) in history.iter() {
        if let Fact::Final { id, record: Some(_) } = fact {
            there.insert(*id);
        }
    }
    let mut found = Vec::new();
    let mut claimed = BTreeSet::new();
    for (id, facts) in schedule_facts(history) {
        for row in facts.rows.values() {
            match (row.verdict, row.job) {
                (Verdict::Fired, Some(job)) => {
                    if !there.contains(&job) {
                        found.push((Some(job), format!("{id} fired for {} and its job is not there", row.at)));
                    }
                    if !claimed.insert(job) {
                        found.push((Some(job), format!("{id} has one job for two times")));
                    }
                    if job.due_at() < row.slot && !row.marks.has(Marks::MANUAL) {
                        found.push((Some(job), format!("{id} fired before {}", row.slot)));
                    }
                }
                (Verdict::Fired, None) => found.push((None, format!("{id} fired for {} without a job", row.at))),
                (_, Some(job)) => found.push((Some(job), format!("{id} has a job and {:?}", row.verdict))),
                (_, None) => {}
            }
        }
        let max = facts.max_runs.iter().copied().collect::<Option<Vec<u32>>>().and_then(|all| all.into_iter().max());
        let fired = facts.rows.values().filter(|row| row.verdict == Verdict::Fired && !row.marks.has(Marks::MANUAL));
        let fired = fired.count() as u32;
        if max.is_some_and(|max| fired > max) {
            found.push((None, format!("{id} fired {fired} times, more than {max:?}")));
        }
    }
    for (_, write) in taken(history) {
        if let Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) = write
            && let Some(job) = &decision.job
            && !claimed.contains(&job.id)
        {
            found.push((Some(job.id), format!("{} is in no ledger", job.id)));
        }
    }
    found
}

/// What has not been decided in time is given up, and does not run as if nothing had happened.
pub(super) fn what_is_late_is_given_up(history: &History) -> Found {
    /// The servers' setting is this, or less.
    const OF_SERVERS: Span = Span::from_secs(60);
    const FLOOR: Span = Span::from_secs(1);
    let mut found = Vec::new();
    let schedule_facts = schedule_facts(history);
    for (_, write) in taken(history) {
        let Write::Schedule(ScheduleWrite::Decide(decision)) = write else { continue };
        let row = &decision.occurrence;
        let is_in_time = matches!(row.verdict, Verdict::Fired | Verdict::Queued)
            && !row.marks.has(Marks::MANUAL)
            && !row.marks.has(Marks::REPLAYED);
        let period =
            schedule_facts.get(&row.schedule).and_then(|facts| facts.periods.iter().find(|period| of_row(row, period)));
        let Some(period) = period.filter(|_| is_in_time) else { continue };
        let next = period.plan.next_after(row.at, period.seed).map_or(Timestamp::MAX, |next| next.at);
        let interval = next.since(row.at).max(FLOOR).min(OF_SERVERS);
        let limit = period.plan.spec.missed_after.unwrap_or(interval);
        let late = row.decided_at.since(row.slot);
        if late > limit {
            let text = format!("{} ran {} as planned, {late} late, and {limit} is the limit", row.schedule, row.at);
            found.push((row.job, text));
        }
    }
    found
}

/// Where a schedule says so, no run is made while another has not ended. What somebody had run again is no run by plan,
/// and whoever asks for a run may say that it may meet others.
pub(super) fn runs_do_not_meet(history: &History) -> Found {
    let may_meet =
        |command: &ScheduleCommand| matches!(command, ScheduleCommand::RunNow { overlap: Some(Overlap::Allow) });
    let asked = history.iter().filter_map(|(_, fact)| match fact {
        Fact::AskSchedule { id, command, .. } if may_meet(command) => Some(*id),
        _ => None,
    });
    let manual_may_meet: BTreeSet<ScheduleId> = asked.collect();
    let mut overlaps: BTreeMap<ScheduleId, Overlap> = BTreeMap::new();
    let mut active: BTreeMap<ScheduleId, BTreeSet<JobId>> = BTreeMap::new();
    let mut of_job: BTreeMap<JobId, ScheduleId> = BTreeMap::new();
    let mut found = Vec::new();
    let overlap_of = |spec: &str| {
        let spec: ScheduleSpec = serde_json::from_str(spec).expect("the clients make good specs");
        spec.overlap
    };
    for (_, fact) in history.iter() {
        let Fact::Committed { batch, void } = fact else { continue };
        for write in batch.writes.iter().filter(|write| !is_void(write, void)) {
            match write {
                Write::Schedule(ScheduleWrite::Add(row)) => _ = overlaps.insert(row.id, overlap_of(&row.edit.spec)),
                Write::Schedule(ScheduleWrite::Edit { id, edit, .. }) => {
                    let former = overlaps.insert(*id, overlap_of(&edit.spec));
                    // Nobody looked at what ran while runs were allowed to meet.
                    if former == Some(Overlap::Allow) {
                        active.remove(id);
                    }
                }
                Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) => {
                    let Some(job) = &decision.job else { continue };
                    let schedule = decision.occurrence.schedule;
                    let running = active.entry(schedule).or_default();
                    let may_meet = overlaps.get(&schedule) == Some(&Overlap::Allow);
                    let is_manual = job.source.kind == SourceKind::Manual;
                    let may_meet = may_meet || (is_manual && manual_may_meet.contains(&schedule));
                    if let Some(other) = running.first().filter(|_| !may_meet) {
                        found.push((Some(job.id), format!("it was made while {other} of {schedule} had not ended")));
                    }
                    running.insert(job.id);
                    of_job.insert(job.id, schedule);
                }
                Write::Job(JobWrite::Settle(settle)) if !void.jobs.contains(&settle.key.id) => {
                    if let Some(running) = of_job.remove(&settle.key.id).and_then(|id| active.get_mut(&id)) {
                        running.remove(&settle.key.id);
                    }
                }
                _ => {}
            }
        }
    }
    found
}

pub(super) fn of_row(row: &OccurrenceRow, period: &Period) -> bool {
    is_of(period, row.slot)
}

pub(super) fn is_of(period: &Period, slot: Timestamp) -> bool {
    slot > period.since && slot <= period.until
}

/// What a client was told had been taken by the store before.
pub(super) fn answers_are_durable(history: &History) -> Found {
    let mut asked: BTreeMap<Token, ScheduleId> = BTreeMap::new();
    let mut written: BTreeMap<ScheduleId, i64> = BTreeMap::new();
    let (mut jobs, mut lines) = (BTreeSet::new(), BTreeSet::new());
    let mut found = Vec::new();
    for (_, fact) in history.iter() {
        match fact {
            Fact::AskSchedule { token, id, .. } => _ = asked.insert(*token, *id),
            Fact::Committed { batch, void } => {
                for write in batch.writes.iter().filter(|write| !is_void(write, void)) {
                    match write {
                        Write::Schedule(ScheduleWrite::Add(row)) => *written.entry(row.id).or_default() += 1,
                        Write::Schedule(
                            ScheduleWrite::Edit { id, .. }
                            | ScheduleWrite::Set { id, change: Some(_), .. }
                            | ScheduleWrite::Drop { id, .. },
                        ) => *written.entry(*id).or_default() += 1,
                        Write::Schedule(ScheduleWrite::Decide(decision)) => {
                            jobs.extend(decision.occurrence.job);
                            lines.insert((decision.occurrence.schedule, decision.occurrence.at));
                        }
                        _ => {}
                    }
                }
            }
            Fact::AnswerSchedule { token, reply } => {
                let id = asked[token];
                let is_durable = match reply {
                    ScheduleReply::Cleared { count: 0 } => true,
                    ScheduleReply::Done { .. } | ScheduleReply::Skipping(_) | ScheduleReply::Cleared { .. } => {
                        let left = written.entry(id).or_default();
                        *left -= 1;
                        *left >= 0
                    }
                    ScheduleReply::Fired(job) => jobs.contains(job),
                    ScheduleReply::Queued { at }
                    | ScheduleReply::CancelsPrevious { at }
                    | ScheduleReply::SkippedOverlap { at, .. } => lines.contains(&(id, *at)),
                    ScheduleReply::NotFound
                    | ScheduleReply::NotOwner
                    | ScheduleReply::NameTaken
                    | ScheduleReply::Conflict { .. }
                    | ScheduleReply::Refused(_) => true,
                };
                if !is_durable {
                    found.push((None, format!("{id} was answered {reply:?} and nothing of it was written")));
                }
            }
            _ => {}
        }
    }
    found
}
