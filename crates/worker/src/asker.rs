//! Asks servers what executors need to know: `downloads` and `admissions` say what that is.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use punctual_core::id::WorkerId;
use punctual_exec::connection_trouble;
use punctual_proto::convert::id_bytes;
use tonic::{Code, Response, Status};

use crate::credentials::Client;
use crate::ledger::Key;
use crate::link::Server;
use crate::servers::ServerList;
use crate::session::describe;

/// For one server. An answer takes it a look at its memory and one at the store.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// For executors that are made before the worker runs, and so before it has servers.
#[derive(Clone, Default)]
pub(crate) struct Asker(Arc<OnceLock<(WorkerId, ServerList)>>);

pub(crate) struct Answer<T> {
    pub(crate) reply: T,
    /// The address of the server that gave it.
    pub(crate) server: String,
    /// Those of the others.
    pub(crate) others: Vec<String>,
}

/// Who asks, and about which attempt.
pub(crate) struct Asking {
    pub(crate) worker_id: Bytes,
    pub(crate) job_id: Bytes,
    pub(crate) attempt: u32,
    pub(crate) token: Bytes,
}

/// Why there is no answer.
pub(crate) enum Unanswered {
    /// It may come in a moment.
    Unavailable(String),
    /// The server says that the attempt is not this worker's.
    NotOurs(String),
    /// It would be the same again.
    Refused(String),
}

impl Asker {
    /// A second run of the same worker keeps asking the servers of the first.
    pub(crate) fn begin(&self, worker: WorkerId, servers: ServerList) {
        let _ = self.0.set((worker, servers));
    }

    /// Any server knows whom to ask; the first that answers is as good as the rest.
    pub(crate) async fn ask<T, F>(
        &self,
        attempt: Key,
        question: impl Fn(Client, Asking) -> F,
    ) -> Result<Answer<T>, Unanswered>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let Some((worker, servers)) = self.0.get() else {
            return Err(Unanswered::Unavailable("the worker does not run yet".to_owned()));
        };
        let servers = servers.borrow().clone();
        let mut reasons = Vec::new();
        for server in servers.iter() {
            let asking = Asking {
                worker_id: id_bytes(worker.to_bytes()),
                job_id: id_bytes(attempt.0.to_bytes()),
                attempt: attempt.1.0,
                token: server.ledger.token(attempt),
            };
            match ask(server, |client| question(client, asking)).await {
                Ok(reply) => {
                    let others = servers.iter().filter(|other| other.url != server.url);
                    let others = others.map(|other| other.url.clone()).collect();
                    return Ok(Answer { reply, server: server.url.clone(), others });
                }
                Err(status) if status.code() == Code::PermissionDenied => {
                    return Err(Unanswered::NotOurs(status.message().to_owned()));
                }
                Err(status) if is_final(&status) => return Err(Unanswered::Refused(status.message().to_owned())),
                Err(status) => reasons.push(format!("{}: {}", server.url, describe(&status))),
            }
        }
        Err(Unanswered::Unavailable(if reasons.is_empty() {
            "no server is known".to_owned()
        } else {
            reasons.join("; ")
        }))
    }
}

async fn ask<T, F>(server: &Server, question: impl FnOnce(Client) -> F) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let asked = async {
        let channel = server.beat_endpoint.connect().await;
        let channel = channel.map_err(|error| Status::unavailable(connection_trouble(&error)))?;
        Ok(question(server.client(channel)).await?.into_inner())
    };
    tokio::time::timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| Err(Status::unavailable("no answer in time")))
}

/// Whether asking again, or another server, would be answered the same.
fn is_final(status: &Status) -> bool {
    matches!(status.code(), Code::InvalidArgument | Code::NotFound)
}
