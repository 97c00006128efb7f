//! A server asks others for workers that its jobs lack.

use punctual_core::shard::WorkersWanted;
use punctual_engine::{Engine, Reach};

use crate::harness::{Harness, Worker, until};

async fn wanted(engine: &Engine) -> WorkersWanted {
    engine.workers_wanted().await.unwrap()
}

/// Waits until the jobs of this server lack workers.
async fn lack(engine: &Engine) -> WorkersWanted {
    let mut cluster = engine.cluster();
    loop {
        let wanted = wanted(engine).await;
        if !wanted.is_empty() {
            return wanted;
        }
        // A new picture comes every few milliseconds.
        cluster.changed().await.unwrap();
    }
}

#[tokio::test]
async fn a_job_runs_on_a_worker_of_another_server_that_was_asked_for_it() {
    let harness = Harness::new(2);
    let worker = Worker::new();
    let a = harness.start().await;
    worker.serve(&a);
    let b = harness.start().await;
    until("one shard each", || a.owned().len() == 1 && b.owned().len() == 1).await;
    let id = harness.submit(b.owned()[0].0);
    let wanted_by_b = lack(&b).await;
    assert_eq!((wanted_by_b.pools.len(), wanted_by_b.workers.len()), (1, 0));
    assert!(wanted(&a).await.is_empty(), "it has no jobs");
    // This one has no certificate.
    let none = a.invite_workers(b.server(), wanted_by_b.clone(), 1, Reach::WithCertificate).await.unwrap();
    assert_eq!(none.pools, [vec![]]);
    let fitting = a.invite_workers(b.server(), wanted_by_b, 1, Reach::AllWorkers).await.unwrap();
    assert_eq!(fitting.pools.iter().map(Vec::len).collect::<Vec<_>>(), [1]);
    until("the worker is told", || *worker.invited.lock().unwrap() == [b.server()]).await;
    assert!(!worker.has_run(id));
    worker.serve(&b);
    until("it has run", || harness.attempts(id) == Some(vec![1])).await;
    assert!(wanted(&b).await.is_empty());
}
