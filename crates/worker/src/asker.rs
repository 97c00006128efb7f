//! Asks servers on behalf of executors. `downloads` and `admissions` say what is asked.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use punctual_core::id::WorkerId;
use punctual_proto::convert::id_bytes;
use tonic::{Code, Response, Status};

use crate::credentials::Client;
use crate::dial::trouble;
use crate::held::Key;
use crate::link::RemoteServer;
use crate::servers::ServerList;
use crate::session::describe;

/// How long one server may take to answer. It reads its memory once and the store once.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Asks servers for executors, which are created before the worker runs and therefore before it has servers.
#[derive(Clone, Default)]
pub(crate) struct Asker(Arc<OnceLock<(WorkerId, ServerList)>>);

pub(crate) struct ServerAnswer<T> {
    pub(crate) reply: T,
    /// The address of the server that answered.
    pub(crate) server: String,
    /// The addresses of the other servers.
    pub(crate) others: Vec<String>,
}

/// The identity of the worker that asks, and the attempt that it asks about.
pub(crate) struct AttemptQuestion {
    pub(crate) worker_id: Bytes,
    pub(crate) job_id: Bytes,
    pub(crate) attempt: u32,
    pub(crate) token: Bytes,
}

/// Why a question has no answer.
pub(crate) enum AskError {
    /// No server could answer now; one may be able to a moment later.
    Unavailable(String),
    /// The server says that the attempt is not this worker's.
    NotOurs(String),
    /// The server refused the question. Asking again gives the same result.
    Refused(String),
}

impl Asker {
    /// Sets the servers to ask. A second run of the same worker keeps asking the servers of the first.
    pub(crate) fn begin(&self, worker: WorkerId, servers: ServerList) {
        let _ = self.0.set((worker, servers));
    }

    /// Asks the servers in turn until one answers. Any server can find the shard's owner, so the first answer is final.
    pub(crate) async fn ask<T, F>(
        &self,
        attempt: Key,
        question: impl Fn(Client, AttemptQuestion) -> F,
    ) -> Result<ServerAnswer<T>, AskError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let Some((worker, servers)) = self.0.get() else {
            return Err(AskError::Unavailable("the worker does not run yet".to_owned()));
        };
        let servers = servers.borrow().clone();
        let mut reasons = Vec::new();
        for server in servers.iter() {
            let asking = AttemptQuestion {
                worker_id: id_bytes(worker.to_bytes()),
                job_id: id_bytes(attempt.0.to_bytes()),
                attempt: attempt.1.0,
                token: server.held.token(attempt),
            };
            match ask(server, |client| question(client, asking)).await {
                Ok(reply) => {
                    let others = servers.iter().filter(|other| other.url != server.url);
                    let others = others.map(|other| other.url.clone()).collect();
                    return Ok(ServerAnswer { reply, server: server.url.clone(), others });
                }
                Err(status) if status.code() == Code::PermissionDenied => {
                    return Err(AskError::NotOurs(status.message().to_owned()));
                }
                Err(status) if is_final(&status) => return Err(AskError::Refused(status.message().to_owned())),
                Err(status) => reasons.push(format!("{}: {}", server.url, describe(&status))),
            }
        }
        Err(AskError::Unavailable(if reasons.is_empty() {
            "no server is known".to_owned()
        } else {
            reasons.join("; ")
        }))
    }
}

async fn ask<T, F>(server: &RemoteServer, question: impl FnOnce(Client) -> F) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let asked = async {
        let channel = server.connect_beside().await;
        let channel = channel.map_err(|error| Status::unavailable(trouble(&error)))?;
        Ok(question(server.client(channel)).await?.into_inner())
    };
    tokio::time::timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| Err(Status::unavailable("no answer in time")))
}

/// Whether another try, or another server, would give the same answer.
fn is_final(status: &Status) -> bool {
    matches!(status.code(), Code::InvalidArgument | Code::NotFound)
}
