//! One lane. The next batch is sent before the last is answered. So that it cannot overtake one
//! that did not fit and is looked at again, each batch fails unless the one before it
//! committed on the same connection: `punctual.last` is a setting of the session that a rollback takes back.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use punctual_core::shard::write::Batch;
use punctual_store::{Applied, Result, RunSteps, StoreError};
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::{Error, Row};

use super::apply::{self, Followed};
use super::lanes::{Call, Common, Message};
use super::named::Named;
use crate::connection::{Class, Conn};
use crate::link::Link;
use crate::pipeline::Pipeline;
use crate::trouble::Trouble;
use crate::workflows::{DEADLOCK_TRIES, Steps};

/// One is worked on while the next is on its way; more would only wait.
const IN_FLIGHT_MAX: usize = 2;
const IN_DOUBT: &str = "what was written before is not known; the shards must be taken anew";

struct InFlight {
    call: Call,
    number: u64,
    pipeline: Pipeline,
    named: Vec<Named>,
    followed: Followed,
}

pub(super) struct Lane {
    common: Arc<Common>,
    link: Link,
    messages: mpsc::UnboundedReceiver<Message>,
    conn: Option<Arc<Conn>>,
    /// The number of the last batch that was sent on this connection, or that committed if a
    /// later one did not.
    last: u64,
    in_flight: VecDeque<InFlight>,
    /// Since when PostgreSQL works on the first of them.
    front_since: Instant,
}

/// What happened first.
enum Next {
    Message(Option<Message>),
    Answered(Done),
}

type Answers = Vec<std::result::Result<Vec<Row>, Error>>;
type Done = std::result::Result<Answers, Elapsed>;

impl Lane {
    pub(super) fn new(common: Arc<Common>, link: Link, messages: mpsc::UnboundedReceiver<Message>) -> Self {
        Self { common, link, messages, conn: None, last: 0, in_flight: VecDeque::new(), front_since: Instant::now() }
    }

    pub(super) async fn run(mut self) {
        loop {
            let room = self.in_flight.len() < IN_FLIGHT_MAX;
            let deadline = self.deadline();
            let next = match self.in_flight.front_mut() {
                None => Next::Message(self.messages.recv().await),
                Some(front) => tokio::select! {
                    biased;
                    answers = timeout_at(deadline, &mut front.pipeline) => Next::Answered(answers),
                    message = self.messages.recv(), if room && !self.messages.is_closed() => Next::Message(message),
                },
            };
            match next {
                Next::Answered(answers) => self.answered(answers).await,
                Next::Message(Some(Message::Apply(call))) if call.arrived.is_empty() => self.send(call).await,
                Next::Message(Some(Message::Apply(call))) => self.apply_for_all(call).await,
                Next::Message(Some(Message::Wait { arrived, release })) => {
                    self.finish().await;
                    // An error says that the batch is gone, because its own lane broke.
                    if arrived.send(()).is_ok() {
                        let _ = release.await;
                    }
                }
                Next::Message(None) => {
                    self.finish().await;
                    if self.messages.is_empty() {
                        return;
                    }
                }
            }
        }
    }

    /// Waits for everything that is in flight.
    async fn finish(&mut self) {
        loop {
            let deadline = self.deadline();
            let Some(front) = self.in_flight.front_mut() else { return };
            let answers = timeout_at(deadline, &mut front.pipeline).await;
            self.answered(answers).await;
        }
    }

    async fn apply_for_all(&mut self, mut call: Call) {
        self.finish().await;
        for arrived in std::mem::take(&mut call.arrived) {
            if arrived.await.is_err() {
                // That lane broke, and what it had before this batch was not applied.
                let broken = "a connection broke before this batch";
                return self.common.fail(call, &StoreError::Unavailable(broken.to_owned()));
            }
        }
        self.send(call).await;
        self.finish().await;
    }

    async fn send(&mut self, call: Call) {
        if self.conn.as_ref().is_some_and(|conn| !conn.is_usable()) {
            // What is in flight on a broken connection fails first.
            self.finish().await;
        }
        if self.common.is_in_doubt(&call.batch) {
            return self.common.fail(call, &StoreError::Unavailable(IN_DOUBT.to_owned()));
        }
        let nodes = match self.common.prepare(&call.batch).await {
            Ok(nodes) => nodes,
            Err(error) => return self.common.fail(call, &error),
        };
        let conn = match self.connect().await {
            Ok(conn) => conn,
            Err(error) => return self.common.fail(call, &error),
        };
        let number = self.last + 1;
        let memory = self.common.memory();
        match apply::send(&conn, &nodes, memory, &call.batch, self.last, number).await {
            Ok(sent) => {
                let (mut pipeline, named, followed) = sent.split();
                // The first poll sends everything.
                let answered = poll_fn(|cx| Poll::Ready(Pin::new(&mut pipeline).poll(cx))).await;
                if self.in_flight.is_empty() {
                    self.front_since = Instant::now();
                }
                self.last = number;
                self.in_flight.push_back(InFlight { call, number, pipeline, named, followed });
                if let Poll::Ready(answers) = answered {
                    // Only a connection that is closed answers at once.
                    self.broke(answers.into_iter().find_map(std::result::Result::err).map(Trouble::from)).await;
                }
            }
            // A write that cannot be made; but first it may be fenced, or void.
            Err(Trouble::Refused(_)) => {
                self.finish().await;
                self.look_again(call).await;
            }
            Err(trouble) => {
                self.finish().await;
                self.common.fail(call, &trouble.into());
            }
        }
    }

    async fn connect(&mut self) -> Result<Arc<Conn>> {
        let conn = self.link.conn().await?;
        if self.conn.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &conn)) {
            debug_assert!(self.in_flight.is_empty(), "a broken connection was finished");
            self.conn = Some(conn.clone());
            self.last = 0;
        }
        Ok(conn)
    }

    /// When the first batch in flight should have been answered.
    fn deadline(&self) -> Instant {
        self.front_since + Class::Lane.answer_limit()
    }

    /// PostgreSQL goes on with the next.
    fn pop_front(&mut self) -> Option<InFlight> {
        self.front_since = Instant::now();
        self.in_flight.pop_front()
    }

    /// The first batch in flight has its answers.
    async fn answered(&mut self, answers: Done) {
        let Ok(answers) = answers else {
            return self.broke(Some(Trouble::Silent(Class::Lane.answer_limit()))).await;
        };
        let Some(front) = self.pop_front() else { return };
        let Followed { steps, runs } = front.followed;
        let applied = apply::judge(front.named, answers, steps);
        if applied.is_err() {
            self.common.memory().runs.forget(&runs);
        }
        match applied {
            Ok(applied) => front.call.answer(Ok(applied)),
            Err(trouble) if trouble.is_about_the_statement() => {
                if trouble.is_without_partition() {
                    self.common.forget_partitions();
                }
                self.last = front.number - 1;
                let behind = self.take_behind().await;
                match behind {
                    Ok(behind) => {
                        self.look_again(front.call).await;
                        for call in behind {
                            Box::pin(self.send(call)).await;
                        }
                    }
                    Err(trouble) => {
                        let error = trouble.into();
                        self.common.fail(front.call, &error);
                    }
                }
            }
            Err(trouble) => {
                let error = StoreError::from(trouble);
                self.common.fail(front.call, &error);
                self.broke_with(&error).await;
            }
        }
    }

    /// Those behind a batch that did not fit have failed for that reason alone.
    async fn take_behind(&mut self) -> std::result::Result<Vec<Call>, Trouble> {
        let mut behind = Vec::new();
        while let Some(mut next) = self.pop_front() {
            self.common.memory().runs.forget(&next.followed.runs);
            // The batch before it was just answered.
            let answers = timeout(Class::Lane.answer_limit(), &mut next.pipeline).await;
            let judged = match answers {
                Ok(answers) => apply::judge(next.named, answers, RunSteps::default()),
                Err(_) => Err(Trouble::Silent(Class::Lane.answer_limit())),
            };
            match judged {
                Err(trouble) if trouble.is_about_the_statement() => behind.push(next.call),
                judged => {
                    debug_assert!(judged.is_err(), "a batch overtook the one before it");
                    let trouble = judged.err().unwrap_or_else(|| Trouble::inconsistent("a batch overtook another"));
                    let error = StoreError::from(trouble);
                    behind.push(next.call);
                    for call in behind {
                        self.common.fail(call, &error);
                    }
                    self.broke_with(&error).await;
                    return Err(Trouble::Refused(error));
                }
            }
        }
        Ok(behind)
    }

    /// Nothing is in flight, and nothing of this batch was applied.
    async fn look_again(&mut self, call: Call) {
        let mut applied = self.try_again(&call.batch).await;
        for _ in 1..DEADLOCK_TRIES {
            if !applied.as_ref().is_err_and(Trouble::is_transient) {
                break;
            }
            applied = self.try_again(&call.batch).await;
        }
        if applied.as_ref().is_err_and(Trouble::is_without_partition) {
            // The list of partitions was wrong.
            self.common.forget_partitions();
            applied = self.try_again(&call.batch).await;
        }
        match applied.map_err(StoreError::from) {
            Ok(applied) => call.answer(Ok(applied)),
            Err(error @ StoreError::Unavailable(_)) => {
                self.common.fail(call, &error);
                self.broke_with(&error).await;
            }
            Err(error) => call.answer(Err(error)),
        }
    }

    async fn try_again(&mut self, batch: &Batch) -> std::result::Result<Applied, Trouble> {
        if self.common.is_in_doubt(batch) {
            return Err(StoreError::Unavailable(IN_DOUBT.to_owned()).into());
        }
        let nodes = self.common.prepare(batch).await?;
        let conn = self.connect().await?;
        let graphs = &self.common.memory().graphs;
        // What is written now is read when it is needed.
        self.common.memory().runs.forget(&apply::runs_of(batch));
        let mut applied = if apply::ends_jobs_of_runs(batch) {
            apply::apply_with_steps(&conn, &nodes, graphs, batch, self.last).await
        } else {
            apply::apply_carefully(&conn, &nodes, graphs, batch, Steps::Trusted).await
        };
        if apply::ends_jobs_of_runs(batch) && applied.as_ref().is_err_and(Trouble::may_fit_otherwise) {
            // It may be fenced or void, or it may be the step of one run that cannot be stored.
            conn.run("ROLLBACK").await?;
            applied = apply::apply_carefully(&conn, &nodes, graphs, batch, Steps::Guarded).await;
        }
        if applied.is_err() && conn.run("ROLLBACK").await.is_err() {
            conn.give_up();
        }
        applied
    }

    async fn broke(&mut self, trouble: Option<Trouble>) {
        let error =
            trouble.map_or_else(|| StoreError::Unavailable("the connection broke".to_owned()), StoreError::from);
        self.broke_with(&error).await;
    }

    /// Everything that is in flight or queued fails.
    async fn broke_with(&mut self, error: &StoreError) {
        if let Some(conn) = self.conn.take() {
            conn.give_up();
        }
        self.last = 0;
        let mut failed: Vec<Call> = Vec::new();
        for in_flight in self.in_flight.drain(..) {
            self.common.memory().runs.forget(&in_flight.followed.runs);
            failed.push(in_flight.call);
        }
        while let Ok(message) = self.messages.try_recv() {
            // One who waits for this lane sees that it is gone.
            if let Message::Apply(call) = message {
                failed.push(call);
            }
        }
        tracing::warn!(%error, batches = failed.len(), "a connection for batches broke");
        for call in failed {
            self.common.fail(call, error);
        }
    }
}
