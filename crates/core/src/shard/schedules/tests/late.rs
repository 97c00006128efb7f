//! Runs that start late.

use super::*;
use crate::notice::NoticeKind;
use crate::schedule::{Marks, Overlap};
use crate::shard::event::Watch;
use crate::shard::write::{JobWrite, LateStart};

impl Bench {
    fn disconnect(&mut self, stream: u64) {
        let (worker, stream) = (WorkerId::new(Timestamp::EPOCH, 1), StreamId(stream));
        self.owner.handle(Event::WorkerDisconnected { worker, stream }, self.now);
    }

    fn connect(&mut self, stream: u64) {
        let spec = WorkerSpec {
            namespaces: crate::namespace::ServedNamespaces::All,
            queues: vec!["default".into()],
            capabilities: vec!["probe".into()],
            labels: BTreeMap::default(),
            credit: 100,
        };
        let (worker, stream) = (WorkerId::new(Timestamp::EPOCH, 1), StreamId(stream));
        self.owner.handle(Event::WorkerHello { worker, stream, spec, held: vec![] }, self.now);
        self.settle();
    }

    fn late_starts(&self) -> Vec<LateStart> {
        let late = |write: &Write| {
            if let Write::Schedule(ScheduleWrite::StartedLate(late)) = write { Some(*late) } else { None }
        };
        self.writes.iter().filter_map(late).collect()
    }

    #[track_caller]
    fn is_late(&self, time: &str, started: &str) {
        let row = &self.ledger[&at(time)];
        assert_eq!((row.started_at, row.marks.has(Marks::LATE)), (Some(at(started)), true), "{row:?}");
    }
}

fn within(late_after: Option<Span>, overlap: Overlap) -> ScheduleSpec {
    ScheduleSpec { late_after, overlap, ..spec("* * * * *") }
}

#[test]
fn a_run_that_waited_for_a_worker_is_late_by_its_start() {
    let mut bench = Bench::new(at("11:59:30"));
    bench.create(&within(Some(secs(1)), Overlap::Allow));
    bench.disconnect(1);
    bench.pass_until(at("12:00:09"));
    let row = &bench.ledger[&at("12:00:00")];
    assert_eq!((row.verdict, row.marks), (Verdict::Fired, Marks::NONE), "it was decided in time and has not started");
    bench.connect(7);
    bench.is_late("12:00:00", "12:00:09");
    let place =
        bench.writes.iter().position(|write| matches!(write, Write::Schedule(ScheduleWrite::StartedLate(_)))).unwrap();
    assert!(
        matches!(&bench.writes[place + 1], Write::Job(JobWrite::Start(_))),
        "it goes with the start that it is about"
    );
    bench.finish(&succeeded());
    bench.pass_until(at("12:03:10"));
    assert_eq!(bench.late_starts().len(), 1, "a run on time costs no write");
}

#[test]
fn a_start_within_the_limit_is_on_record_without_the_mark() {
    let mut bench = Bench::new(at("11:59:30"));
    bench.create(&within(None, Overlap::Allow));
    bench.disconnect(1);
    bench.pass_until(at("12:00:09"));
    bench.connect(7);
    let row = &bench.ledger[&at("12:00:00")];
    assert_eq!((row.started_at, row.marks), (Some(at("12:00:09")), Marks::NONE));
}

#[test]
fn a_run_that_waited_for_the_one_before_it_is_late_by_its_own_time() {
    let mut bench = Bench::new(at("11:59:30"));
    bench.create(&within(Some(secs(30)), Overlap::QueueAll));
    bench.pass_until(at("12:02:30"));
    bench.finish(&succeeded());
    bench.is_late("12:01:00", "12:02:30");
    assert!(!bench.ledger[&at("12:02:00")].marks.has(Marks::LATE), "it waits");
    bench.finish(&succeeded());
    assert!(!bench.ledger[&at("12:02:00")].marks.has(Marks::LATE), "30 seconds are allowed");
    assert_eq!(bench.ledger[&at("12:02:00")].started_at, Some(at("12:02:30")));
}

#[test]
fn rules_see_a_backlog_of_runs_whatever_their_schedule_says() {
    let mut bench = Bench::new(at("11:59:30"));
    let id = bench.create(&within(None, Overlap::QueueAll));
    bench.owner.handle(Event::Watch(Watch { late_after: vec![secs(60)], ..Watch::default() }), bench.now);
    bench.pass_until(at("12:02:30"));
    bench.finish(&succeeded());
    bench.pass_until(at("12:02:33"));
    let told: Vec<_> = bench.writes.iter().filter_map(Write::notice).collect();
    let [late] = &told[..] else { panic!("{told:?}") };
    assert_eq!((late.kind, late.planned), (NoticeKind::Late, Some((id, at("12:01:00")))));
    assert_eq!(late.lateness, Some(secs(90)), "the job was made when the run before it ended");
}

#[test]
fn a_replayed_run_is_late_whether_runs_may_meet_or_not() {
    for overlap in [Overlap::Allow, Overlap::Skip, Overlap::QueueAll] {
        let spec = ScheduleSpec { overlap, late_after: Some(secs(30)), ..spec("*/10 * * * *") };
        let mut bench = Bench::new(at("11:55:00"));
        let id = bench.create(&spec);
        bench.pass_until(at("11:56:00"));
        bench.take_over(id, &spec, at("18:05:00"));
        bench.pass_until(at("18:05:03"));
        bench.is_late("18:00:00", "18:05:00");
        assert!(bench.ledger[&at("18:00:00")].marks.has(Marks::REPLAYED), "{overlap:?}");
    }
}

#[test]
fn a_start_that_is_given_back_is_not_the_first_one() {
    let mut bench = Bench::new(at("11:59:30"));
    bench.create(&within(Some(secs(5)), Overlap::Allow));
    bench.pass_until(at("12:00:00"));
    assert_eq!(bench.running.len(), 1);
    for _ in 0..8 {
        bench.finish(&Outcome::NotStarted { reason: "no disk".to_owned() });
        while bench.running.is_empty() {
            bench.pass_until(bench.now + Span::from_millis(100));
        }
    }
    let row = &bench.ledger[&at("12:00:00")];
    assert!(row.marks.has(Marks::LATE) && row.started_at > Some(at("12:00:05")), "{row:?}");
}
