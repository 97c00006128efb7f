use punctual_core::{JobId, ScheduleId, ShardId};

use super::*;

fn row(verdict: Verdict, marks: Marks, late_ms: i64, reason: Option<&str>) -> OccurrenceRow {
    let at = Timestamp::parse("2026-11-15T02:00:00Z").unwrap();
    OccurrenceRow {
        schedule: ScheduleId::new(at, ShardId(1), 7),
        at,
        slot: at,
        verdict,
        decided_at: at + Span::from_millis(late_ms),
        marks,
        count: 1,
        job: (verdict == Verdict::Fired).then(|| JobId::new(at, ShardId(1), 9)),
        started_at: None,
        reason: reason.map(str::to_owned),
        requested_by: None,
    }
}

fn started(row: OccurrenceRow, late_ms: i64) -> OccurrenceRow {
    OccurrenceRow { started_at: Some(row.slot + Span::from_millis(late_ms)), ..row }
}

#[test]
fn every_verdict_has_a_sentence_of_its_own() {
    let job = JobId::new(Timestamp::parse("2026-11-15T02:00:00Z").unwrap(), ShardId(1), 9);
    for (occurrence, expected) in [
        (row(Verdict::Fired, Marks::NONE, 3, None), format!("fired as {job}, on time")),
        (row(Verdict::Fired, Marks::LATE, 90_500, None), format!("fired as {job}, 1m 30s late")),
        (started(row(Verdict::Fired, Marks::LATE, 3, None), 9_004), format!("fired as {job}, 9s 4ms late")),
        (started(row(Verdict::Fired, Marks::NONE, 3, None), 9_004), format!("fired as {job}, 9s 4ms after its time")),
        (row(Verdict::Fired, Marks::NONE, 9_004, None), format!("fired as {job}, 9s 4ms after its time")),
        (
            started(row(Verdict::Fired, Marks::REPLAYED.with(Marks::LATE), 3_600_000, None), 3_660_000),
            format!("fired as {job} 1h 1m after its time, because no server handled it in time"),
        ),
        (
            row(Verdict::Fired, Marks::REPLAYED, 3_600_000, None),
            format!("fired as {job} 1h after its time, because no server handled it in time"),
        ),
        (row(Verdict::Fired, Marks::MANUAL, 0, None), format!("fired as {job}, because somebody asked for it")),
        (
            OccurrenceRow { requested_by: Some("user:ana".to_owned()), ..row(Verdict::Fired, Marks::MANUAL, 0, None) },
            format!("fired as {job}, because user:ana asked for it"),
        ),
        (
            row(Verdict::Fired, Marks::SHIFTED, 0, None),
            format!("fired as {job}, on time; the clocks left its time out, so it came right after the gap"),
        ),
        (
            OccurrenceRow {
                slot: row(Verdict::Fired, Marks::NONE, 41_200, None).decided_at,
                ..row(Verdict::Fired, Marks::NONE, 41_203, None)
            },
            format!("fired as {job}, on time; jitter delayed it by 41s"),
        ),
        (row(Verdict::Queued, Marks::NONE, 0, None), "waits for the run before it to end".to_owned()),
        (
            row(Verdict::Queued, Marks::REPLAYED, 0, None),
            "waits for the run before it to end; no server handled it in time".to_owned(),
        ),
        (
            row(Verdict::SkippedOverlap, Marks::REPLAYED, 0, Some("a later time took its place")),
            "did not run: a later time took its place; no server handled it in time".to_owned(),
        ),
        (
            row(Verdict::SkippedOverlap, Marks::NONE, 0, Some("job_x of 02:00 had not ended")),
            "did not run: job_x of 02:00 had not ended".to_owned(),
        ),
        (row(Verdict::SkippedOverlap, Marks::NONE, 0, None), "did not run: a run before it had not ended".to_owned()),
        (row(Verdict::SkippedPaused, Marks::NONE, 0, None), "did not run: the schedule was paused".to_owned()),
        (row(Verdict::SkippedCalendar, Marks::NONE, 0, None), "did not run: a calendar closes its date".to_owned()),
        (row(Verdict::SkippedGap, Marks::NONE, 0, None), "did not run: the clocks left its time out".to_owned()),
        (row(Verdict::SkippedByRequest, Marks::NONE, 0, None), "did not run: somebody asked to skip it".to_owned()),
        (row(Verdict::Missed, Marks::NONE, 0, None), "was missed: no server handled it in time".to_owned()),
        (
            OccurrenceRow { count: 86_400, ..row(Verdict::Missed, Marks::STRETCH, 0, None) },
            "86400 planned times from here on were missed, because no server was there; they were too many for a \
             line each"
                .to_owned(),
        ),
        (
            OccurrenceRow { count: 3, ..row(Verdict::Missed, Marks::MOVED, 0, None) },
            "was missed: no server handled it in time; a calendar moved it to a business day; it stands for 3 planned \
             times"
                .to_owned(),
        ),
    ] {
        assert_eq!(super::occurrence(&occurrence, None), expected);
    }
}

#[test]
fn a_run_that_has_not_started_is_never_on_time() {
    let job = JobId::new(Timestamp::parse("2026-11-15T02:00:00Z").unwrap(), ShardId(1), 9);
    let waiting = |marks: Marks| {
        let row = row(Verdict::Fired, marks, 3, None);
        super::occurrence(&row, Some(row.slot + Span::from_secs(90)))
    };
    let since = format!("fired as {job}; waiting to start since 2026-11-15T02:00:00.000000Z");
    assert_eq!(waiting(Marks::NONE), since);
    assert_eq!(waiting(Marks::LATE), format!("{since}, late by 1m 30s"));
    assert_eq!(waiting(Marks::LATE.with(Marks::REPLAYED)), format!("{since}, late by 1m 30s"));
}
