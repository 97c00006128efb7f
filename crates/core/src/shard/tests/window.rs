//! What waits in memory, what there is no room for, and what waits for something else than its time.

use super::*;

fn swept(window_max: usize) -> Bench {
    let config = Config { window_max, page_len: 2, ..Config::default() };
    let mut bench = Bench::with(TaskSpec::new(Run::Probe(Probe::default())), config);
    for load in bench.pass(Span::ZERO).loads {
        bench.handle(Event::Page { load, jobs: vec![], stopped_at: None });
    }
    bench
}

#[test]
fn a_full_window_reads_later_what_it_had_no_room_for() {
    let mut bench = swept(4);
    let jobs: Vec<Loaded> = (0..3).map(|_| bench.job(bench.now, 0)).collect();
    bench.handle(Event::Submitted { jobs: jobs.clone() });
    assert_eq!(bench.owner.counts().ready, 2, "half of the window stays free for others");
    bench.connect(1, vec![]);
    let loads = bench.pass(Span::from_millis(1)).loads;
    let load = loads.into_iter().find(|load| load.sweep == Sweep::Parked).expect("there is room again");
    assert!(load.after.is_some_and(|after| after < jobs[2].row.key));
    bench.handle(Event::Page { load, jobs: jobs[2..].to_vec(), stopped_at: None });
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(jobs[2].row.key.id, 1)]);
    assert!(bench.pass(Span::from_millis(1)).loads.iter().all(|load| load.sweep != Sweep::Parked), "nothing is left");
}

/// A sweep that was under way while the parked jobs were read has looked farther ahead than
/// that read, and has left out what lies there.

#[test]
fn what_a_sweep_left_out_is_read_by_another() {
    let mut bench = swept(4);
    let jobs: Vec<Loaded> = (0..3).map(|_| bench.job(bench.now, 0)).collect();
    bench.handle(Event::Submitted { jobs });
    bench.connect(1, vec![]);
    let loads = bench.pass(Span::from_millis(1)).loads;
    let parked = loads.into_iter().find(|load| load.sweep == Sweep::Parked).expect("there is room again");
    let loads = bench.pass(Span::from_secs(1)).loads;
    let sweep = loads.into_iter().find(|load| load.sweep == Sweep::All).expect("it is read on");
    assert_eq!(sweep.skip, [bench.task.id]);
    for is_sweep_first in [true, false] {
        let mut order = [sweep.clone(), parked.clone()];
        if !is_sweep_first {
            order.reverse();
        }
        let mut owner = Bench { jobs_made: 0, ..swept(4) };
        let jobs: Vec<Loaded> = (0..3).map(|_| owner.job(owner.now, 0)).collect();
        owner.handle(Event::Submitted { jobs });
        owner.connect(1, vec![]);
        owner.pass(Span::from_millis(1));
        owner.pass(Span::from_secs(1));
        for load in order {
            owner.handle(Event::Page { load, jobs: vec![], stopped_at: None });
        }
        let loads = owner.pass(Span::from_millis(60)).loads;
        let covers = |load: &Load| load.skip.is_empty() && load.after.is_some_and(|after| after.due_at <= parked.until);
        assert!(loads.iter().any(covers), "{loads:?}");
    }
}

#[test]
fn a_queue_without_workers_does_not_shut_out_the_others() {
    let mut bench = swept(8);
    bench.connect(1, vec![]);
    let served = Arc::clone(&bench.task);
    let mut spec = served.spec.clone();
    spec.queue = "nobody".to_owned();
    bench.task = Arc::new(Task { id: TaskId::new(bench.now, 2), spec, ..(*served).clone() });
    for _ in 0..100 {
        bench.submit(Span::ZERO);
    }
    bench.task = served;
    let id = bench.submit(Span::ZERO);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
    bench.pass(Span::from_secs(90));
    assert_eq!(bench.owner.lag(), Span::ZERO, "the connected workers keep up with what they can run");
}

#[test]
fn a_waiting_job_follows_its_task_to_another_queue() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let right = Arc::clone(&bench.task);
    let mut spec = right.spec.clone();
    spec.queue = "mistyped".to_owned();
    bench.task = Arc::new(Task { spec, ..(*right).clone() });
    let id = bench.submit(Span::ZERO);
    assert!(assigned(&bench.pass(Span::from_secs(1))).is_empty());
    let task = Arc::new(Task { revision: 2, ..(*right).clone() });
    bench.handle(Event::TaskChanged { task });
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
    // Read before the change, and delivered after it.
    let id = bench.submit(Span::ZERO);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
}

#[test]
fn a_job_whose_file_has_not_arrived_waits_for_it_whatever_workers_say() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let ready = Arc::clone(&bench.task);
    let artifact = ArtifactId::new(bench.now, 1);
    bench.task = Arc::new(Task { waits_for: Some(artifact), ..(*ready).clone() });
    let id = bench.submit(Span::ZERO);
    let other = bench.submit(Span::from_secs(5));
    let mut spec = worker_spec();
    spec.capabilities.push("\0arrival".to_owned());
    let (worker, stream) = (WorkerId::new(bench.now, 2), StreamId(2));
    bench.handle(Event::WorkerHello { worker, stream, spec, held: vec![] });
    assert!(assigned(&bench.pass(Span::from_secs(1))).is_empty());
    assert_eq!(bench.owner.tasks_that_wait(), [(bench.task.id, 1)]);
    assert_eq!(bench.owner.lag(), Span::ZERO, "no worker could do anything about it");
    bench.handle(Event::TaskChanged { task: Arc::new(Task { revision: 2, ..(*ready).clone() }) });
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
    assert!(bench.owner.tasks_that_wait().is_empty());
    assert_eq!(assigned(&bench.pass(Span::from_secs(5))), [(other, 1)]);
    // Read before the arrival, and delivered after it.
    let late = bench.submit(Span::ZERO);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(late, 1)]);
}

#[test]
fn jobs_that_wait_for_a_file_do_not_shut_out_the_others_and_all_start_when_it_is_there() {
    let mut bench = swept(8);
    bench.connect(1, vec![]);
    let ready = Arc::clone(&bench.task);
    let id = TaskId::new(bench.now, 2);
    let waiting = Arc::new(Task { id, waits_for: Some(ArtifactId::new(bench.now, 1)), ..(*ready).clone() });
    bench.task = waiting;
    for _ in 0..100 {
        bench.submit(Span::ZERO);
    }
    bench.task = Arc::clone(&ready);
    let served = bench.submit(Span::ZERO);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(served, 1)]);
    bench.handle(Event::TaskChanged { task: Arc::new(Task { id, revision: 2, ..(*ready).clone() }) });
    let effects = bench.pass(Span::ZERO);
    assert_eq!(assigned(&effects).len(), 3, "three of its four slots are free");
    let reads_on = effects.loads.iter().any(|load| load.sweep == Sweep::Parked);
    assert!(reads_on, "what the window had no room for is read now: {:?}", effects.loads);
}

#[test]
fn a_job_whose_file_does_not_arrive_in_time_fails_and_says_so() {
    let mut spec = TaskSpec::new(Run::Probe(Probe::default()));
    spec.queue_timeout = Some(Span::from_secs(2));
    let mut bench = Bench::with(spec, Config::default());
    bench.connect(1, vec![]);
    let artifact = ArtifactId::new(bench.now, 1);
    bench.task = Arc::new(Task { waits_for: Some(artifact), ..(*bench.task).clone() });
    bench.submit(Span::ZERO);
    bench.pass(Span::from_secs(1));
    bench.now = bench.now + Span::from_secs(2);
    let batch = bench.batch().expect("it ends");
    let [Write::Job(JobWrite::Settle(settle))] = &batch.writes[..] else { panic!("{batch:?}") };
    assert_eq!(settle.reason, Some(format!("{artifact} did not arrive in time")));
}

#[test]
fn a_clock_that_steps_back_does_not_stop_the_sweep() {
    let mut bench = swept(8);
    bench.now = bench.now - Span::from_secs(3600);
    let loads = bench.pass(Span::from_millis(1)).loads;
    let sweep = loads.iter().find(|load| load.sweep == Sweep::All).expect("it is read on at once");
    assert!(sweep.after.is_none_or(|after| after.due_at <= bench.now + Span::from_secs(30)));
}

/// Whoever stored a job while the shard changed hands may have told the former owner.

#[test]
fn a_new_owner_sweeps_again_soon_and_then_less_and_less_often() {
    let mut bench = Bench::new();
    let mut sweeps = Vec::new();
    for _ in 0..600 {
        for load in bench.pass(Span::from_millis(50)).loads {
            if load.sweep == Sweep::Floor {
                sweeps.push(bench.now);
            }
            bench.handle(Event::Page { load, jobs: vec![], stopped_at: None });
        }
    }
    let pauses: Vec<i64> = sweeps.windows(2).map(|pair| pair[1].since(pair[0]).as_micros() / 1000).collect();
    assert_eq!(pauses, [500, 2000, 8000, 10_000]);
}
