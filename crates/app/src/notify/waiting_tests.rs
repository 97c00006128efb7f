use proptest::collection::vec;
use proptest::prelude::*;
use punctual_core::{JobId, ShardId};

use super::*;

const WINDOW: Span = Span::from_secs(60);

/// Milliseconds into the story.
fn at(millis: i64) -> Timestamp {
    Timestamp::EPOCH + Span::from_secs(1_000_000) + Span::from_millis(millis)
}

fn task(number: u64) -> TaskId {
    TaskId::new(Timestamp::EPOCH, number)
}

fn event(kind: EventKind, task_number: u64, millis: i64) -> Event {
    Event {
        kind,
        at: at(millis),
        task: Some(task(task_number)),
        job: Some(JobId::new(at(millis), ShardId(0), task_number)),
        planned: None,
        count: 1,
        lateness: None,
        is_waiting: false,
    }
}

/// Plays events against a clock that looks every 300 ms, for `until` milliseconds.
fn play(state: &mut RuleState, events: &[Event], until: i64) -> Vec<(i64, Waiting)> {
    let mut sent = Vec::new();
    let mut events = events.iter().peekable();
    for now in (0..until).step_by(300) {
        while let Some(event) = events.next_if(|event| event.at <= at(now)) {
            state.add(event, at(now));
        }
        // As a server does that dies and is followed by another.
        *state = RuleState::read(state.write().as_deref()).unwrap();
        sent.extend(state.take_due(WINDOW, at(now)).map(|waiting| (now, waiting)));
    }
    sent
}

#[test]
fn ten_thousand_failures_in_a_minute_are_two_messages_with_the_right_totals() {
    let events: Vec<Event> = (0..10_000).map(|n| event(EventKind::Failed, n as u64 % 7, n * 6)).collect();
    let mut state = RuleState::default();
    let sent = play(&mut state, &events, 200_000);
    assert_eq!(sent.len(), 2, "{:?}", sent.iter().map(|(at, _)| at).collect::<Vec<_>>());
    assert_eq!(sent.iter().map(|(_, waiting)| waiting.events()).sum::<u64>(), 10_000);
    let (first_at, first) = &sent[0];
    assert!((1000..=1300).contains(first_at), "the first goes out after a second: {first_at}");
    assert!(first.events() > 100, "the begin of the storm is in it: {}", first.events());
    let (second_at, second) = &sent[1];
    assert!(second_at - first_at >= 60_000 && second_at - first_at < 60_600, "{second_at}");
    assert_eq!(second.tasks.len(), 7);
    let by_task: u64 = second.tasks.values().flat_map(Counts::values).sum();
    assert_eq!(by_task, second.events());
    assert!(second.samples.len() <= SAMPLES_MAX);
    assert_eq!(second.last_at, at(9_999 * 6));
    assert_eq!(state.waiting, None);
}

#[test]
fn an_event_after_a_quiet_time_is_sent_after_a_second_and_one_within_the_window_at_its_end() {
    let mut state = RuleState::default();
    let events = [0, 5_000, 59_000, 200_000].map(|millis| event(EventKind::Failed, 1, millis));
    let sent = play(&mut state, &events, 400_000);
    let seen: Vec<(i64, u64)> = sent.iter().map(|(at, waiting)| (*at, waiting.events())).collect();
    assert_eq!(seen, [(1_200, 1), (61_200, 2), (201_000, 1)]);
}

#[test]
fn the_window_is_kept_to_the_last_moment_and_follows_the_rule() {
    let mut state = RuleState { sent_at: Some(at(0)), ..RuleState::default() };
    state.add(&event(EventKind::Lost, 1, 10_000), at(10_000));
    assert_eq!(state.send_at(WINDOW), Some(at(60_000)));
    assert_eq!(state.clone().take_due(WINDOW, at(59_999)), None);
    assert!(state.clone().take_due(WINDOW, at(60_000)).is_some());
    assert_eq!(state.send_at(Span::from_secs(5)), Some(at(11_000)), "a shorter window counts at once");
    assert_eq!(state.send_at(Span::from_secs(3600)), Some(at(3_600_000)));
}

#[test]
fn a_clock_that_went_back_does_not_keep_a_message_for_longer_than_the_window() {
    let mut state = RuleState { sent_at: Some(at(10_000_000)), ..RuleState::default() };
    state.add(&event(EventKind::Failed, 1, 0), at(0));
    assert_eq!(state.send_at(WINDOW), Some(at(61_000)));
}

#[test]
fn an_event_that_is_seen_late_is_not_kept_waiting_for_others() {
    let mut state = RuleState::default();
    state.add(&event(EventKind::Failed, 1, 0), at(50_000));
    assert_eq!(state.send_at(WINDOW), Some(at(50_000)));
    let mut early = RuleState::default();
    early.add(&event(EventKind::Failed, 1, 50_000), at(0));
    assert_eq!(early.send_at(WINDOW), Some(at(1_000)), "the clocks of two servers differ");
}

#[test]
fn beyond_two_hundred_tasks_the_others_are_counted_together() {
    let mut state = RuleState::default();
    for number in 0..500 {
        state.add(&event(EventKind::Failed, number, 0), at(0));
        state.add(&event(EventKind::Missed, number, 0), at(0));
    }
    let waiting = state.waiting.unwrap();
    assert_eq!(waiting.tasks.len(), TASKS_MAX);
    assert_eq!(waiting.events(), 1000);
    let expected: Counts = [(EventKind::Failed, 300), (EventKind::Missed, 300)].into();
    assert_eq!(waiting.others, expected);
    assert_eq!(waiting.samples.len(), SAMPLES_MAX);
    let size = RuleState { waiting: Some(waiting), ..RuleState::default() }.write().unwrap().len();
    assert!(size < 32 << 10, "what is stored is bounded: {size}");
}

#[test]
fn samples_are_a_few_of_each_task_and_the_important_ones() {
    let mut state = RuleState::default();
    for millis in 0..100 {
        state.add(&event(EventKind::Failed, 1, millis), at(0));
    }
    assert_eq!(state.waiting.as_ref().unwrap().samples.len(), SAMPLES_ALIKE_MAX);
    for number in 2..=100 {
        state.add(&event(EventKind::Recovered, number, 200), at(0));
    }
    state.add(&event(EventKind::Quarantined, 500, 300), at(0));
    let samples = &state.waiting.as_ref().unwrap().samples;
    assert_eq!(samples.len(), SAMPLES_MAX);
    let shown = |kind| samples.iter().filter(|sample| sample.kind == kind).count();
    assert_eq!(shown(EventKind::Quarantined), 1, "it takes the place of a less important one");
    assert_eq!(shown(EventKind::Failed), SAMPLES_ALIKE_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn samples_are_the_same_whether_or_not_it_is_remembered_that_there_is_no_place(
        events in vec((0..EventKind::ALL.len(), 0..40_u64), 0..300)
    ) {
        let (mut remembers, mut forgets) = (RuleState::default(), RuleState::default());
        for ((kind, task), millis) in events.into_iter().zip(0..) {
            let event = event(EventKind::ALL[kind], task, millis);
            remembers.add(&event, at(0));
            forgets.add(&event, at(0));
            forgets.waiting.as_mut().unwrap().full_for = None;
        }
        prop_assert_eq!(remembers.write(), forgets.write());
    }
}

#[test]
fn one_notice_may_stand_for_many() {
    let mut state = RuleState::default();
    state.add(&Event { count: 5000, ..event(EventKind::Missed, 1, 0) }, at(0));
    state.add(&Event { task: None, count: u32::MAX, ..event(EventKind::Late, 1, 0) }, at(0));
    let waiting = state.waiting.unwrap();
    assert_eq!(waiting.events(), 5000 + u64::from(u32::MAX));
    assert_eq!(waiting.tasks.len(), 2);
}

#[test]
fn state_that_cannot_be_read_is_given_up() {
    assert_eq!(RuleState::read(Some("no JSON")), None);
    assert_eq!(RuleState::default().write(), None);
}

fn missed(task_number: u64, schedule: u64, millis: i64) -> Event {
    let schedule = ScheduleId::new(Timestamp::EPOCH, ShardId(0), schedule);
    Event { job: None, planned: Some((schedule, at(millis))), ..event(EventKind::Missed, task_number, millis) }
}

#[test]
fn every_schedule_of_a_task_is_shown() {
    let mut state = RuleState::default();
    for schedule in 0..SAMPLES_MAX as u64 {
        for time in 0..5 {
            state.add(&missed(1, schedule, time), at(0));
        }
    }
    let samples = state.waiting.unwrap().samples;
    let schedules: std::collections::BTreeSet<ScheduleId> =
        samples.iter().filter_map(|sample| Some(sample.planned?.0)).collect();
    assert_eq!((samples.len(), schedules.len()), (SAMPLES_MAX, SAMPLES_MAX));
}

#[test]
fn a_message_that_is_held_takes_in_what_comes_and_is_sent_when_it_is_released() {
    let mut state = RuleState::default();
    state.add(&event(EventKind::Failed, 1, 0), at(0));
    assert_eq!(state.send_at(WINDOW), Some(at(1000)));
    state.hold(at(1000));
    state.add(&event(EventKind::Failed, 1, 2000), at(2000));
    assert_eq!(state.take_due(WINDOW, at(2000)), None);
    assert_eq!(state.send_at(WINDOW), Some(at(1000) + HELD_FOR));
    let mut set_back = state.clone();
    set_back.release_if_far(at(-10_000));
    assert_eq!(set_back.send_at(WINDOW), Some(at(1000)), "the clock went back");
    let sent = state.take_due(WINDOW, at(1000) + HELD_FOR).unwrap();
    assert_eq!((sent.events(), state.held_until), (2, None));
}

#[test]
fn up_to_two_hundred_schedules_are_counted_by_themselves() {
    let mut state = RuleState::default();
    for schedule in 0..SCHEDULES_MAX as u64 {
        state.add(&missed(1, schedule, 0), at(0));
        state.add(&missed(1, schedule, 1), at(0));
    }
    let waiting = state.waiting.as_ref().unwrap();
    assert_eq!((waiting.schedules.len(), waiting.has_more_schedules), (SCHEDULES_MAX, false));
    assert!(waiting.schedules.values().all(|counts| *counts == Counts::from([(EventKind::Missed, 2)])));
    state.add(&missed(1, 9999, 0), at(0));
    let waiting = state.waiting.as_ref().unwrap();
    assert_eq!((waiting.schedules.len(), waiting.has_more_schedules), (SCHEDULES_MAX, true));
    let size = state.write().unwrap().len();
    assert!(size < 32 << 10, "what is stored is bounded: {size}");
}
