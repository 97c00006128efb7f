//! Calls to servers, with question and answer on record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_api::{BulkRequest, JobRequest};
use punctual_client::{Client, ClientError, IdempotencyKey};
use punctual_core::{JobId, Timestamp};

use crate::clock::Moment;
use crate::history::{Answer, CallKind, ClientLine, Journal};
use crate::witness::Work;

/// After this the client gives up, and nobody knows.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// For thousands of jobs in one request.
const BULK_ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A job that a client wants.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) key: String,
    pub(crate) task: &'static str,
    pub(crate) run_at: Option<Timestamp>,
    pub(crate) work: Work,
}

impl Order {
    fn asked(&self) -> CallKind {
        CallKind::Submit {
            key: self.key.clone(),
            task: self.task.to_owned(),
            run_at_us: self.run_at.map(Timestamp::as_micros),
            fail_first: self.work.fail_first,
        }
    }

    pub(crate) fn request(&self) -> JobRequest {
        let input = serde_json::value::to_raw_value(&self.work).expect("work is plain data");
        JobRequest {
            task: Some(self.task.to_owned()),
            run_at: self.run_at,
            input: Some(input),
            tracing_id: Some(self.key.clone()),
            ..JobRequest::default()
        }
    }
}

/// Clients of all servers of a cluster, whether they run or not.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) clients: Arc<[Client]>,
    journal: Journal,
    calls: Arc<AtomicU64>,
}

impl Caller {
    pub(crate) fn new(clients: Vec<Client>, journal: Journal) -> Self {
        // Each try is a call of its own on record.
        let once = |client: Client| client.with_repeat_budget(Duration::ZERO);
        Self { clients: clients.into_iter().map(once).collect(), journal, calls: Arc::default() }
    }

    fn invoke(&self, asked: CallKind) -> u64 {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.journal.write(&ClientLine::Invoke { call, at: Moment::now(), asked });
        call
    }

    fn returned(&self, call: u64, answer: Answer) -> Answer {
        self.journal.write(&ClientLine::Return { call, at: Moment::now(), answer: answer.clone() });
        answer
    }

    pub(crate) async fn submit(&self, server: usize, order: &Order) -> Answer {
        let client = &self.clients[server % self.clients.len()];
        let key = IdempotencyKey::new(&order.key).expect("our keys fit into a header");
        let call = self.invoke(order.asked());
        let request = order.request();
        let answer = match tokio::time::timeout(ANSWER_WITHIN, client.submit_with_key(&request, &key)).await {
            Ok(Ok(submitted)) => Answer::Ok {
                job: submitted.id.to_string(),
                // A repeated request is answered when a retry may already have moved `due_at`.
                due_us: Some(submitted.scheduled_at.as_micros()),
                state: None,
                pending: false,
            },
            Ok(Err(error)) => not_ok(&error),
            Err(_) => Answer::Unknown { why: "no answer in time".to_owned() },
        };
        self.returned(call, answer)
    }

    /// A submission that is sent in another way; one that fails was perhaps stored.
    pub(crate) async fn recorded(&self, order: &Order, sent: impl Future<Output = anyhow::Result<Answer>>) -> Answer {
        let call = self.invoke(order.asked());
        let answer = sent.await.unwrap_or_else(|error| Answer::Unknown { why: format!("{error:#}") });
        self.returned(call, answer)
    }

    /// All in one request. They must be due later, at times of their own.
    pub(crate) async fn submit_bulk(&self, server: usize, orders: &[Order]) -> anyhow::Result<()> {
        let client = &self.clients[server % self.clients.len()];
        let calls: Vec<_> = orders.iter().map(|order| self.invoke(order.asked())).collect();
        let request = BulkRequest { jobs: orders.iter().map(Order::request).collect() };
        let ids = tokio::time::timeout(BULK_ANSWER_WITHIN, client.submit_bulk(&request)).await??.ids;
        for ((call, order), id) in calls.into_iter().zip(orders).zip(ids) {
            let due_us = order.run_at.map(Timestamp::as_micros);
            self.returned(call, Answer::Ok { job: id.to_string(), due_us, state: None, pending: false });
        }
        Ok(())
    }

    pub(crate) async fn delete(&self, server: usize, job: JobId) -> Answer {
        let client = &self.clients[server % self.clients.len()];
        let call = self.invoke(CallKind::Delete { job: job.to_string() });
        let answered = tokio::time::timeout(ANSWER_WITHIN, client.delete_job(job)).await;
        self.returned(call, answer(answered))
    }

    pub(crate) async fn cancel(&self, server: usize, job: JobId) -> Answer {
        let client = &self.clients[server % self.clients.len()];
        let call = self.invoke(CallKind::Cancel { job: job.to_string() });
        let answered = tokio::time::timeout(ANSWER_WITHIN, client.cancel(job)).await;
        self.returned(call, answer(answered))
    }
}

type Answered = Result<Result<punctual_api::Answered, ClientError>, tokio::time::error::Elapsed>;

fn answer(answered: Answered) -> Answer {
    match answered {
        Ok(Ok(answered)) => Answer::Ok {
            job: answered.id.to_string(),
            due_us: None,
            state: Some(answered.state),
            pending: answered.pending,
        },
        Ok(Err(error)) => not_ok(&error),
        Err(_) => Answer::Unknown { why: "no answer in time".to_owned() },
    }
}

/// Only what surely did nothing is a failure.
fn not_ok(error: &ClientError) -> Answer {
    match error {
        ClientError::Problem(problem) if (400..500).contains(&problem.status) => {
            Answer::Fail { why: problem.code.clone() }
        }
        ClientError::Problem(problem) => Answer::Unknown { why: format!("{}: {}", problem.code, problem.detail) },
        error if error.is_refused_connection() => Answer::Fail { why: "connection refused".to_owned() },
        error => Answer::Unknown { why: error.unreachable_because().unwrap_or_else(|| error.to_string()) },
    }
}
