//! What a calendar closes does not fire, and what it does not close is not closed.

use std::collections::BTreeMap;

use punctual_core::schedule::{Marks, ScheduleSpec, Verdict};
use punctual_core::shard::write::Write;
use punctual_core::{JobId, ScheduleId, Span, Timestamp};

use super::schedules::is_void;
use crate::history::{Fact, History};

/// A server may know of a change so much later: it looks every few seconds, and may be paused in between. It then
/// counts as soon as no verdict of the schedule is on its way.
const KNOWN_WITHIN: Span = Span::from_secs(60);

/// From each verdict's decision until the store took it.
type UnderWay = BTreeMap<ScheduleId, Vec<(Timestamp, Timestamp)>>;

pub(super) fn calendars_are_obeyed(history: &History) -> Vec<(Option<JobId>, String)> {
    // Open at first.
    let mut changes: Vec<(Timestamp, bool)> = vec![(Timestamp::EPOCH, false)];
    let mut obeys: BTreeMap<ScheduleId, bool> = BTreeMap::new();
    let has_calendar = |spec: &str| {
        let spec: ScheduleSpec = serde_json::from_str(spec).expect("the clients make good specs");
        !spec.calendars.is_empty()
    };
    let mut found = Vec::new();
    let under_way = under_way(history);
    for (at, fact) in history.iter() {
        let (batch, void) = match fact {
            Fact::Took { batch, void } => (batch, void),
            Fact::Calendar { is_closed } => {
                changes.push((at, *is_closed));
                continue;
            }
            _ => continue,
        };
        for write in batch.writes.iter().filter(|write| !is_void(write, void)) {
            match write {
                Write::AddSchedule(row) => _ = obeys.insert(row.id, has_calendar(&row.edit.spec)),
                Write::EditSchedule { id, edit, .. } => _ = obeys.insert(*id, has_calendar(&edit.spec)),
                Write::Decide(decision) => {
                    let row = &decision.occurrence;
                    let obeys = obeys.get(&row.schedule) == Some(&true);
                    let busy = under_way.get(&row.schedule).map_or(&[][..], Vec::as_slice);
                    let was = |closed: bool| was(&changes, row.decided_at, closed, busy);
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

fn under_way(history: &History) -> UnderWay {
    let mut under_way = UnderWay::new();
    for (at, fact) in history.iter() {
        let Fact::Took { batch, .. } = fact else { continue };
        for write in &batch.writes {
            if let Write::Decide(decision) | Write::Release(decision) = write {
                let row = &decision.occurrence;
                under_way.entry(row.schedule).or_default().push((row.decided_at, at));
            }
        }
    }
    under_way.values_mut().for_each(|spans| spans.sort_unstable());
    under_way
}

/// Whether it was so at any moment that a server may have known of last.
fn was(changes: &[(Timestamp, bool)], decided_at: Timestamp, closed: bool, busy: &[(Timestamp, Timestamp)]) -> bool {
    let ends = changes.iter().skip(1).map(|(at, _)| *at).chain([Timestamp::MAX]);
    let spans = changes.iter().zip(ends);
    let is_near = |from: Timestamp, to: Timestamp| {
        from <= decided_at && (to + KNOWN_WITHIN >= decided_at || is_busy(busy, to + KNOWN_WITHIN, decided_at))
    };
    spans.into_iter().any(|((from, is_closed), to)| *is_closed == closed && is_near(*from, to))
}

/// Whether some verdict was on its way all the time in between.
fn is_busy(busy: &[(Timestamp, Timestamp)], from: Timestamp, until: Timestamp) -> bool {
    let mut known = from;
    for (begin, end) in busy {
        if *begin > known {
            break;
        }
        known = known.max(*end);
    }
    known >= until
}
