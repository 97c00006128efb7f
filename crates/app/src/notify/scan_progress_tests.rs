use punctual_core::ShardId;

use super::super::event::EventKind;
use super::*;

const LIMIT: Span = Span::from_secs(60);

fn at(secs: i64) -> Timestamp {
    Timestamp::EPOCH + Span::from_secs(100_000 + secs)
}

fn started(due: i64, start: i64, count: u32) -> Event {
    Event {
        kind: EventKind::Late,
        at: at(start),
        task: None,
        job: None,
        planned: None,
        count,
        lateness: Some(at(start).since(at(due))),
        is_waiting: false,
    }
}

fn end(secs: i64) -> End {
    End { upto: at(secs), job: None }
}

/// Looks every two seconds from second 2 to 100; the one at 72 told of something.
fn progress() -> ScanProgress {
    let mut progress = ScanProgress::begin(at(-60));
    for now in (2..=100).step_by(2) {
        progress.look(end(now - 60), at(now), now == 72);
    }
    progress
}

#[test]
fn a_late_start_is_told_unless_the_job_was_told_while_it_waited() {
    let told = |due, start| progress().was_told(&started(due, start, 1), LIMIT);
    assert!(told(10, 90), "it was told at 72");
    assert!(told(10, 73), "however shortly after that it started");
    assert!(!told(10, 71), "it ran at 72");
    assert!(!told(-61, 90), "it was late before the rule looked");
    assert!(!told(50, 115), "nobody has looked so far");
}

#[test]
fn whoever_goes_on_from_what_is_stored_knows_what_was_told() {
    let json = serde_json::to_string(&progress()).unwrap();
    let mut stored: ScanProgress = serde_json::from_str(&json).unwrap();
    assert_eq!(stored, progress());
    // Nobody looked between 100 and 200.
    stored.look(end(140), at(200), true);
    let told = |due, start| stored.was_told(&started(due, start, 1), LIMIT);
    assert!(told(10, 90) && told(10, 150) && told(10, 300), "it was told by somebody else");
    assert!(!told(70, 150), "it was late and started while nobody looked");
    assert!(told(70, 201), "it still waited at 200");
}

#[test]
fn many_that_started_together_were_told_if_all_of_them_were() {
    let told = |due, start| progress().was_told(&started(due, start, 7), LIMIT);
    assert!(told(10, 99));
    assert!(!told(10, 74), "some of them may have waited for no longer than the limit");
    assert!(!told(-60, 99), "the first of them may have been late when the rule began");
    assert!(!told(10, 130), "nobody has looked so far");
}

#[test]
fn of_jobs_that_are_due_at_once_those_up_to_the_last_one_were_told() {
    let ids = [1, 2].map(|number| JobId::new(at(10), ShardId(0), number));
    let mut progress = ScanProgress::begin(at(0));
    progress.look(End { upto: at(10), job: Some(ids[0]) }, at(72), true);
    let told = |job| progress.was_told(&Event { job: Some(job), ..started(10, 80, 1) }, LIMIT);
    assert_eq!(ids.map(told), [true, false]);
}

#[test]
fn what_is_remembered_of_looks_is_bounded_and_is_what_told_of_something() {
    let mut progress = ScanProgress::begin(at(0));
    for now in 0..10_000 {
        progress.look(end(now), at(now), now % 100 == 0);
    }
    assert_eq!(progress.looks.len(), LOOKS_MAX);
    assert!(serde_json::to_string(&progress).unwrap().len() < 3 << 10);
    let idle = progress.looks.iter().filter(|look| !look.has_told).count();
    assert_eq!(idle, LOOKS_IDLE);
}

#[test]
fn a_clock_that_went_back_does_not_take_anything_for_told() {
    let mut progress = progress();
    progress.look(end(-40), at(20), false);
    assert_eq!(progress.end(), end(40), "what was passed stays so");
    assert!(!progress.was_told(&started(30, 19, 1), LIMIT));
}

#[test]
fn what_an_earlier_version_wrote_is_read() {
    let json = format!(r#"{{"upto":"{}","since":"{}","looked_at":"x"}}"#, at(40), at(-10));
    let read: ScanProgress = serde_json::from_str(&json).unwrap();
    assert_eq!(read, ScanProgress { from: at(-10), end: end(40), looks: vec![] });
}
