//! Reconnects to a server that is unavailable for a moment: jobs go on without us, and a restart takes seconds. Does not wait for
//! a server that was never reached.

use std::cell::Cell;
use std::time::Duration;

use punctual_client::ClientError;
use punctual_core::JobId;
use tokio::time::Instant;

use crate::exit::{Exit, Refusal, Report};
use crate::output::Output;

/// A restart is over by then; what takes longer needs a person.
const RECONNECT_FOR: Duration = Duration::from_secs(30);
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_millis(500);

/// The state of the connection to a server; shared by all requests that wait for the same one.
pub(crate) struct Reconnection<'a> {
    out: &'a Output,
    /// When the whole wait is over, whether or not the server is there.
    deadline: Option<Instant>,
    was_reached: Cell<bool>,
    lost_at: Cell<Option<Instant>>,
}

impl<'a> Reconnection<'a> {
    pub(crate) fn new(limit: Option<Duration>, out: &'a Output) -> Self {
        let deadline = limit.map(|limit| Instant::now() + limit);
        Self { out, deadline, was_reached: Cell::new(false), lost_at: Cell::new(None) }
    }

    /// How much of the wait is left, if it has a limit.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost_at.get().is_some()
    }

    /// The server answered.
    pub(crate) fn found(&self) {
        self.was_reached.set(true);
        if self.lost_at.take().is_some() {
            self.out.hint("connected again");
        }
    }

    /// Waits a moment before the next try; or the error, when no try is worth it.
    pub(crate) async fn lost(&self, error: ClientError, id: JobId) -> anyhow::Result<()> {
        // Nobody listens and nobody ever did: the address is wrong, or the server was not started.
        let never_there = !self.was_reached.get() && error.is_refused_connection();
        if never_there || !error.may_pass() {
            return Err(error.into());
        }
        // A connection that broke was one.
        self.was_reached.set(true);
        let now = Instant::now();
        if !self.is_lost() {
            self.lost_at.set(Some(now));
            if self.left() != Some(Duration::ZERO) {
                self.out.hint("connection lost; the job continues; reconnecting…");
            }
        }
        let lost_for = self.lost_at.get().map_or(Duration::ZERO, |at| now - at);
        if lost_for >= RECONNECT_FOR || self.left() == Some(Duration::ZERO) {
            return Err(gone(error, id));
        }
        tokio::time::sleep(self.left().unwrap_or(RECONNECT_PAUSE).min(RECONNECT_PAUSE)).await;
        Ok(())
    }
}

fn gone(error: ClientError, id: JobId) -> anyhow::Error {
    let message = Report::new(&error.into()).message;
    let hint = format!("the job goes on without us; when the server is back: `punctual wait {id}`");
    Refusal { exit: Exit::Unreachable, message, hint }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_api::{ErrorKind, Problem};

    fn problem(kind: ErrorKind) -> ClientError {
        ClientError::Problem(Box::new(Problem {
            type_uri: String::new(),
            title: String::new(),
            status: kind.http_status(),
            detail: "the server is stopping".to_owned(),
            code: kind.code().to_owned(),
            hint: None,
            request_id: String::new(),
            retryable: kind.is_retryable(),
            errors: Vec::new(),
        }))
    }

    fn id() -> JobId {
        "job_01m7et433kee4803yssgvaf2fh".parse().unwrap()
    }

    #[tokio::test]
    async fn a_refusal_ends_the_wait_and_an_outage_does_not() {
        let out = Output::plain(None);
        let reconnection = Reconnection::new(None, &out);
        assert!(reconnection.lost(problem(ErrorKind::JobNotFound), id()).await.is_err());
        assert!(reconnection.lost(problem(ErrorKind::Unavailable), id()).await.is_ok());
        assert!(reconnection.is_lost() && reconnection.was_reached.get());
        reconnection.found();
        assert!(!reconnection.is_lost());
    }

    #[tokio::test]
    async fn when_the_time_is_over_the_error_says_how_to_go_on() {
        let out = Output::plain(None);
        let reconnection = Reconnection::new(Some(Duration::ZERO), &out);
        let error = reconnection.lost(problem(ErrorKind::Unavailable), id()).await.unwrap_err();
        let report = Report::new(&error);
        assert_eq!((report.exit_code, report.code.as_str()), (7, "unreachable"));
        assert!(report.hint.contains(&format!("punctual wait {}", id())), "{}", report.hint);
    }
}
