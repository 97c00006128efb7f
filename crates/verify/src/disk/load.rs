//! Clients that submit without pause and remember what was acknowledged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_api::JobRequest;
use punctual_client::{Client, ClientError};
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{JobId, Timestamp};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::findings::Findings;

const CLIENTS: usize = 4;
/// After a refusal: the answer is at once, and there is no use in a storm.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Acknowledged>>);

#[derive(Default)]
struct Acknowledged {
    jobs: Vec<(JobId, Instant)>,
    refusals: Vec<String>,
}

pub(super) struct Load {
    client: Client,
    seen: Seen,
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

/// A job of 2031, with an input of so many bytes.
fn request(input_bytes: usize) -> JobRequest {
    let input = serde_json::value::to_raw_value(&"x".repeat(input_bytes)).expect("a text is JSON");
    JobRequest {
        inline: Some(TaskSpec::new(Run::Probe(Probe::default()))),
        run_at: Some(Timestamp::saturating_from_micros(1_925_000_000_000_000)),
        input: Some(input),
        ..JobRequest::default()
    }
}

impl Load {
    pub(super) fn start(client: Client, input_bytes: usize) -> Self {
        let client = client.with_repeat_budget(Duration::ZERO);
        let (seen, stop) = (Seen::default(), Arc::new(AtomicBool::new(false)));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (client, seen, stop) = (client.clone(), seen.clone(), Arc::clone(&stop));
            clients.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    match client.submit(&request(input_bytes)).await {
                        Ok(submitted) => seen.lock().jobs.push((submitted.id, Instant::now())),
                        Err(error) => {
                            seen.lock().refusals.push(code_of(&error));
                            tokio::time::sleep(PAUSE).await;
                        }
                    }
                }
            });
        }
        Self { client, seen, stop, clients }
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.seen.lock().jobs.len()
    }

    pub(super) fn acknowledged_since(&self, moment: Instant) -> usize {
        self.seen.lock().jobs.iter().filter(|(_, at)| *at > moment).count()
    }

    /// The codes of all refusals so far.
    pub(super) fn refusals(&self) -> Vec<String> {
        let mut codes = self.seen.lock().refusals.clone();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    pub(super) async fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while self.clients.join_next().await.is_some() {}
    }

    /// Everything that was acknowledged can be read. Answers how many jobs that were.
    pub(super) async fn all_are_there(&self, findings: &mut Findings) -> usize {
        let jobs: Vec<JobId> = self.seen.lock().jobs.iter().map(|(id, _)| *id).collect();
        for id in &jobs {
            if let Err(error) = self.client.job(*id).await {
                findings.add(format!("{id} was acknowledged: {error}"));
            }
        }
        jobs.len()
    }
}

impl Seen {
    fn lock(&self) -> std::sync::MutexGuard<'_, Acknowledged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server's code, or a word for what happened instead of an answer.
pub(super) fn code_of(error: &ClientError) -> String {
    match error {
        ClientError::Problem(problem) => problem.code.clone(),
        _ => "no answer".to_owned(),
    }
}
