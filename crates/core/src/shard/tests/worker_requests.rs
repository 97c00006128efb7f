//! Which workers an owner asks other servers for, and which of its own fit.

use super::*;
use crate::namespace::NamespaceId;
use crate::shard::{FittingWorkers, PoolWanted, Who, WorkerNeeds, WorkersWanted};

fn needs() -> WorkerNeeds {
    WorkerNeeds {
        namespace: NamespaceId::DEFAULT,
        queue: "default".to_owned(),
        capability: "probe".to_owned(),
        labels: Default::default(),
    }
}

fn wanted(who: Who, count: usize) -> WorkersWanted {
    WorkersWanted { pools: vec![PoolWanted { needs: needs(), who, count }], workers: Vec::new() }
}

#[test]
fn an_owner_asks_for_workers_when_it_has_none_for_a_job_that_is_due_soon() {
    let mut bench = Bench::new();
    bench.submit(Span::from_secs(20));
    bench.pass(Span::ZERO);
    assert!(bench.owner.workers_wanted().is_empty(), "it is not due for long");
    bench.pass(Span::from_secs(16));
    assert_eq!(bench.owner.workers_wanted(), wanted(Who::Anyone, 4));
    bench.connect(1, vec![]);
    bench.pass(Span::ZERO);
    assert!(bench.owner.workers_wanted().is_empty());
}

#[test]
fn an_owner_whose_workers_are_busy_asks_for_idle_ones_and_later_for_any() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    for _ in 0..10 {
        bench.submit(Span::ZERO);
    }
    bench.pass(Span::ZERO);
    assert!(bench.owner.workers_wanted().is_empty(), "slots move first");
    bench.pass(Span::from_secs(1));
    assert_eq!(bench.owner.workers_wanted(), wanted(Who::Idle, 6));
    for _ in 0..9 {
        bench.pass(Span::from_secs(1));
    }
    assert_eq!(bench.owner.workers_wanted(), wanted(Who::Anyone, 6));
}

#[test]
fn an_owner_asks_for_the_workers_of_attempts_that_it_took_over() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    assert!(bench.owner.workers_wanted().is_empty());
    bench.handle(Event::WorkerDisconnected { worker: bench.worker, stream: StreamId(1) });
    assert_eq!(bench.owner.workers_wanted().workers, [bench.worker]);
}

#[test]
fn workers_with_a_free_slot_are_named_first_and_others_only_if_anyone_will_do() {
    let mut bench = Bench::new();
    let workers: Vec<WorkerId> = (1..=3).map(|number| WorkerId::new(Timestamp::EPOCH, number)).collect();
    for (place, worker) in workers.iter().enumerate() {
        let credit = if place == 0 { 0 } else { 4 };
        let spec = WorkerSpec { credit, ..worker_spec() };
        bench.handle(Event::WorkerHello { worker: *worker, stream: StreamId(1), spec, held: vec![] });
    }
    let named = |bench: &Bench, wanted: WorkersWanted, turn: usize| {
        let FittingWorkers { mut pools, .. } = bench.owner.fitting_workers(&wanted, turn);
        pools.pop().unwrap().into_iter().map(|(worker, _)| worker).collect::<Vec<_>>()
    };
    // Before any job of the pool was seen here, and after.
    for _ in 0..2 {
        assert_eq!(named(&bench, wanted(Who::Idle, 9), 0), workers[1..]);
        assert_eq!(named(&bench, wanted(Who::Anyone, 9), 0), [workers[1], workers[2], workers[0]]);
        let turns: Vec<_> = (0..2).flat_map(|turn| named(&bench, wanted(Who::Idle, 1), turn)).collect();
        assert_eq!(turns, workers[1..], "each in turn");
        bench.submit(Span::from_secs(25));
        bench.pass(Span::ZERO);
    }
    let labels = [("gpu".to_owned(), "yes".to_owned())].into();
    let pools = vec![PoolWanted { needs: WorkerNeeds { labels, ..needs() }, who: Who::Anyone, count: 9 }];
    assert!(named(&bench, WorkersWanted { pools, workers: vec![] }, 0).is_empty());
    let by_id = WorkersWanted { pools: vec![], workers: vec![workers[0], bench.worker] };
    assert_eq!(bench.owner.fitting_workers(&by_id, 0).workers, [(workers[0], StreamId(1))]);
}
