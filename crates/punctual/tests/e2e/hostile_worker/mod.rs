//! A worker that lies in every field. It stores nothing beyond the limits of the protocol, and changes no attempt that was
//! not assigned to it.

mod forms;
mod identity;
mod liar;
mod others;
mod own;

use punctual_api::{Job, JobRequest};
use punctual_core::task::{DeliveryMode, Probe, Run, TaskSpec};
use punctual_core::{JobId, Span};

use crate::cluster::{Cluster, LEASE, finished, submit};
use crate::harness::{Home, Process, Server, eventually};

/// Where honest and hostile workers are kept apart, jobs go to a queue of this name for the hostile one.
const HOSTILE: &str = "hostile";

/// One server on either store.
struct Stage {
    server: Server,
    home: Home,
    /// `None` for the embedded one.
    database: Option<String>,
}

impl Stage {
    fn embedded() -> Self {
        let home = Home::new();
        Self { server: home.server(), home, database: None }
    }

    fn postgres() -> Self {
        let cluster = Cluster::new();
        Self { server: cluster.server(&[]), home: cluster.home, database: Some(cluster.database) }
    }

    /// The same with another run of the server, after its death.
    fn restarted(self) -> Self {
        let Self { server, home, database } = self;
        let address = server.address();
        server.kill();
        let server = match &database {
            None => home.server_at(&address, &[]),
            Some(place) => home.server_with(&address, &["--lease-ttl", LEASE], &[("PUNCTUAL_DATABASE", place)]),
        };
        Self { server, home, database }
    }

    /// An honest worker of the queue `default`.
    async fn worker(&self) -> Process {
        let worker = self.home.worker(&self.server, &[]);
        let client = self.server.client();
        eventually("the worker connects", || async { client.stats().await.is_ok_and(|stats| stats.workers == 1) })
            .await;
        worker
    }

    async fn submit(&self, queue: &str, probe: Probe) -> JobId {
        let mut spec = TaskSpec::new(Run::Probe(probe));
        spec.queue = queue.to_owned();
        spec.delivery = DeliveryMode::ExactlyOnce;
        submit(&self.server.client(), &JobRequest { inline: Some(spec), ..JobRequest::default() }).await
    }

    /// A job that the honest worker runs until it is cancelled. The file counts how often it began.
    async fn victim(&self) -> JobId {
        let witness = self.witness().to_str().expect("the path is UTF-8").to_owned();
        let probe = Probe { sleep: Span::from_secs(600), witness: Some(witness), ..Probe::default() };
        let id = self.submit("default", probe).await;
        eventually("the job runs", || async { self.begins() == 1 }).await;
        id
    }

    fn witness(&self) -> std::path::PathBuf {
        self.home.file("witness")
    }

    fn begins(&self) -> usize {
        std::fs::read_to_string(self.witness()).unwrap_or_default().matches(" begin ").count()
    }

    async fn job(&self, id: JobId) -> Job {
        self.server.client().job(id).await.expect("the job is there")
    }

    /// The victim is as it was: it began once, runs in its first attempt, and ends as its own worker says.
    async fn is_untouched(&self, id: JobId) {
        // A server that has just started finds out first.
        eventually("it is known to run", || async { self.job(id).await.state == "running" }).await;
        let job = self.job(id).await;
        assert_eq!((job.state.as_str(), job.attempts.len(), self.begins()), ("running", 1, 1), "{job:#?}");
        assert!(job.late_outcomes.is_empty() && job.output.is_none(), "{job:#?}");
        self.server.client().cancel(id).await.expect("it can be cancelled");
        let job = finished(&self.server.client(), id).await;
        assert_eq!((job.state.as_str(), job.attempts.len()), ("cancelled", 1), "{job:#?}");
        assert_eq!(self.begins(), 1, "it began once");
    }

    async fn log(&self, id: JobId) -> String {
        let client = self.server.client();
        let mut text = String::new();
        let mut logs = punctual_client::Logs::default();
        loop {
            let chunk = client.logs(id, logs).await.expect("the log can be read");
            if chunk.next_offset <= logs.offset {
                return text;
            }
            text += &chunk.text;
            logs = punctual_client::Logs { attempt: Some(chunk.attempt), offset: chunk.next_offset, ..logs };
        }
    }
}

/// Each lie on both stores.
macro_rules! on_both_stores {
    ($($lie:ident),* $(,)?) => {
        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $lie() {
                    super::$lie(crate::hostile_worker::Stage::embedded()).await;
                }
            )*
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $lie() {
                    super::$lie(crate::hostile_worker::Stage::postgres()).await;
                }
            )*
        }
    };
}
pub(crate) use on_both_stores;
