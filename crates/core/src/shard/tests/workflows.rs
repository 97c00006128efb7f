//! Jobs that run workflows: servers start them, and never give them up.

use super::*;
use crate::id::RunId;
use crate::run::{WORKFLOW, WorkflowRun};
use crate::shard::event::Released;
use crate::workflow::NodeRef;

/// A server that runs workflows.
fn bench() -> Bench {
    let run = Run::Workflow(WorkflowRun { name: "nightly".to_owned(), version: None });
    let spec = TaskSpec { queue: "elsewhere".to_owned(), ..TaskSpec::new(run) };
    let mut bench = Bench::with(spec, Config::default());
    bench.worker = WorkerId::WORKFLOWS;
    bench
}

fn connect(bench: &mut Bench, stream: u64) {
    let spec = WorkerSpec { queues: vec![], capabilities: vec![WORKFLOW.to_owned()], ..worker_spec() };
    bench.handle(Event::WorkerHello { worker: WorkerId::WORKFLOWS, stream: StreamId(stream), spec, held: vec![] });
}

#[test]
fn a_run_is_started_by_a_server_and_by_no_worker() {
    let mut bench = bench();
    let all = WorkerSpec { queues: vec!["elsewhere".into()], ..worker_spec() };
    let worker = WorkerId::new(bench.now, 1);
    bench.handle(Event::WorkerHello { worker, stream: StreamId(1), spec: all, held: vec![] });
    let id = bench.submit(Span::ZERO);
    assert!(assigned(&bench.pass(Span::ZERO)).is_empty());
    connect(&mut bench, 2);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
    assert_eq!(bench.owner.worker_status().len(), 1, "the server is in no list of workers");
}

#[test]
fn a_run_that_takes_months_is_not_given_up() {
    let mut bench = bench();
    connect(&mut bench, 1);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    for _ in 0..200 {
        bench.pass(Span::from_secs(2));
    }
    bench.pass(Span::from_secs(80 * 86_400));
    assert_eq!(bench.owner.running(id).map(|view| view.attempt), Some(AttemptNo(1)));
    bench.report(id, 1, Outcome::Succeeded { output: None });
    bench.pass(Span::ZERO);
    assert_eq!(bench.owner.counts().succeeded, 1);
}

#[test]
fn what_was_begun_on_another_connection_goes_on() {
    let mut bench = bench();
    connect(&mut bench, 1);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    bench.command(id, Command::Cancel);
    bench.handle(Event::WorkerDisconnected { worker: WorkerId::WORKFLOWS, stream: StreamId(1) });
    bench.pass(Span::from_secs(30));
    connect(&mut bench, 2);
    let effects = bench.pass(Span::ZERO);
    assert_eq!(
        (assigned(&effects), cancelled(&effects)),
        (vec![(id, 1)], vec![id]),
        "the same attempt, and the wish to end it"
    );
    bench.report(id, 1, Outcome::Cancelled);
    bench.pass(Span::ZERO);
    assert_eq!(bench.owner.counts().cancelled, 1);
}

#[test]
fn a_new_owner_goes_on_with_the_runs_of_the_former_one() {
    let mut bench = bench();
    connect(&mut bench, 1);
    let job = bench.job(bench.now, 0);
    let (id, key) = (job.row.key.id, job.row.key);
    let worker = WorkerId::WORKFLOWS;
    let start =
        Start { key, attempt: AttemptNo(3), worker, picked_up_at: bench.now, started_at: bench.now, gang: None };
    let starts = StartsId { shard: SHARD, epoch: EPOCH, seq: BatchSeq(9) };
    let start = OpenStart { starts, start, server: bench.owner.server(), cancel: CancelMark::None };
    bench.now = bench.now + Span::from_secs(86_400);
    bench.handle(Event::Acquired {
        shard: SHARD,
        epoch: Epoch(2),
        running: vec![Adopted { start, job }],
        spent: vec![],
        whole_since: Epoch(0),
        schedules: Default::default(),
    });
    let effects = bench.pass(Span::ZERO);
    assert_eq!(assigned(&effects), [(id, 3)], "starting it again starts nothing new");
    assert!(effects.disconnects.is_empty());
}

/// An owner of one shard that has read all that is stored, with a job of a run in it that has run and is about to end.
fn ending(shard: ShardId) -> (Bench, SharedBatch) {
    let mut bench = Bench::new();
    bench.handle(Event::Released { shard: SHARD });
    bench.handle(Event::Acquired {
        shard,
        epoch: EPOCH,
        running: vec![],
        spent: vec![],
        whole_since: Epoch(0),
        schedules: Default::default(),
    });
    bench.connect(2, vec![]);
    // The sweeps have come to the end of what is stored.
    for _ in 0..2 {
        for load in bench.pass(Span::ZERO).loads {
            bench.handle(Event::Page { load, jobs: vec![], stopped_at: None });
        }
    }
    assert!(bench.pass(Span::ZERO).loads.is_empty());
    let first = of_run(&mut bench, shard, 0);
    let id = first.row.key.id;
    bench.handle(Event::Submitted { jobs: vec![first] });
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
    bench.report(id, 1, Outcome::Succeeded { output: None });
    bench.owner.tick(bench.now);
    let batch = bench.owner.take_batch(bench.now).expect("its end");
    (bench, batch)
}

/// The job of a node.
fn of_run(bench: &mut Bench, shard: ShardId, node: u16) -> Loaded {
    let Loaded { row, task } = bench.job(bench.now, 0);
    let key = JobKey::original(JobId::new(bench.now, shard, u64::from(node) + 7));
    let node = NodeRef { run: RunId::new(bench.now, shard, 1), node, round: 0, item: 0 };
    Loaded { row: JobRow { key, node: Some(Box::new(node)), ..row }, task }
}

#[test]
fn what_the_end_of_a_job_releases_is_read_at_once_in_its_own_shard() {
    let shard = ShardId(3);
    let (mut bench, batch) = ending(shard);
    bench.owner.committed(batch.seq, &Default::default(), bench.now);
    let mut loads = bench.pass(Span::ZERO).loads;
    loads.extend(bench.pass(Span::ZERO).loads);
    let is_read = |load: &Load| {
        load.shard == shard && load.sweep == Sweep::All && load.after.is_some_and(|after| after.due_at <= bench.now)
    };
    assert!(loads.iter().any(is_read), "{loads:?}");
}

#[test]
fn what_the_store_names_as_released_starts_without_a_read() {
    let shard = ShardId(3);
    let (mut bench, batch) = ending(shard);
    let next = of_run(&mut bench, shard, 1);
    let id = next.row.key.id;
    bench.owner.committed_with(batch.seq, &Default::default(), Released::AtHand(vec![next]), bench.now);
    let effects = bench.pass(Span::ZERO);
    assert_eq!(assigned(&effects), [(id, 1)]);
    assert!(effects.loads.is_empty(), "{:?}", effects.loads);
}

#[test]
fn what_was_released_in_a_shard_that_was_given_up_is_not_taken_in() {
    let shard = ShardId(3);
    let (mut bench, batch) = ending(shard);
    let next = of_run(&mut bench, shard, 1);
    bench.handle(Event::Released { shard });
    bench.owner.committed_with(batch.seq, &Default::default(), Released::AtHand(vec![next]), bench.now);
    assert!(assigned(&bench.pass(Span::ZERO)).is_empty());
}
