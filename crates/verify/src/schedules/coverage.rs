//! What a run really came to: a check that nothing ever met says nothing.

use std::collections::BTreeMap;

use comfy_table::Table;
use punctual_core::schedule::Overlap;

use super::check::facts_by_schedule;
use super::nemesis::ServerFault;
use super::record::{Record, Row};
use super::users::Tally;
use crate::clock::Moment;

/// Later than this, a time that is fired in turn has waited.
const WAITED_US: i64 = 200_000;

/// What there was, by name.
pub(super) type Coverage = BTreeMap<&'static str, usize>;

pub(super) fn coverage(record: &Record, faults: &[(ServerFault, Moment, Moment)], tally: Tally) -> Coverage {
    let mut counts = Coverage::new();
    for fault in ServerFault::ALL {
        counts.insert(fault.name(), faults.iter().filter(|(done, _, _)| *done == fault).count());
    }
    let edited_in_trouble = record.schedules.iter().flat_map(|schedule| &schedule.changes).filter(|change| {
        change.kind == "edited" && record.broken.iter().any(|(from, to)| (from..=to).contains(&&change.at_us))
    });
    counts.extend([
        ("edits", tally.edits),
        ("edits while something was broken", edited_in_trouble.count()),
        ("pauses", tally.pauses),
        ("skips", tally.skips),
        ("runs by hand", tally.runs),
        ("calls without an answer", tally.unanswered),
        ("jobs", record.jobs.len()),
        ("jobs cancelled for the next one", record.jobs.iter().filter(|job| job.state == "cancelled").count()),
        ("jobs with a second attempt", record.jobs.iter().filter(|job| job.attempts > 1).count()),
    ]);
    let mut count = |name, holds: bool| *counts.entry(name).or_default() += usize::from(holds);
    for facts in facts_by_schedule(record) {
        let policy = facts.schedule.policy;
        for row in &facts.schedule.rows {
            let has = |verdict: &str| row.verdict == verdict;
            count("planned times", !row.has("manual"));
            count("fired", has("fired"));
            count("fired late", row.has("late") && !row.has("replayed"));
            count("fired after waiting for the run before", waited(row, policy.overlap));
            count("skipped for a run", has("skipped_overlap"));
            count("skipped for a pause", has("skipped_paused"));
            count("skipped by request", has("skipped_by_request"));
            count("missed", has("missed"));
            let is_replayed = row.has("replayed") && has("fired");
            count("replayed", is_replayed);
            count("replayed in turn", is_replayed && policy.overlap != Overlap::Allow);
        }
    }
    counts
}

fn waited(row: &Row, overlap: Overlap) -> bool {
    let is_in_turn = overlap != Overlap::Allow && row.verdict == "fired";
    is_in_turn && !row.has("replayed") && !row.has("manual") && row.late_us() > WAITED_US
}

/// What a full run has to come to and did not. Second attempts are as rare as they should be.
pub(super) fn never_hit(coverage: &Coverage) -> Vec<&'static str> {
    let is_optional = |name: &str| name == "jobs with a second attempt";
    coverage.iter().filter(|(name, count)| **count == 0 && !is_optional(name)).map(|(name, _)| *name).collect()
}

pub(super) fn table(coverage: &Coverage) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    for (name, count) in coverage {
        table.add_row([format!("  {name}"), count.to_string()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_hit_is_named() {
        let nothing = coverage(&Record::default(), &[], Tally::default());
        assert!(never_hit(&nothing).contains(&"all servers killed") && never_hit(&nothing).contains(&"edits"));
        let now = Moment::now();
        let some =
            coverage(&Record::default(), &[(ServerFault::KillAll, now, now)], Tally { edits: 1, ..Tally::default() });
        assert!(!never_hit(&some).contains(&"all servers killed") && !never_hit(&some).contains(&"edits"));
    }
}
