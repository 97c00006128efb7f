//! What workers ask for.

use punctual_api::limits;
use punctual_core::shard::event::WorkerSpec;
use punctual_core::{AttemptNo, JobId, ServerId, Span, WorkerId};
use punctual_engine::{Changes, Outgoing, WorkerInfo, WorkerSession};
use punctual_store::LogChunk;
use tokio::sync::mpsc;

use crate::{App, AppError, Result, validate};

/// What is kept of an attempt's log. More is dropped, and the worker says so in it.
pub const LOG_BYTES_MAX: u64 = 1 << 20;

/// More slots than this are a mistake, or two workers.
pub const CREDIT_MAX: u32 = 65_536;
/// Queues and capabilities that one worker may name.
const OFFERS_MAX: usize = 1024;

pub struct WorkerHello {
    pub worker: WorkerId,
    pub name: String,
    pub version: String,
    pub spec: WorkerSpec,
    pub held: Vec<(JobId, AttemptNo)>,
}

/// What a worker is told when it connects.
#[derive(Debug, Clone, Copy)]
pub struct HelloAnswer {
    pub server: ServerId,
    pub heartbeat: Span,
    pub dead_after: Span,
}

impl App {
    /// A worker connects. Dropping the session says that it is away.
    pub fn connect_worker(
        &self,
        hello: WorkerHello,
    ) -> Result<(HelloAnswer, WorkerSession, mpsc::UnboundedReceiver<Outgoing>)> {
        check(&hello)?;
        let info = WorkerInfo { name: hello.name, version: hello.version, spec: hello.spec };
        let (session, outgoing) = self.0.engine.connect(hello.worker, info, hello.held);
        let answer = HelloAnswer {
            server: self.0.engine.server(),
            heartbeat: self.0.settings.heartbeat,
            dead_after: self.0.settings.worker_dead_after,
        };
        Ok((answer, session, outgoing))
    }

    /// False when the worker has no connection here.
    pub async fn worker_alive(&self, worker: WorkerId) -> Result<bool> {
        Ok(self.0.engine.alive(worker).await?)
    }

    /// Keeps what attempts printed, up to the limit for each.
    pub async fn append_logs(&self, mut chunks: Vec<LogChunk>) -> Result<()> {
        chunks.retain(|chunk| chunk.offset < LOG_BYTES_MAX && !chunk.bytes.is_empty());
        for chunk in &mut chunks {
            let room = (LOG_BYTES_MAX - chunk.offset) as usize;
            chunk.bytes.truncate(room.max(1));
        }
        if chunks.is_empty() {
            return Ok(());
        }
        Ok(self.0.store.append_logs(chunks).await?)
    }

    pub fn changes(&self) -> Changes {
        self.0.engine.changes()
    }
}

fn check(hello: &WorkerHello) -> Result<()> {
    validate::text("name", &hello.name, limits::LABEL_CHARS_MAX)?;
    validate::text("version", &hello.version, limits::NAME_CHARS_MAX)?;
    let spec = &hello.spec;
    if spec.credit > CREDIT_MAX {
        return Err(AppError::field("credit", format!("must be at most {CREDIT_MAX}")));
    }
    if spec.queues.len() > OFFERS_MAX || spec.capabilities.len() > OFFERS_MAX || spec.labels.len() > limits::LABELS_MAX
    {
        return Err(AppError::invalid("the worker names too many queues, capabilities or labels"));
    }
    for queue in &spec.queues {
        validate::name("queues", queue)?;
    }
    for capability in &spec.capabilities {
        validate::text("capabilities", capability, 2 * limits::NAME_CHARS_MAX)?;
    }
    for (key, value) in &spec.labels {
        validate::name("labels", key)?;
        validate::text("labels", value, limits::LABEL_CHARS_MAX)?;
    }
    Ok(())
}
