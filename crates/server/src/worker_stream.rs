//! What a worker says on its stream, from its hello to its end.
//!
//! A worker may be anybody's program, so nothing here is believed: each field has a limit, and what is said about an attempt
//! counts only with the token of its assignment. A message that breaks a limit of its form ends the stream; an outcome or a
//! piece of a log without its token is dropped, and the log of the server says so now and then.

use std::time::Duration;

use punctual_app::permission::ServeJobs;
use punctual_app::{App, By, CREDIT_MAX, Parting, Principal, Throttle, WorkerHello};
use punctual_core::namespace::ServedNamespaces;
use punctual_core::shard::event::{Report, StreamId, WorkerSpec};
use punctual_core::{AttemptNo, JobId, ShardId, WorkerId};
use punctual_engine::WorkerSession;
use punctual_proto::bounds::bounded_report;
use punctual_proto::convert::{self, BadMessage};
use punctual_proto::worker as wire;
use punctual_store::LogChunk;
use tokio::sync::oneshot;
use tokio::time::{Instant, interval_at};
use tonic::{Status, Streaming};

use crate::grpc::{Welcomed, peers_message, read_identity, refused, to_millis};

/// A worker that connects and says nothing is cut off after this.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// Outcomes of one message. A worker puts no more into one.
const OUTCOMES_LEN_MAX: usize = 4096;
/// Pieces of logs of one message: as many lines as a batch has room for.
const LOGS_LEN_MAX: usize = 32_768;
/// Messages that the driver may not have taken yet. More wait in the worker's own connection.
const UNTAKEN_LEN_MAX: usize = 8;
/// How often a worker that leaves its answers unread is looked at.
const CROWDED_PAUSE: Duration = Duration::from_millis(50);

/// A worker without right to what it says may say it without end.
static REFUSED: Throttle = Throttle::new(Duration::from_secs(10));

/// One worker's stream, from its hello to its end.
pub(crate) async fn attend(
    app: App,
    by: By<ServeJobs>,
    stream: StreamId,
    mut inbound: Streaming<wire::WorkerMessage>,
    welcome: oneshot::Sender<Result<Welcomed, Status>>,
    mut closed: oneshot::Receiver<()>,
) {
    let first = tokio::select! {
        _ = &mut closed => return,
        first = tokio::time::timeout(HELLO_WITHIN, inbound.message()) => first,
    };
    // Read before the hello is cut to it, so that no change after that is missed.
    let served = app.namespaces_of_worker(&by);
    let first = first.unwrap_or_else(|_| Err(Status::deadline_exceeded("the worker did not say hello")));
    match first.and_then(|first| meet(&app, &by, stream, first)) {
        Err(status) => {
            let _ = welcome.send(Err(status));
        }
        Ok((worker, session, first, welcomed, held)) => {
            // Not heard when the stream is gone already; then `closed` says so.
            let _ = welcome.send(Ok(welcomed));
            let listener = Listener { app, by, served, worker, session, untaken: 0 };
            listener.invite_to_owners(held.into_iter());
            listener.receive(inbound, first, closed).await;
        }
    }
}

/// With the shards of the attempts that the worker holds.
type Met = (WorkerId, WorkerSession, wire::WorkerMessage, Welcomed, Vec<ShardId>);

fn meet(app: &App, by: &By<ServeJobs>, stream: StreamId, first: Option<wire::WorkerMessage>) -> Result<Met, Status> {
    let mut first = first.unwrap_or_default();
    let hello = first.hello.take().ok_or_else(|| Status::invalid_argument("the first message must be a hello"))?;
    let hello = read_hello(hello)?;
    let worker = hello.worker;
    let name = hello.name.clone();
    let held = hello.held.iter().map(|(job, _)| job.shard()).collect();
    let (session, outgoing) = app.connect_worker(by, stream, hello).map_err(|error| refused(&error))?;
    let (settings, mut peers) = (app.settings(), app.announced());
    tracing::info!(%worker, name, "a worker connected");
    let message = wire::Welcome {
        server_id: convert::id_bytes(app.server_id().to_bytes()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        heartbeat_ms: to_millis(settings.heartbeat),
        dead_after_ms: to_millis(settings.worker_dead_after),
        log_bytes_max: settings.log_limit.get() as u32,
        peers: Some(peers_message(&peers.borrow_and_update())),
    };
    Ok((worker, session, first, Welcomed { message, outgoing, peers }, held))
}

/// The receiving side of a stream.
struct Listener {
    app: App,
    by: By<ServeJobs>,
    /// The namespaces that the worker may serve by its enrolment, as its hello was cut to them.
    served: Option<ServedNamespaces>,
    worker: WorkerId,
    session: WorkerSession,
    /// Messages since the driver was last known to have taken all of them.
    untaken: usize,
}

impl Listener {
    /// Takes in what the worker says until either side ends the connection.
    async fn receive(
        mut self,
        mut inbound: Streaming<wire::WorkerMessage>,
        first: wire::WorkerMessage,
        mut closed: oneshot::Receiver<()>,
    ) {
        let worker = self.worker;
        let mut message = Some(first);
        let mut parting = Parting::Lost;
        let mut checks = interval_at(Instant::now() + Principal::CHECKED_EVERY, Principal::CHECKED_EVERY);
        loop {
            if message.as_ref().is_some_and(|message| message.leaving) {
                parting = Parting::Left;
            }
            if let Some(message) = message.take()
                && let Err(error) = self.take(message).await
            {
                tracing::warn!(%worker, %error, "the message of a worker was not taken; cutting it off");
                break;
            }
            tokio::select! {
                // The engine or the worker dropped the other direction.
                _ = &mut closed => break,
                _ = checks.tick() => {
                    let now = self.app.namespaces_of_worker(&self.by);
                    if now.is_some() && now != self.served {
                        tracing::info!(%worker, "a worker is to serve other namespaces; it connects again");
                        break;
                    }
                }
                received = async { self.may_read().await; inbound.message().await } => match received {
                    Ok(Some(received)) => message = Some(received),
                    Ok(None) => break,
                    Err(status) => {
                        tracing::debug!(%worker, %status, "the connection of a worker broke");
                        break;
                    }
                },
            }
        }
        drop(self.session);
        self.app.worker_parted(worker, parting);
        tracing::info!(%worker, "a worker disconnected");
    }

    /// Waits for a worker that does not read its answers to do so.
    async fn may_read(&self) {
        while self.session.is_crowded() {
            tokio::time::sleep(CROWDED_PAUSE).await;
        }
    }

    async fn take(&mut self, message: wire::WorkerMessage) -> Result<(), BadMessage> {
        if message.outcomes.len() > OUTCOMES_LEN_MAX || message.logs.len() > LOGS_LEN_MAX {
            return Err(BadMessage("it has too many outcomes or pieces of logs"));
        }
        if let Some(credit) = message.credit {
            if credit > CREDIT_MAX {
                return Err(BadMessage("the credit is larger than any worker's"));
            }
            self.session.credit(credit);
        }
        // Before the outcomes: whoever hears that a job ended finds its log complete.
        if !message.logs.is_empty() {
            let chunks = self.read_logs(message.logs)?;
            match self.app.append_logs(chunks).await {
                Ok(()) => {}
                // It says all of it again on its next stream, and its outcomes after that.
                Err(error) if error.kind.is_retryable() => return Err(BadMessage("the store does not take its logs")),
                Err(error) => tracing::warn!(%error, "a piece of a log was not kept"),
            }
        }
        if !message.outcomes.is_empty() {
            self.take_outcomes(message.outcomes)?;
        }
        self.untaken += 1;
        if self.untaken >= UNTAKEN_LEN_MAX {
            self.session.taken().await;
            self.untaken = 0;
        }
        Ok(())
    }

    fn take_outcomes(&self, outcomes: Vec<wire::Outcome>) -> Result<(), BadMessage> {
        let mut reports = Vec::with_capacity(outcomes.len());
        let mut unproven = Vec::new();
        let tokens = self.app.attempt_tokens();
        for mut outcome in outcomes {
            let token = std::mem::take(&mut outcome.token);
            let report: Report = convert::outcome_from_wire(outcome)?;
            if tokens.is_of(report.id, report.attempt, &token) {
                reports.push(bounded_report(report));
            } else {
                unproven.push((report.id, report.attempt));
            }
        }
        self.invite_to_owners(reports.iter().map(|report| report.id.shard()));
        if !reports.is_empty() {
            self.session.report(reports);
        }
        if !unproven.is_empty() {
            self.check_judgement()?;
            self.say_refused("outcomes", unproven.len());
            // Or it would repeat them for as long as it lives.
            self.session.refuse(unproven);
        }
        Ok(())
    }

    /// Tells the worker to connect to the servers that own these shards now: only they acknowledge an outcome.
    fn invite_to_owners(&self, shards: impl Iterator<Item = ShardId>) {
        let owners = self.app.owners_elsewhere(shards);
        if !owners.is_empty() {
            self.session.invite(owners);
        }
    }

    fn read_logs(&self, logs: Vec<wire::LogChunk>) -> Result<Vec<LogChunk>, BadMessage> {
        let said = logs.len();
        let mut chunks = Vec::with_capacity(said);
        let tokens = self.app.attempt_tokens();
        for log in logs {
            let (job, attempt): (JobId, AttemptNo) = (convert::job_id(&log.job_id)?, AttemptNo(log.attempt));
            if tokens.is_of(job, attempt, &log.token) {
                chunks.push(LogChunk { job, attempt, offset: log.offset, bytes: log.bytes, marks: log.marks });
            }
        }
        if chunks.len() < said {
            self.check_judgement()?;
            self.say_refused("pieces of logs", said - chunks.len());
        }
        Ok(chunks)
    }

    /// A token may be signed with a secret that this server has not read yet. The worker says all of it again on its next stream.
    fn check_judgement(&self) -> Result<(), BadMessage> {
        if self.app.knows_cluster_secret() {
            return Ok(());
        }
        Err(BadMessage("the tokens of attempts cannot be verified while the database is unavailable"))
    }

    fn say_refused(&self, what: &str, count: usize) {
        if let Some(left_out) = REFUSED.pass() {
            let worker = self.worker;
            tracing::warn!(%worker, count, left_out, "{what} of a worker were refused: it was not assigned these attempts");
        }
    }
}

fn read_hello(hello: wire::Hello) -> Result<WorkerHello, Status> {
    let held: Result<Vec<_>, BadMessage> = hello.held.iter().map(convert::read_attempt_ref).collect();
    Ok(WorkerHello {
        worker: read_identity(&hello.worker_id, &hello.secret)?,
        name: hello.name,
        host: Some(hello.host).filter(|host| !host.is_empty()),
        version: hello.version,
        spec: WorkerSpec {
            // Its enrolment says which; a worker on this machine serves all.
            namespaces: ServedNamespaces::All,
            queues: hello.queues,
            capabilities: hello.capabilities,
            labels: hello.labels.into_iter().collect(),
            credit: hello.credit,
        },
        held: held.map_err(|error| Status::invalid_argument(error.to_string()))?,
        acquired: hello.acquired,
        commands_as: hello.commands_as,
    })
}
