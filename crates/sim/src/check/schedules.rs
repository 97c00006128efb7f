//! Promises about schedules, judged from what the store took. Only what a plan means, which instants it
//! names, is the core's; whether each was treated as promised is worked out here.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::schedule::{Marks, OccurrenceRow, Plan, ScheduleReply, Verdict, seed_of};
use punctual_core::shard::event::Token;
use punctual_core::shard::write::{JobWrite, ScheduleWrite, Void, Write};
use punctual_core::{JobId, ScheduleId, Span, Timestamp};

use crate::calendars::calendars;
use crate::history::{Fact, History};

pub(super) type Found = Vec<(Option<JobId>, String)>;

/// One definition of a schedule, for the slots after `since` and up to `until`.
pub(super) struct Period {
    pub(super) plan: Plan,
    pub(super) seed: u64,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
}

pub(super) struct ScheduleFacts {
    pub(super) is_paused: bool,
    pub(super) periods: Vec<Period>,
    pub(super) rows: BTreeMap<Timestamp, OccurrenceRow>,
    pub(super) max_runs: Vec<Option<u32>>,
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

/// No schedule runs more often than its `max_runs` allows.
pub(super) fn runs_are_counted(history: &History) -> Found {
    let mut found = Vec::new();
    for (id, facts) in schedule_facts(history) {
        let max = facts.max_runs.iter().copied().collect::<Option<Vec<u32>>>().and_then(|all| all.into_iter().max());
        let fired = facts.rows.values().filter(|row| row.verdict == Verdict::Fired && !row.marks.has(Marks::MANUAL));
        let fired = fired.count() as u32;
        if max.is_some_and(|max| fired > max) {
            found.push((None, format!("{id} fired {fired} times, more than {max:?}")));
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
