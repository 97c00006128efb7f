//! What has to become of the missed times of one schedule, to the microsecond.

use punctual_core::schedule::Overlap;

use crate::schedules::record::{Row, ScheduleRecord, ScheduledJob};

/// After the server was started again, until it has decided about what was missed.
const BACK_WITHIN_US: i64 = 10_000_000;
/// In turn, the next run is chosen when the one before has ended and that is durable.
const IN_TURN_WITHIN_US: i64 = 2_000_000;

/// What was not decided about in the turn of the first, because there was too much, is in one soon after.
const NEXT_TURN_WITHIN_US: i64 = 1_000_000;

/// The time in which no server ran.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    pub(super) killed_us: i64,
    pub(super) started_us: i64,
    pub(super) missed_after_us: i64,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CatchUpResult {
    pub(super) missed: u64,
    pub(super) replayed: usize,
    pub(super) stretches: usize,
    /// From the start of the server to its decision.
    pub(super) decided_after_us: i64,
    pub(super) wrong: Vec<String>,
}

pub(super) fn expect(
    schedule: &ScheduleRecord,
    jobs: &[&ScheduledJob],
    is_paused: bool,
    outage: Outage,
) -> CatchUpResult {
    let mut result = CatchUpResult::default();
    let is_given_up = |row: &&Row| row.verdict == "missed" || row.has("replayed");
    let mut given_up: Vec<&Row> = schedule.rows.iter().filter(is_given_up).collect();
    given_up.sort_by_key(|row| (row.start_us, row.at_us));
    if is_paused {
        if !given_up.is_empty() {
            result.wrong.push("it was paused, and times are on record as missed".to_owned());
        }
        return result;
    }
    let Some(decided_us) = given_up.iter().map(|row| row.decided_us).min() else {
        result.wrong.push("nothing was missed".to_owned());
        return result;
    };
    result.decided_after_us = decided_us - outage.started_us;
    if !(0..BACK_WITHIN_US).contains(&result.decided_after_us) {
        result.wrong.push(format!("decided {} us after the start", result.decided_after_us));
    }
    let (replayed, missed): (Vec<&Row>, Vec<&Row>) = given_up.iter().partition(|row| row.has("replayed"));
    result.missed = missed.iter().map(|row| u64::from(row.count)).sum();
    result.replayed = replayed.len();
    result.stretches = missed.iter().filter(|row| row.has("stretch")).count();
    // Where runs may not meet, the first one runs when what is older is on record.
    let chosen_us = match schedule.policy.overlap {
        Overlap::Allow => decided_us,
        Overlap::Skip | Overlap::QueueOne | Overlap::QueueAll | Overlap::CancelPrevious => {
            replayed.iter().map(|row| row.decided_us).min().unwrap_or(decided_us)
        }
    };
    all_of_the_downtime(schedule, decided_us, chosen_us, outage, &mut result);
    let missed_before_us = decided_us - outage.missed_after_us;
    let (at_first, later): (Vec<&Row>, Vec<&Row>) = given_up.iter().partition(|row| row.start_us < missed_before_us);
    let spent = the_latest_within_the_budget(schedule, &at_first, chosen_us, &mut result);
    what_is_left_of_the_budget(schedule, &later, spent, &mut result);
    at_the_pace(schedule, jobs, &replayed, chosen_us, &mut result);
    result
}

/// What was to start while nobody was there, and long enough ago, was missed; all else was not.
fn all_of_the_downtime(
    schedule: &ScheduleRecord,
    decided_us: i64,
    chosen_us: i64,
    outage: Outage,
    result: &mut CatchUpResult,
) {
    let missed_before_us = decided_us - outage.missed_after_us;
    for row in &schedule.rows {
        let was_missed = row.verdict == "missed" || row.has("replayed");
        let must_be = (outage.killed_us..missed_before_us).contains(&row.start_us);
        if must_be && !was_missed {
            result.wrong.push(format!("{} is {} although nobody was there", row.at_us, row.verdict));
        }
        let is_chosen_later = row.has("replayed") && schedule.policy.overlap != Overlap::Allow;
        // One that waited for its turn was decided about again when that came.
        let first_us = if is_chosen_later { chosen_us + NEXT_TURN_WITHIN_US } else { row.decided_us };
        if was_missed && row.start_us >= first_us.min(row.decided_us) - outage.missed_after_us {
            result.wrong.push(format!("{} was not late enough to be missed", row.at_us));
        }
        // What was late is missed if it is still not decided about a turn later.
        let latest_us = if row.start_us < missed_before_us { chosen_us } else { chosen_us + NEXT_TURN_WITHIN_US };
        if was_missed && !(decided_us..=latest_us).contains(&row.decided_us) && !is_chosen_later {
            result.wrong.push(format!("{} was decided about by itself", row.at_us));
        }
    }
}

/// Answers how many were to run.
fn the_latest_within_the_budget(
    schedule: &ScheduleRecord,
    missed: &[&Row],
    chosen_us: i64,
    result: &mut CatchUpResult,
) -> usize {
    let oldest_us = chosen_us - schedule.policy.window_us;
    let young = missed.iter().filter(|row| row.start_us >= oldest_us && !row.has("stretch")).count();
    let expected = young.min(schedule.policy.budget());
    let from = missed.len() - expected;
    for (place, row) in missed.iter().enumerate() {
        if row.has("replayed") != (place >= from) {
            result.wrong.push(format!("{} of {} missed, {expected} are to run: not so", place + 1, missed.len()));
        }
    }
    expected
}

/// What is missed a turn later shares the budget.
fn what_is_left_of_the_budget(schedule: &ScheduleRecord, later: &[&Row], spent: usize, result: &mut CatchUpResult) {
    let expected = later.len().min(schedule.policy.budget() - spent);
    let ran = later.iter().filter(|row| row.has("replayed")).count();
    if ran != expected {
        result.wrong.push(format!("{ran} of {} that were missed a turn later ran, and not {expected}", later.len()));
    }
}

/// Times that were decided about and not covered by a watermark when the server was killed, at most.
const DECIDED_BEFORE_MAX: i64 = 2;

fn at_the_pace(
    schedule: &ScheduleRecord,
    jobs: &[&ScheduledJob],
    replayed: &[&Row],
    chosen_us: i64,
    result: &mut CatchUpResult,
) {
    let pause_us = schedule.policy.pause_us();
    let mut earliest_us = chosen_us;
    for (place, row) in replayed.iter().enumerate() {
        let Some(job) = jobs.iter().find(|job| Some(&job.id) == row.job.as_ref()) else {
            result.wrong.push(format!("{} ran without a job", row.at_us));
            continue;
        };
        if schedule.policy.overlap == Overlap::Allow {
            earliest_us = earliest_us.max(row.decided_us);
        }
        let latest_us = match schedule.policy.overlap {
            // The last times before the crash may be on record without a watermark. They take their turns, and the
            // store leaves them out.
            _ if place == 0 => earliest_us + DECIDED_BEFORE_MAX * pause_us,
            Overlap::Allow => earliest_us,
            Overlap::Skip | Overlap::QueueOne | Overlap::QueueAll | Overlap::CancelPrevious => {
                earliest_us + IN_TURN_WITHIN_US
            }
        };
        if !(earliest_us..=latest_us).contains(&job.due_us) {
            let late_us = job.due_us - earliest_us;
            result.wrong.push(format!("replay {} was due {late_us} us after its turn", place + 1));
        }
        if job.kind != "replayed" || job.at_us != row.at_us {
            result.wrong.push(format!("{} does not say that it was replayed for {}", job.id, row.at_us));
        }
        earliest_us = job.due_us + pause_us;
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::schedule::CatchUpMode;

    use super::*;
    use crate::schedules::definition::{Definition, Policy};

    const SECOND: i64 = 1_000_000;
    const OUTAGE: Outage = Outage { killed_us: 10 * SECOND, started_us: 40 * SECOND, missed_after_us: 2 * SECOND };
    const DECIDED_US: i64 = 41 * SECOND + 500_000;

    /// Every second from 0 to 60; of those that were missed the latest `run` ran.
    fn schedule(mode: CatchUpMode, run: i64) -> (ScheduleRecord, Vec<ScheduledJob>) {
        let policy = Policy {
            overlap: Overlap::Allow,
            mode,
            max: 5,
            window_us: 20 * SECOND,
            per_minute: 60,
            late_after_us: None,
            missed_after_us: None,
        };
        let definition =
            Definition { beats: Vec::new(), zone: "UTC".to_owned(), jitter_us: 0, end_us: 60 * SECOND, sleep_ms: 0 };
        let (mut rows, mut jobs) = (Vec::new(), Vec::new());
        for second in 0..60 {
            let at_us = second * SECOND;
            let was_missed = (10..40).contains(&second);
            let runs = second >= 40 - run;
            let decided_us = if was_missed { DECIDED_US } else { at_us };
            rows.push(Row {
                at_us,
                start_us: at_us,
                verdict: if was_missed && !runs { "missed" } else { "fired" }.to_owned(),
                decided_us,
                job: (!was_missed || runs).then(|| format!("job_{second}")),
                marks: if was_missed && runs { vec!["replayed".to_owned()] } else { Vec::new() },
                count: 1,
            });
            jobs.push(ScheduledJob {
                id: format!("job_{second}"),
                schedule: "schedule_1".to_owned(),
                at_us,
                kind: if was_missed { "replayed" } else { "planned" }.to_owned(),
                state: "succeeded".to_owned(),
                submitted_us: decided_us,
                due_us: if was_missed { decided_us + (second - 40 + run) * SECOND } else { at_us },
                finished_us: Some(decided_us),
                attempts: 1,
                server: None,
                was_lost: false,
            });
        }
        let schedule = ScheduleRecord {
            name: "some".to_owned(),
            id: "schedule_1".to_owned(),
            policy,
            definitions: vec![definition],
            created_us: 0,
            changes: Vec::new(),
            rows_again: rows.clone(),
            rows,
        };
        (schedule, jobs)
    }

    fn wrong(
        mode: CatchUpMode,
        run: i64,
        spoil: impl FnOnce(&mut ScheduleRecord, &mut Vec<ScheduledJob>),
    ) -> Vec<String> {
        let (mut schedule, mut jobs) = schedule(mode, run);
        spoil(&mut schedule, &mut jobs);
        expect(&schedule, &jobs.iter().collect::<Vec<_>>(), false, OUTAGE).wrong
    }

    fn as_it_is(_: &mut ScheduleRecord, _: &mut Vec<ScheduledJob>) {}

    #[test]
    fn each_mode_runs_as_many_as_it_says_and_no_more_or_less() {
        for (mode, run) in [(CatchUpMode::None, 0), (CatchUpMode::Last, 1), (CatchUpMode::All, 5)] {
            assert_eq!(wrong(mode, run, as_it_is), Vec::<String>::new());
            assert!(!wrong(mode, run + 1, as_it_is).is_empty(), "{mode:?}");
            assert!(run == 0 || !wrong(mode, run - 1, as_it_is).is_empty(), "{mode:?}");
        }
    }

    #[test]
    fn a_window_leaves_out_what_is_older() {
        let window = |seconds: i64| {
            move |schedule: &mut ScheduleRecord, _: &mut Vec<ScheduledJob>| {
                (schedule.policy.window_us, schedule.policy.max) = (seconds * SECOND, 1000);
            }
        };
        assert_eq!(wrong(CatchUpMode::All, 6, window(8)), Vec::<String>::new());
        assert!(!wrong(CatchUpMode::All, 6, window(7)).is_empty());
        assert!(!wrong(CatchUpMode::All, 6, window(9)).is_empty());
    }

    /// Second 40 was late when the others were decided about, and is missed a moment later.
    fn one_more(run: bool) -> impl FnOnce(&mut ScheduleRecord, &mut Vec<ScheduledJob>) {
        move |schedule: &mut ScheduleRecord, jobs: &mut Vec<ScheduledJob>| {
            let row = &mut schedule.rows[40];
            row.decided_us = 42 * SECOND + 3400;
            if run {
                row.marks = vec!["replayed".to_owned()];
                (jobs[40].kind, jobs[40].due_us) = ("replayed".to_owned(), jobs[39].due_us + SECOND);
            } else {
                (row.verdict, row.job) = ("missed".to_owned(), None);
            }
        }
    }

    #[test]
    fn what_is_missed_a_moment_later_shares_the_budget() {
        for (mode, run) in [(CatchUpMode::None, 0), (CatchUpMode::Last, 1), (CatchUpMode::All, 5)] {
            assert_eq!(wrong(mode, run, one_more(false)), Vec::<String>::new());
            assert!(!wrong(mode, run, one_more(true)).is_empty(), "{mode:?}");
        }
        let with_room = |run: bool| {
            move |schedule: &mut ScheduleRecord, jobs: &mut Vec<ScheduledJob>| {
                schedule.policy.max = 1000;
                one_more(run)(schedule, jobs);
            }
        };
        // The window is that of the last 20 seconds.
        assert_eq!(wrong(CatchUpMode::All, 18, with_room(true)), Vec::<String>::new());
        assert!(!wrong(CatchUpMode::All, 18, with_room(false)).is_empty());
        let too_soon = |schedule: &mut ScheduleRecord, jobs: &mut Vec<ScheduledJob>| {
            one_more(false)(schedule, jobs);
            schedule.rows[40].decided_us = 42 * SECOND;
        };
        assert!(!wrong(CatchUpMode::None, 0, too_soon).is_empty());
        let too_late = |schedule: &mut ScheduleRecord, jobs: &mut Vec<ScheduledJob>| {
            one_more(false)(schedule, jobs);
            schedule.rows[40].decided_us = 43 * SECOND;
        };
        assert!(!wrong(CatchUpMode::None, 0, too_late).is_empty());
    }

    #[test]
    fn what_is_at_the_wrong_pace_or_time_is_found() {
        assert!(!wrong(CatchUpMode::All, 5, |_, jobs| jobs[37].due_us -= 1).is_empty());
        assert!(!wrong(CatchUpMode::All, 5, |_, jobs| jobs[37].due_us += 1).is_empty());
        assert!(!wrong(CatchUpMode::All, 5, |_, jobs| jobs[37].kind = "planned".to_owned()).is_empty());
        assert!(!wrong(CatchUpMode::All, 5, |schedule, _| schedule.rows[20].decided_us += 1).is_empty());
        let fired =
            |schedule: &mut ScheduleRecord, _: &mut Vec<ScheduledJob>| schedule.rows[20].verdict = "fired".to_owned();
        assert!(!wrong(CatchUpMode::None, 0, fired).is_empty());
        let missed = |schedule: &mut ScheduleRecord, _: &mut Vec<ScheduledJob>| {
            (schedule.rows[40].verdict, schedule.rows[40].decided_us) = ("missed".to_owned(), DECIDED_US);
        };
        assert!(!wrong(CatchUpMode::None, 0, missed).is_empty());
    }
}
