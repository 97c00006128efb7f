//! A worker in this process that keeps a record of what it ran.

use crate::world::by;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_app::{App, WorkerHello};
use punctual_core::attempt::Outcome;
use punctual_core::shard::event::{Report, WorkerSpec};
use punctual_core::{AttemptNo, JobId, WorkerId};
use punctual_engine::{OutgoingReceiver, WorkerSession};
use punctual_store_tests::fixture::at;
use tokio::sync::mpsc;

/// How long each run takes.
#[derive(Clone, Copy)]
pub(crate) enum Lasts {
    For(Duration),
    UntilCancelled,
}

#[derive(Default)]
pub(crate) struct Seen {
    /// Tracing ids in the order in which their jobs were started.
    pub(crate) begun: Vec<String>,
    /// The most at a time.
    pub(crate) most: usize,
    running: HashMap<JobId, AttemptNo>,
}

/// It has as many slots as anybody needs, until it is dropped.
pub(crate) struct Worker {
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Worker {
    pub(crate) async fn start(app: &App, lasts: Lasts) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let greeting = app.greet_worker(&by(app)).await.unwrap();
        let spec = WorkerSpec {
            namespaces: punctual_core::namespace::ServedNamespaces::All,
            queues: vec!["default".to_owned()],
            capabilities: vec!["probe".to_owned()],
            labels: BTreeMap::new(),
            credit: 1000,
        };
        let worker = WorkerId::new(at(0), 1);
        let hello = WorkerHello {
            worker,
            name: "test".to_owned(),
            host: None,
            version: "0".to_owned(),
            spec,
            held: Vec::new(),
            acquired: greeting.acquired,
            commands_as: String::new(),
        };
        let (session, outgoing) = app.connect_worker(&by(app), greeting.stream, hello).unwrap();
        let task = tokio::spawn(serve(app.clone(), worker, session, outgoing, Arc::clone(&seen), lasts));
        Self { seen, task }
    }

    pub(crate) fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().unwrap())
    }
}

async fn serve(
    app: App,
    worker: WorkerId,
    session: WorkerSession,
    mut outgoing: OutgoingReceiver,
    seen: Arc<Mutex<Seen>>,
    lasts: Lasts,
) {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let mut beat = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = beat.tick() => {
                app.worker_alive(worker);
            }
            end = ends.recv() => {
                let (id, attempt, outcome): (JobId, AttemptNo, Outcome) = end.expect("we have a sender");
                if seen.lock().unwrap().running.remove(&id).is_some() {
                    session.report(vec![Report { id, attempt, outcome, timed_out: false, details: None }]);
                }
            }
            message = outgoing.recv() => {
                let Some(message) = message else { return };
                let mut seen = seen.lock().unwrap();
                for assignment in message.assignments {
                    let (id, attempt) = (assignment.key.id, assignment.attempt);
                    seen.begun.push(assignment.tracing_id.unwrap_or_default());
                    seen.running.insert(id, attempt);
                    seen.most = seen.most.max(seen.running.len());
                    if let Lasts::For(time) = lasts {
                        let ended = ended.clone();
                        tokio::spawn(async move {
                            tokio::time::sleep(time).await;
                            let _ = ended.send((id, attempt, Outcome::Succeeded { output: None }));
                        });
                    }
                }
                for (id, attempt) in message.cancels {
                    let _ = ended.send((id, attempt, Outcome::Cancelled));
                }
            }
        }
    }
}
