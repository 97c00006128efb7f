//! What a calendar closes does not fire, and what it does not close is not closed.

use std::collections::BTreeMap;

use punctual_core::schedule::{Marks, ScheduleSpec, Verdict};
use punctual_core::shard::write::{ScheduleWrite, Write};
use punctual_core::{JobId, ScheduleId, Span, Timestamp};

use super::schedules::is_void;
use crate::history::{Fact, History};

/// A server may know of a change so much later: it looks every few seconds, and may be paused in between. It counts
/// from then on, however slow the store is.
const KNOWN_WITHIN: Span = Span::from_secs(60);

pub(super) fn calendars_are_obeyed(history: &History) -> Vec<(Option<JobId>, String)> {
    // Open at first.
    let mut changes: Vec<(Timestamp, bool)> = vec![(Timestamp::EPOCH, false)];
    let mut obeys: BTreeMap<ScheduleId, bool> = BTreeMap::new();
    let has_calendar = |spec: &str| {
        let spec: ScheduleSpec = serde_json::from_str(spec).expect("the clients make good specs");
        !spec.calendars.is_empty()
    };
    let mut found = Vec::new();
    for (at, fact) in history.iter() {
        let (batch, void) = match fact {
            Fact::Committed { batch, void } => (batch, void),
            Fact::Calendar { is_closed } => {
                changes.push((at, *is_closed));
                continue;
            }
            _ => continue,
        };
        for write in batch.writes.iter().filter(|write| !is_void(write, void)) {
            match write {
                Write::Schedule(ScheduleWrite::Add(row)) => _ = obeys.insert(row.id, has_calendar(&row.edit.spec)),
                Write::Schedule(ScheduleWrite::Edit { id, edit, .. }) => {
                    _ = obeys.insert(*id, has_calendar(&edit.spec))
                }
                Write::Schedule(ScheduleWrite::Decide(decision)) => {
                    let row = &decision.occurrence;
                    let obeys = obeys.get(&row.schedule) == Some(&true);
                    let was = |closed: bool| was(&changes, row.decided_at, at, closed);
                    let is_right = match row.verdict {
                        Verdict::SkippedCalendar => obeys && was(true),
                        Verdict::Fired => !obeys || row.marks.has(Marks::MANUAL) || was(false),
                        _ => true,
                    };
                    if !is_right {
                        found.push((row.job, format!("{} has {:?} for {}", row.schedule, row.verdict, row.at)));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// Whether it was so at any moment that a server may have known of last. Its clock may be behind: what it knew had
/// come about before the store took its verdict.
fn was(changes: &[(Timestamp, bool)], decided_at: Timestamp, taken_at: Timestamp, closed: bool) -> bool {
    let ends = changes.iter().skip(1).map(|(at, _)| *at).chain([Timestamp::MAX]);
    let spans = changes.iter().zip(ends);
    let is_near = |from: Timestamp, to: Timestamp| from <= taken_at && to + KNOWN_WITHIN >= decided_at;
    spans.into_iter().any(|((from, is_closed), to)| *is_closed == closed && is_near(*from, to))
}
