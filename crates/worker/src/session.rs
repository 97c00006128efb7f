//! One stream to a server, from hello to its end.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use punctual_exec::root_cause;
use punctual_proto::MESSAGE_BYTES_MAX;
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_client::WorkerClient;
use tonic::{Status, Streaming};

use crate::link::{End, Link, leaving};
use crate::outgoing::messages;

/// From dialling to the server's welcome.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// An outcome that was not acknowledged for so long is sent again.
const RESEND_AFTER: Duration = Duration::from_secs(5);
const RESEND_EVERY: Duration = Duration::from_secs(1);

/// A server that has sent nothing for so long has heard that no work is taken any more, and
/// what it had sent before has arrived.
const FAREWELL_QUIET: Duration = Duration::from_millis(200);
/// For a server that acknowledges nothing, or sends without end.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// For the server to close its side of a stream that we have closed.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

type Inbound = Streaming<wire::ServerMessage>;

impl Link {
    pub(crate) async fn session(&mut self) -> End {
        let opened = tokio::select! {
            opened = tokio::time::timeout(OPEN_TIMEOUT, self.open()) => {
                opened.unwrap_or_else(|_| Err("no answer".to_owned()))
            }
            () = self.spool_while_down() => unreachable!("spooling goes on until it is dropped"),
            () = leaving(&self.phase) => return self.closed(End::Left),
        };
        let (mut inbound, welcome) = match opened {
            Ok(opened) => opened,
            Err(reason) => return self.closed(End::NotOpened(reason)),
        };
        tracing::info!(server = %self.server.url, worker = %self.profile.id, "connected");
        self.server.ledger.welcomed();
        self.take_in(welcome);
        let end = self.read(&mut inbound).await;
        if matches!(end, End::Left) {
            let _ = tokio::time::timeout(FAREWELL_TIMEOUT, self.give_back(&mut inbound)).await;
        }
        let end = self.closed(end);
        if matches!(end, End::Left) {
            // What still arrives was never received: it is not on record, and no hello follows.
            let rest = async { while let Ok(Some(_)) = inbound.message().await {} };
            let _ = tokio::time::timeout(GOODBYE_TIMEOUT, rest).await;
        }
        end
    }

    /// Refuses what was on its way here when the server heard that this worker leaves, until
    /// nothing more arrives and all of it is acknowledged. Thrown away instead, it would look
    /// as if it ran here, until the server takes the worker for dead.
    async fn give_back(&mut self, inbound: &mut Inbound) {
        loop {
            match tokio::time::timeout(FAREWELL_QUIET, inbound.message()).await {
                Ok(Ok(Some(message))) => self.take_in(message),
                Ok(Ok(None) | Err(_)) => return,
                Err(_quiet) if self.server.ledger.is_drained() => return,
                Err(_quiet) => {}
            }
        }
    }

    /// Dials and says hello; answers the stream and the server's first message on it.
    async fn open(&self) -> Result<(Inbound, wire::ServerMessage), String> {
        let channel = self.server.endpoint.connect().await.map_err(|error| root_cause(&error))?;
        let mut client = WorkerClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let (session, credit) = self.server.ledger.open_session();
        let profile = &self.profile;
        let hello = wire::Hello {
            worker_id: punctual_proto::convert::id_bytes(profile.id.to_bytes()),
            name: profile.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            queues: profile.queues.clone(),
            capabilities: profile.capabilities.clone(),
            labels: profile.labels.clone(),
            credit,
            held: profile.held(),
        };
        let outgoing = messages(self.server.ledger.clone(), session, hello);
        let mut inbound = client.work(outgoing).await.map_err(|status| describe(&status))?.into_inner();
        match inbound.message().await {
            Ok(Some(message)) if message.welcome.is_some() => Ok((inbound, message)),
            Ok(Some(_)) => Err("the server's first message was not a welcome".to_owned()),
            Ok(None) => Err("the server closed the stream".to_owned()),
            Err(status) => Err(describe(&status)),
        }
    }

    async fn read(&mut self, inbound: &mut Inbound) -> End {
        let phase = self.phase.clone();
        let left = leaving(&phase);
        tokio::pin!(left);
        let mut resend = tokio::time::interval(RESEND_EVERY);
        // A complaint about the stream before this one is settled.
        let _ = self.server.forgotten.notified().now_or_never();
        loop {
            tokio::select! {
                message = inbound.message() => match message {
                    Ok(Some(message)) => self.take_in(message),
                    Ok(None) => return End::Broken("the server closed the stream".to_owned()),
                    Err(status) => return End::Broken(describe(&status)),
                },
                () = self.server.forgotten.notified() => {
                    return End::Broken("the server does not know this worker".to_owned());
                }
                _ = resend.tick() => self.server.ledger.resend(RESEND_AFTER, Instant::now()),
                () = &mut left => return End::Left,
            }
        }
    }

    /// After this, nothing more is sent or read on the stream.
    fn closed(&self, end: End) -> End {
        self.server.ledger.close_session();
        if let Some(spool) = &self.spool {
            spool.keep(&self.server.ledger);
        }
        end
    }
}

fn describe(status: &Status) -> String {
    use std::error::Error;
    match status.source() {
        Some(source) => root_cause(source),
        None => format!("{}: {}", status.code(), status.message()),
    }
}
