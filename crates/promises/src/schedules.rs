//! Every planned time has its line in the ledger, every line its job, and runs do not overlap.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::Timestamp;
use punctual_core::schedule::{SourceKind, Verdict};

use crate::{LedgerLine, NeedOfLine, PlannedTime, ScheduleHistory, ScheduledRun, Violation};

/// A promise about one schedule. Says all that was not kept.
pub(crate) type OfSchedule = fn(&ScheduleHistory) -> Vec<String>;

pub(crate) const OF_SCHEDULE: [(&str, OfSchedule); 6] = [
    ("every planned time has one line", every_planned_time_has_one_line),
    ("nothing else has a line", nothing_else_has_a_line),
    ("nothing waits at the end", nothing_waits_at_the_end),
    ("a time makes one job", a_time_makes_one_job),
    ("lines and jobs agree", lines_and_jobs_agree),
    ("runs of a schedule do not overlap", runs_do_not_overlap),
];

/// Judges schedules by all promises about them.
pub fn check_schedules(schedules: &[ScheduleHistory]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for schedule in schedules {
        for (promise, judge) in OF_SCHEDULE {
            let violation = |text| Violation { promise, subject: Some(schedule.name.clone()), text };
            violations.extend(judge(schedule).into_iter().map(violation));
        }
    }
    violations
}

fn planned_lines(schedule: &ScheduleHistory) -> impl Iterator<Item = &LedgerLine> {
    schedule.lines.iter().filter(|line| line.kind != SourceKind::Manual)
}

/// The times that a line stands for.
fn covered(schedule: &ScheduleHistory, line: &LedgerLine) -> Vec<Timestamp> {
    if !line.is_stretch {
        return vec![line.at];
    }
    let definition = schedule.planned.iter().find(|time| time.at == line.at).map(|time| time.definition);
    let times = schedule.planned.iter().filter(|time| Some(time.definition) == definition);
    let mut times: Vec<&PlannedTime> = times.collect();
    // Missed times are counted in the order in which they were to start.
    times.sort_by_key(|time| (time.start, time.at));
    let from = times.into_iter().skip_while(|time| time.at != line.at);
    from.take(line.count as usize).map(|time| time.at).collect()
}

fn every_planned_time_has_one_line(schedule: &ScheduleHistory) -> Vec<String> {
    let mut lines: BTreeMap<Timestamp, usize> = BTreeMap::new();
    for at in planned_lines(schedule).flat_map(|line| covered(schedule, line)) {
        *lines.entry(at).or_default() += 1;
    }
    let required = schedule.planned.iter().filter(|time| time.line == NeedOfLine::Required);
    let missing = required.filter(|time| !lines.contains_key(&time.at));
    let missing = missing.map(|time| format!("{} was planned, to start at {}, and has no line", time.at, time.start));
    let several = lines.iter().filter(|(_, count)| **count > 1);
    missing.chain(several.map(|(at, count)| format!("{at} has {count} lines"))).collect()
}

/// How many times a line stands for is not judged if the source does not count the times that fall on one instant.
fn nothing_else_has_a_line(schedule: &ScheduleHistory) -> Vec<String> {
    let mut possible: BTreeMap<Timestamp, Vec<&PlannedTime>> = BTreeMap::new();
    for time in schedule.planned.iter().filter(|time| time.line != NeedOfLine::Forbidden) {
        possible.entry(time.at).or_default().push(time);
    }
    let wrong = |line: &LedgerLine| {
        let (at, verdict) = (line.at, line.verdict.as_str());
        let Some(times) = possible.get(&at) else {
            return Some(format!("{at} was never planned and is on record as {verdict}"));
        };
        if times.iter().all(|time| time.start != line.start) {
            return Some(format!("{at} was to start at {} and not at {}", times[0].start, line.start));
        }
        let is_miscounted = times.iter().all(|time| time.count.is_some_and(|count| line.count > count));
        (is_miscounted && !line.is_stretch).then(|| format!("{at} stands for {} times and should not", line.count))
    };
    planned_lines(schedule).filter_map(wrong).collect()
}

fn nothing_waits_at_the_end(schedule: &ScheduleHistory) -> Vec<String> {
    let waiting = schedule.lines.iter().filter(|line| line.verdict == Verdict::Queued && !line.may_wait);
    waiting.map(|line| format!("{} still waits", line.at)).collect()
}

fn a_time_makes_one_job(schedule: &ScheduleHistory) -> Vec<String> {
    let mut made = BTreeMap::new();
    let again = schedule.jobs.iter().filter_map(|job| Some((made.insert(job.at, &job.id)?, job)));
    again.map(|(first, job)| format!("{} made {first} and {}", job.at, job.id)).collect()
}

/// A time that fired has one job, which exists and stands for it, and no other line has one. Every job is on a line.
fn lines_and_jobs_agree(schedule: &ScheduleHistory) -> Vec<String> {
    let jobs: BTreeMap<&str, _> = schedule.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    let (mut wrong, mut on_record) = (Vec::new(), BTreeSet::new());
    for line in &schedule.lines {
        let at = line.at;
        let id = match (&line.job, line.verdict) {
            (None, Verdict::Fired) => {
                wrong.push(format!("{at} fired without a job"));
                continue;
            }
            (Some(id), Verdict::Fired) => id.as_str(),
            (Some(id), verdict) => {
                wrong.push(format!("{at} is {} and has {id}", verdict.as_str()));
                continue;
            }
            (None, _) => continue,
        };
        let Some(job) = jobs.get(id).filter(|job| job.exists) else {
            wrong.push(format!("{at} fired and its {id} does not exist"));
            continue;
        };
        on_record.insert(id);
        if job.at != at {
            wrong.push(format!("{at} fired as {id}, which is of {}", job.at));
        }
        if job.kind != line.kind {
            wrong.push(format!("{at} fired as {id}, which is {} and not {}", job.kind.as_str(), line.kind.as_str()));
        }
        if job.due_at < line.start && line.kind != SourceKind::Manual {
            wrong.push(format!("{at} fired as {id}, which was due before {}", line.start));
        }
    }
    let unrecorded = schedule.jobs.iter().filter(|job| !on_record.contains(job.id.as_str()));
    wrong.extend(unrecorded.map(|job| format!("{} of {} is on no line", job.id, job.at)));
    wrong
}

fn runs_do_not_overlap(schedule: &ScheduleHistory) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut open: Vec<&ScheduledRun> = Vec::new();
    for later in &schedule.runs {
        open.retain(|earlier| earlier.to.is_none_or(|to| to > later.from));
        let is_in_the_way = |earlier: &&&ScheduledRun| earlier.job != later.job && !earlier.is_lost;
        if let Some(earlier) = open.iter().find(is_in_the_way)
            && !later.may_join
            && !later.is_lost
        {
            wrong.push(format!("{} began while {} ran", later.job, earlier.job));
        }
        open.push(later);
    }
    wrong
}
