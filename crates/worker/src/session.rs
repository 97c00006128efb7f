//! One stream to a server, from its greeting to its end.

use std::time::Duration;

use futures_util::FutureExt;
use punctual_proto::MESSAGE_BYTES_MAX;
use punctual_proto::worker as wire;
use tokio::sync::oneshot;
use tonic::{Code, Status, Streaming};

use crate::dial::trouble;
use crate::held::{HelloContent, IsAlias};
use crate::intake::read_greeting;
use crate::link::{ServerLink, SessionEnd, leaving};
use crate::outgoing::messages;

/// The time limit from dialling to the server's welcome.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that has sent nothing for this long knows that the worker takes no more work, and everything that it had
/// sent before has arrived.
const FAREWELL_QUIET: Duration = Duration::from_millis(200);
/// The time limit for the farewell, for a server that acknowledges nothing or keeps sending.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait for the server to close its side of a stream that the worker has closed.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

type Inbound = Streaming<wire::ServerMessage>;

impl ServerLink {
    pub(crate) async fn session(&mut self) -> SessionEnd {
        let opened = tokio::select! {
            opened = tokio::time::timeout(OPEN_TIMEOUT, self.open()) => {
                opened.unwrap_or_else(|_| Err(SessionEnd::NotOpened("no answer".to_owned())))
            }
            () = leaving(&self.phase) => return self.closed(SessionEnd::Left),
        };
        let (mut inbound, welcome) = match opened {
            Ok(opened) => opened,
            // The stream of the other link goes on.
            Err(SessionEnd::Alias) => return SessionEnd::Alias,
            Err(end) => return self.closed(end),
        };
        tracing::info!(server = %self.server.url, worker = %self.profile.id, "connected");
        self.server.held.welcomed(self.server.link);
        self.take_in(welcome);
        let end = self.read(&mut inbound).await;
        if matches!(end, SessionEnd::Left) {
            let _ = tokio::time::timeout(FAREWELL_TIMEOUT, self.give_back(&mut inbound)).await;
        }
        let end = self.closed(end);
        if matches!(end, SessionEnd::Left) {
            // What still arrives was never received: it is not on record, and no hello follows.
            let rest = async { while let Ok(Some(_)) = inbound.message().await {} };
            let _ = tokio::time::timeout(GOODBYE_TIMEOUT, rest).await;
        }
        end
    }

    /// Gives back the assignments that were on their way when the server learned that this worker leaves, until no more
    /// arrive and all are acknowledged. If they were discarded, the server would believe that they run until it
    /// considers the worker dead.
    async fn give_back(&mut self, inbound: &mut Inbound) {
        loop {
            match tokio::time::timeout(FAREWELL_QUIET, inbound.message()).await {
                Ok(Ok(Some(message))) => self.take_in(message),
                Ok(Ok(None) | Err(_)) => return,
                Err(_quiet) if self.server.held.is_drained(self.server.link) => return,
                Err(_quiet) => {}
            }
        }
    }

    /// Connects, reads the greeting and sends the hello. Returns the stream and the server's welcome.
    async fn open(&self) -> Result<(Inbound, wire::ServerMessage), SessionEnd> {
        let not_opened = |reason: String| SessionEnd::NotOpened(reason);
        let channel = self.server.connect().await.map_err(|error| not_opened(not_connected(&error)))?;
        let mut client = self
            .server
            .client(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let (held, link) = (&self.server.held, self.server.link);
        let (introduce, introduction) = oneshot::channel();
        let outgoing = messages(held.clone(), link, introduction);
        let opened = client.work(outgoing).await.map_err(|status| turned_away(&status))?;
        let mut inbound = opened.into_inner();
        let greeting = read_greeting(next(&mut inbound).await?).map_err(|reason| not_opened(reason.to_owned()))?;
        let HelloContent { session, credit, held: held_refs } =
            held.greeted(link, &greeting).map_err(|IsAlias| SessionEnd::Alias)?;
        let profile = &self.profile;
        let hello = wire::Hello {
            worker_id: punctual_proto::convert::id_bytes(profile.id.to_bytes()),
            name: profile.name.clone(),
            host: profile.host.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            queues: profile.queues.clone(),
            capabilities: profile.capabilities.clone(),
            labels: profile.labels.clone(),
            credit,
            held: held_refs,
            acquired: greeting.acquired,
            commands_as: profile.commands_as.clone(),
            secret: profile.secret.to_bytes().to_vec().into(),
        };
        // Not taken when the stream has broken already: then there is no welcome either.
        let _ = introduce.send((session, hello));
        let welcome = next(&mut inbound).await?;
        if welcome.welcome.is_none() {
            return Err(not_opened("the server's answer to a hello was not a welcome".to_owned()));
        }
        Ok((inbound, welcome))
    }

    async fn read(&mut self, inbound: &mut Inbound) -> SessionEnd {
        let phase = self.phase.clone();
        let left = leaving(&phase);
        tokio::pin!(left);
        // A complaint about the stream before this one is settled.
        let _ = self.server.forgotten.notified().now_or_never();
        loop {
            tokio::select! {
                message = inbound.message() => match message {
                    Ok(Some(message)) => self.take_in(message),
                    Ok(None) => return SessionEnd::Closed,
                    Err(status) => return SessionEnd::Broken(describe(&status)),
                },
                () = self.server.forgotten.notified() => {
                    return SessionEnd::Broken("the server does not know this worker".to_owned());
                }
                () = &mut left => return SessionEnd::Left,
            }
        }
    }

    /// Closes the stream: nothing more is sent or read on it.
    fn closed(&self, end: SessionEnd) -> SessionEnd {
        self.server.held.closed(self.server.link);
        end
    }
}

async fn next(inbound: &mut Inbound) -> Result<wire::ServerMessage, SessionEnd> {
    match inbound.message().await {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err(SessionEnd::NotOpened("the server closed the stream".to_owned())),
        Err(status) => Err(turned_away(&status)),
    }
}

/// Why a stream was not opened. A server that answers has been reached.
fn turned_away(status: &Status) -> SessionEnd {
    let reason = describe(status);
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument => SessionEnd::Refused(reason),
        _ => SessionEnd::NotOpened(reason),
    }
}

/// Describes why there is no connection, and what to do about it.
fn not_connected(error: &tonic::transport::Error) -> String {
    format!("{}; start a server with `punctual server`, or name another one with --server", trouble(error))
}

/// Describes an error status: what the server said, or what happened to the connection.
pub(crate) fn describe(status: &Status) -> String {
    /// Texts that only libraries use; our servers answer in sentences.
    const OTHERS: [&str; 3] = ["grpc-status", "HTTP status", "h2 protocol error"];
    if let Some(source) = std::error::Error::source(status) {
        return trouble(source);
    }
    match status.message() {
        "" => "the server gave no reason".to_owned(),
        message if OTHERS.iter().any(|word| message.contains(word)) => {
            "it is no Punctual server, or a proxy before it does not pass gRPC on".to_owned()
        }
        message => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_says_no_has_been_reached() {
        for status in [Status::unauthenticated("no token"), Status::invalid_argument("name: is too long")] {
            assert!(matches!(turned_away(&status), SessionEnd::Refused(reason) if reason == status.message()));
        }
        assert!(matches!(turned_away(&Status::unavailable("it stops")), SessionEnd::NotOpened(_)));
    }

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_server() {
        for (status, told) in [
            (Status::invalid_argument("the name of the worker is too long"), "the name of the worker is too long"),
            (Status::unauthenticated(""), "the server gave no reason"),
            (
                Status::unimplemented("grpc-status header missing, mapped from HTTP status code 404"),
                "it is no Punctual server, or a proxy before it does not pass gRPC on",
            ),
        ] {
            assert_eq!(describe(&status), told);
        }
        let mut broken = Status::unavailable("transport error");
        broken.set_source(std::sync::Arc::new(std::io::Error::from_raw_os_error(111)));
        assert_eq!(describe(&broken), "nothing listens there");
    }
}
