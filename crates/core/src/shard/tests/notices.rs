//! What people may want to be told.

use super::*;
use crate::attempt::Last;
use crate::notice::{Notice, NoticeKind};
use crate::shard::event::Watch;
use crate::shard::write::Void;

const DONE: Outcome = Outcome::Succeeded { output: None };

fn for_good() -> Outcome {
    Outcome::Failed(Failure { last: Last::Yes, ..Failure::new("no luck") })
}

/// A bench with a named task, so that it can recover.
fn bench(spec: TaskSpec) -> Bench {
    let mut bench = Bench::with(spec, Config::default());
    bench.task = Arc::new(Task { name: Some("nightly".to_owned()), ..Task::clone(&bench.task) });
    bench
}

fn probe() -> TaskSpec {
    TaskSpec::new(Run::Probe(Probe::default()))
}

impl Bench {
    /// Runs one job, and what there is to say of it.
    fn run(&mut self, outcome: Outcome) -> (JobId, Vec<Notice>) {
        let id = self.submit(Span::ZERO);
        self.pass(Span::ZERO);
        self.report(id, 1, outcome);
        (id, self.notices(Span::ZERO))
    }

    /// Like `pass`, and what there is to say meanwhile.
    fn notices(&mut self, span: Span) -> Vec<Notice> {
        let mut notices = Vec::new();
        self.now = self.now + span;
        self.owner.tick(self.now);
        while let Some(batch) = self.owner.take_batch(self.now) {
            notices.extend(batch.notices(&Void::default()).cloned());
            self.owner.committed(batch.seq, &Void::default(), self.now);
            self.owner.tick(self.now);
        }
        notices
    }

    fn watch(&mut self, watch: Watch) {
        self.handle(Event::Watch(watch));
    }
}

fn kinds(notices: &[Notice]) -> Vec<NoticeKind> {
    notices.iter().map(|notice| notice.kind).collect()
}

#[test]
fn a_failure_for_good_is_told_with_its_end_and_a_success_after_it_too() {
    let mut bench = bench(probe());
    bench.connect(1, vec![]);
    assert!(bench.run(DONE).1.is_empty());
    let (id, notices) = bench.run(for_good());
    let told = Notice::of_job(NoticeKind::Failed, id, Some(bench.task.id), None, bench.now);
    assert_eq!(notices, [told]);
    assert_eq!(kinds(&bench.run(DONE).1), [NoticeKind::Recovered]);
    assert!(bench.run(DONE).1.is_empty(), "once");
}

#[test]
fn a_task_without_a_name_has_nothing_to_recover_for() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    assert_eq!(kinds(&bench.run(for_good()).1), [NoticeKind::Failed]);
    assert!(bench.run(DONE).1.is_empty());
}

#[test]
fn a_failure_that_is_tried_again_is_nobodys_business() {
    let mut bench = bench(probe());
    bench.connect(1, vec![]);
    let (_, notices) = bench.run(Outcome::Failed(Failure::new("not yet")));
    assert!(notices.is_empty());
}

#[test]
fn what_was_cancelled_or_deleted_is_not_told() {
    let mut bench = bench(probe());
    let id = bench.submit(Span::from_secs(5));
    bench.handle(Event::Ask { token: Token(1), ask: Ask::Job { id, command: Command::Cancel }, made: None });
    assert!(bench.notices(Span::ZERO).is_empty());
    let id = bench.submit(Span::from_secs(5));
    bench.handle(Event::Ask { token: Token(1), ask: Ask::Job { id, command: Command::Delete }, made: None });
    assert!(bench.notices(Span::ZERO).is_empty());
}

#[test]
fn a_job_that_no_worker_took_in_time_is_told() {
    let mut spec = probe();
    spec.queue_timeout = Some(Span::from_secs(10));
    let mut bench = bench(spec);
    let id = bench.submit(Span::ZERO);
    let notices = bench.notices(Span::from_secs(12));
    assert_eq!((kinds(&notices), notices[0].job), (vec![NoticeKind::Failed], Some(id)));
}

#[test]
fn nobody_is_told_of_a_quiet_task() {
    let mut spec = probe();
    spec.quiet = true;
    let mut bench = bench(spec);
    bench.watch(Watch { late_after: vec![Span::from_millis(1)], ..Watch::default() });
    bench.submit(Span::ZERO);
    bench.pass(Span::from_secs(1));
    bench.connect(1, vec![]);
    assert!(bench.run(for_good()).1.is_empty());
    assert!(bench.run(DONE).1.is_empty());
    assert!(bench.notices(Span::from_secs(2)).is_empty(), "nor that it was late");
}

#[test]
fn a_failure_elsewhere_is_known_from_what_others_tell() {
    let mut bench = bench(probe());
    bench.connect(1, vec![]);
    let ailing = vec![bench.task.id];
    bench.watch(Watch { ailing, late_after: Vec::new() });
    assert_eq!(kinds(&bench.run(DONE).1), [NoticeKind::Recovered]);
    // What failed here a moment ago is not yet in what others tell.
    bench.run(for_good());
    bench.watch(Watch::default());
    assert_eq!(kinds(&bench.run(DONE).1), [NoticeKind::Recovered]);
    // Somebody else told of its success.
    bench.run(for_good());
    bench.pass(Span::from_secs(3601));
    bench.watch(Watch::default());
    assert!(bench.run(DONE).1.is_empty());
}

#[test]
fn late_starts_are_counted_and_told_once_a_second() {
    let mut bench = bench(probe());
    bench.watch(Watch { late_after: vec![Span::from_secs(3), Span::from_secs(4)], ..Watch::default() });
    let ids: Vec<JobId> = (0..3).map(|_| bench.submit(Span::ZERO)).collect();
    bench.pass(Span::from_secs(2));
    bench.submit(Span::ZERO);
    bench.pass(Span::from_millis(2500));
    bench.connect(1, vec![]);
    bench.pass(Span::ZERO);
    let notices = bench.notices(Span::from_secs(1));
    let [late] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!((late.kind, late.count, late.lateness), (NoticeKind::Late, 3, Some(Span::from_millis(4500))));
    assert!(ids.contains(&late.job.unwrap()));
    assert!(bench.notices(Span::from_secs(1)).is_empty(), "once");
}

#[test]
fn late_starts_that_a_rule_would_tell_apart_are_told_apart() {
    let mut bench = bench(probe());
    bench.watch(Watch { late_after: vec![Span::from_secs(3), Span::from_secs(60)], ..Watch::default() });
    bench.submit(Span::ZERO);
    bench.pass(Span::from_secs(50));
    bench.submit(Span::ZERO);
    bench.pass(Span::from_secs(7));
    bench.submit(Span::ZERO);
    bench.pass(Span::from_secs(4));
    bench.connect(1, vec![]);
    bench.pass(Span::ZERO);
    let notices = bench.notices(Span::from_secs(1));
    let told: Vec<_> =
        notices.iter().map(|late| (late.count, late.lateness.unwrap().as_micros() / 1_000_000)).collect();
    // Who looks has seen the second waiting and not the third; only the first concerns the rule of a minute.
    assert_eq!(told, [(1, 4), (1, 11), (1, 61)]);
}

#[test]
fn nobody_counts_late_starts_that_nobody_wants_to_know_of() {
    let mut bench = bench(probe());
    bench.submit(Span::ZERO);
    bench.pass(Span::from_secs(600));
    bench.connect(1, vec![]);
    assert!(bench.notices(Span::from_secs(2)).is_empty());
}

#[test]
fn the_late_result_of_a_lost_job_is_told() {
    for (outcome, kind) in [(DONE, NoticeKind::Recovered), (for_good(), NoticeKind::Failed)] {
        let mut bench = bench(probe());
        bench.connect(1, vec![]);
        let id = JobId::new(bench.now, SHARD, 9);
        bench.report(id, 1, outcome);
        let token = bench.owner.take_effects().lookups[0].0;
        let found = Found::Finished { state: JobState::Lost, attempt: Some(AttemptNo(1)), counters: Counters::NEW };
        bench.handle(Event::Found { token, id, found });
        let notices = bench.notices(Span::ZERO);
        assert_eq!((kinds(&notices), notices[0].job, notices[0].task), (vec![kind], Some(id), None));
    }
}

#[test]
fn a_notice_of_what_the_store_left_out_is_left_out() {
    let mut spec = probe();
    spec.queue_timeout = Some(Span::from_secs(10));
    let mut bench = bench(spec);
    let id = bench.submit(Span::ZERO);
    bench.now = bench.now + Span::from_secs(12);
    let batch = bench.batch().expect("its time is over");
    assert_eq!(batch.notices(&Void::default()).count(), 1);
    assert_eq!(batch.notices(&vec![id].into()).count(), 0);
}
