//! What the process exits with, and how an error is put to people and programs.

use std::fmt::Write as _;
use std::process::ExitCode;

use punctual_api::{ErrorKind, FieldError, Problem};
use punctual_client::ClientError;
use punctual_worker::WorkerError;
use serde::Serialize;

use crate::access::NAME_ITS_USER;
use crate::field_flags::of_command;

macro_rules! exits {
    ($($variant:ident $code:literal $meaning:literal;)*) => {
        /// How a command ended.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Exit {
            $($variant,)*
            /// With the code of a program that was run and awaited.
            Program(u8),
        }

        impl Exit {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub(crate) const fn code(self) -> u8 {
                match self { $(Self::$variant => $code,)* Self::Program(code) => code }
            }
            pub(crate) const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* Self::Program(_) => "what the program exited with" }
            }
        }
    };
}

exits! {
    Ok 0 "it worked";
    Error 1 "it did not work";
    Usage 2 "the command or its input is not valid";
    JobFailed 3 "an awaited job failed, was cancelled, lost, quarantined or deleted";
    NotAllowed 4 "not allowed";
    NotFound 5 "there is no such job, task, schedule, backfill, calendar, queue, artifact or notification rule";
    Conflict 6 "what was named is not in a state that admits this, or there are too many of its kind";
    Unreachable 7 "the server or the database cannot be reached, or is too busy";
    Pending 8 "an awaited job is still pending (`wait --no-wait`)";
    Partial 9 "a part was left out, and the rest was done (`import crontab --keep-going`)";
    Timeout 124 "a time limit was reached: `run --wait-timeout`, `wait --timeout`, or the timeout of a program that `run FILE` ran";
    NotRun 125 "`run FILE`: the program was not run, how it ended is not known, or it exited with 0 and its attempt failed, as when its output is too long";
    Interrupted 130 "interrupted with Ctrl-C";
}

impl Exit {
    fn of_kind(kind: ErrorKind) -> Self {
        let exit = Self::ALL.iter().find(|exit| exit.code() == kind.exit_code());
        *exit.expect("a test holds every kind's exit code to this table")
    }

    /// The table, for `punctual help exit-codes`.
    pub(crate) fn table() -> String {
        let mut text = String::from("Exit codes:\n");
        for exit in Self::ALL {
            let _ = writeln!(text, "  {:>3}  {}", exit.code(), exit.meaning());
        }
        text += "`punctual run FILE` exits with the code of the program that it ran, or with 128 and the number of the signal that \
                 ended\nit. Its own failures are 124, 125 and 130 only.\n";
        text
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error of the command line itself: what is wrong, and what to do next.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// The command cannot be carried out as it was written.
pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Refusal { exit: Exit::Usage, message: message.into(), hint: hint.into() }.into()
}

/// The command was fine; the world was not.
pub(crate) fn failed(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Refusal { exit: Exit::Error, message: message.into(), hint: hint.into() }.into()
}

/// Somebody whom the command needs does not answer.
pub(crate) fn unreachable(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Refusal { exit: Exit::Unreachable, message: message.into(), hint: hint.into() }.into()
}

/// Somebody else has what the command wants.
pub(crate) fn conflict(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Refusal { exit: Exit::Conflict, message: message.into(), hint: hint.into() }.into()
}

/// Whoever read our output has seen enough. Not an error.
#[derive(Debug, thiserror::Error)]
#[error("the output was closed")]
pub(crate) struct OutputClosed;

/// An error, ready to be shown.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// Stable, for programs: the server's code, or a word for what went wrong here.
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) hint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    pub(crate) exit_code: u8,
}

impl Report {
    pub(crate) fn new(error: &anyhow::Error) -> Self {
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            let code = match refusal.exit {
                Exit::Usage => "usage",
                Exit::NotFound => "not_found",
                Exit::Unreachable => "unreachable",
                Exit::Conflict => "conflict",
                _ => "error",
            };
            return Self::of(refusal.exit, code, format!("{error:#}"), &refusal.hint);
        }
        if let Some(WorkerError::JoinRefused { code, .. }) = error.downcast_ref::<WorkerError>() {
            let kind = ErrorKind::from_code(code);
            let exit = kind.map_or(Exit::NotAllowed, Exit::of_kind);
            return Self::of(exit, code, format!("{error:#}"), "");
        }
        match error.downcast_ref::<ClientError>() {
            Some(cause) => Self::of_client(error, cause),
            None => Self::of(Exit::Error, "error", format!("{error:#}"), ""),
        }
    }

    fn of(exit: Exit, code: &str, message: String, hint: &str) -> Self {
        Self { code: code.to_owned(), message, hint: hint.to_owned(), request_id: None, exit_code: exit.code() }
    }

    fn of_client(error: &anyhow::Error, cause: &ClientError) -> Self {
        match cause {
            ClientError::Unreachable { url, .. } => {
                let because = cause.unreachable_because().unwrap_or_default();
                let usual = "start a server with `punctual dev`, or name another one with --server";
                let hint = cause.tls_trouble().map_or(usual, |trouble| trouble.fix.unwrap_or_default());
                Self::of(Exit::Unreachable, "unreachable", format!("cannot reach {url}: {because}"), hint)
            }
            ClientError::Problem(problem) => {
                let kind = cause.kind();
                let exit = kind.map_or(Exit::Error, Exit::of_kind);
                let hint = kind.map_or(Hint::Server(""), hint);
                let hint = match (hint, &problem.hint) {
                    (Hint::Server(_), Some(said)) => of_command(said),
                    (Hint::Server(own) | Hint::Command(own), _) => own.to_owned(),
                };
                let mut report = Self::of(exit, &problem.code, message(problem), &hint);
                report.request_id = Some(problem.request_id.clone());
                report
            }
            ClientError::BadUrl { .. } => {
                Self::of(Exit::Usage, "usage", format!("{error:#}"), "write it like http://127.0.0.1:8020")
            }
            ClientError::BadAnswer { .. } => Self::of(
                Exit::Error,
                "bad_answer",
                format!("{error:#}"),
                "check that --server is the address of a Punctual server of this version",
            ),
            ClientError::UntrustedListener { .. } => Self::of(
                Exit::NotAllowed,
                "untrusted_listener",
                format!("{error:#}").replace(&format!("; {NAME_ITS_USER}"), ""),
                NAME_ITS_USER,
            ),
            ClientError::Setup(_) | ClientError::NoEntropy(_) => {
                Self::of(Exit::Error, "error", format!("{error:#}"), "")
            }
        }
    }

    /// The report of a command that otherwise exits with the code of a program.
    #[must_use]
    pub(crate) fn beside_a_program(self) -> Self {
        Self { exit_code: Exit::NotRun.code(), ..self }
    }

    /// One sentence of what is wrong, and one of what to do.
    pub(crate) fn sentence(&self) -> String {
        let mut text = self.message.trim_end_matches('.').to_owned();
        if !self.hint.is_empty() {
            let mut letters = self.hint.chars();
            let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
            // A question has its own mark.
            let stop = if text.ends_with(['?', '!']) { "" } else { "." };
            let _ = write!(text, "{stop} {first}{}.", letters.as_str().trim_end_matches('.'));
        }
        // Only where someone has to search the server's log.
        if let (Some(id), "internal") = (&self.request_id, self.code.as_str()) {
            let _ = write!(text, " (request {id})");
        }
        text
    }
}

/// What is wrong, said once: a problem with fields repeats them in its detail.
fn message(problem: &Problem) -> String {
    if problem.errors.is_empty() {
        return problem.detail.clone();
    }
    let fields = problem.errors.iter().map(|FieldError { pointer, detail, hint, .. }| {
        let hint = hint.as_ref().map(|hint| format!("; {}", of_command(hint))).unwrap_or_default();
        match pointer.as_str() {
            "" => format!("{detail}{hint}"),
            pointer => format!("{pointer}: {detail}{hint}"),
        }
    });
    fields.collect::<Vec<_>>().join("\n")
}

/// What to do about an error of this kind, if its server does not know better.
pub(crate) fn what_to_do(kind: ErrorKind) -> &'static str {
    match hint(kind) {
        Hint::Server(text) | Hint::Command(text) => text,
    }
}

/// What to do about a problem.
enum Hint {
    /// The server knows better, unless it said nothing.
    Server(&'static str),
    /// The server speaks of requests; people here write commands.
    Command(&'static str),
}

fn hint(kind: ErrorKind) -> Hint {
    use Hint::{Command, Server};
    match kind {
        ErrorKind::InvalidRequest | ErrorKind::PayloadTooLarge | ErrorKind::RangeNotSatisfiable => {
            Server("correct the input and try again")
        }
        ErrorKind::AuthorityRotating => Server("see `punctual authority show`"),
        ErrorKind::TlsRequired => Server("write https:// in place of http://"),
        ErrorKind::Forbidden => Server("ask an administrator for a role or a key that has the right"),
        ErrorKind::CredentialExpired | ErrorKind::CredentialRevoked => {
            Server("log in with `punctual login`, or use another key")
        }
        ErrorKind::OpenIdRefused => Server("begin again with `punctual login --oidc`"),
        ErrorKind::OpenIdOff => Server("log in with a name and a password"),
        ErrorKind::ProviderUnavailable => Server("try again later; the server's log says why"),
        ErrorKind::LoginFailed => Command("try again; an administrator can set a new password"),
        ErrorKind::TooManyLogins => Server("wait a moment and try again"),
        ErrorKind::KeyNotFound => Command("see what there is with `punctual key list`"),
        ErrorKind::NamespaceNotFound => {
            Command("see what there is with `punctual namespace list`, and choose one with --namespace")
        }
        ErrorKind::NamespaceExists => Command("choose another name, or use that one with --namespace"),
        ErrorKind::NamespaceInUse => Server("delete what is in it first"),
        ErrorKind::TooManyNamespaces => Command("delete those that nobody needs with `punctual namespace delete`"),
        ErrorKind::QuotaExceeded => Server("see what the namespace uses with `punctual namespace get`"),
        ErrorKind::RateQuotaExceeded => Server("wait a moment and try again"),
        ErrorKind::UserNotFound => Command("see what there is with `punctual user list`"),
        ErrorKind::SessionNotFound => Command("see what there is with `punctual session list`"),
        ErrorKind::KeyExists => Command("choose another name, or replace it with `punctual key rotate`"),
        ErrorKind::KeyEnded => Command("see what there is with `punctual key list`, and create a new one"),
        ErrorKind::TooManyKeys => Command("delete those that nobody needs with `punctual key delete`"),
        ErrorKind::UserExists => Command("change it with `punctual user edit`, or choose another name"),
        ErrorKind::TooManyUsers => Command("delete those that nobody needs with `punctual user delete`"),
        ErrorKind::ForbiddenHost => Server("use the address that `punctual dev` or `punctual server` printed"),
        ErrorKind::ForbiddenOrigin => Server("send the request from outside a browser"),
        ErrorKind::NotFound | ErrorKind::MethodNotAllowed | ErrorKind::UnsupportedMediaType => {
            Command("check with `punctual doctor` that server and command line are of the same version")
        }
        ErrorKind::TaskNotFound => Command("see what there is with `punctual task list`"),
        ErrorKind::JobNotFound => {
            Command("see what there is with `punctual ps`; finished jobs are kept for a limited time")
        }
        ErrorKind::ArtifactNotFound => Command("see what there is with `punctual artifact list`"),
        ErrorKind::ScheduleNotFound => Command("see what there is with `punctual schedule list`"),
        ErrorKind::WorkflowNotFound => Command("see what there is with `punctual workflow list`"),
        ErrorKind::QueueNotFound => Server("see what there is with `punctual queue list`"),
        ErrorKind::QueueDraining => {
            Command("submit to another queue, or let it accept jobs with `punctual queue resume`")
        }
        ErrorKind::TooManyQueues => Server("use fewer queues"),
        ErrorKind::BatchNotFound => Command("see what there is with `punctual batch list`"),
        ErrorKind::BatchRefused => Server("look at it with `punctual batch get`"),
        ErrorKind::BatchUnplaceable => {
            Server("start more workers, or let the batch wait for them with `unplaceable: wait`")
        }
        ErrorKind::RunNotFound => Command("see what there is with `punctual workflow runs`"),
        ErrorKind::BackfillNotFound => Command("see what there is with `punctual backfill list`"),
        ErrorKind::CalendarNotFound => Command("see what there is with `punctual calendar list`"),
        ErrorKind::SecretNotFound => Command("see what there is with `punctual secret list`"),
        ErrorKind::SecretInUse => Command("change or delete those tasks first, or delete it with --force"),
        ErrorKind::TooManySecrets => Command("delete those that no task needs with `punctual secret delete`"),
        ErrorKind::RootKeyRefused | ErrorKind::ClusterSecretRefused => Server("see docs/secrets.md"),
        ErrorKind::NotificationNotFound => Command("see what there is with `punctual notify list`"),
        ErrorKind::TaskInUse => {
            Command("delete those schedules first, or give them another task with `punctual schedule edit`")
        }
        ErrorKind::ScheduleNameTaken => Command("change it with `punctual schedule edit`, or choose another name"),
        ErrorKind::ScheduleRefused => Server("look at it with `punctual schedule get`"),
        ErrorKind::CalendarInUse => {
            Command("take it out of those schedules first: `punctual schedule edit NAME --unset exclude`")
        }
        ErrorKind::TooManyNotifications => Command("delete those that nobody needs with `punctual notify delete`"),
        ErrorKind::RunRefused => Server("look at it with `punctual workflow graph`"),
        ErrorKind::TooManyWorkflows => Server("use one that is there"),
        ErrorKind::BackfillEnded => Command("see what it did with `punctual backfill runs`"),
        ErrorKind::TooManyBackfills => Command("wait for one of them, or end one with `punctual backfill abort`"),
        ErrorKind::TooManyCalendars => Command("delete those that no schedule needs with `punctual calendar delete`"),
        ErrorKind::BadSignature | ErrorKind::UrlExpired => {
            Command("upload the file again with `punctual artifact create`")
        }
        ErrorKind::ArtifactReady => Command("nothing needs to be uploaded"),
        ErrorKind::ArtifactInUse => Server("change or delete what refers to it first"),
        ErrorKind::UnknownArtifact => Command("upload the file with `punctual artifact create`"),
        ErrorKind::ArtifactRefused => Command("build the program again and upload it with `punctual artifact create`"),
        ErrorKind::SizeMismatch | ErrorKind::DigestMismatch => {
            Command("the file was changed while it was sent; upload it again with `punctual artifact create`")
        }
        ErrorKind::Unauthenticated => Server("pass the access token of the server with --token-file"),
        ErrorKind::InvalidToken | ErrorKind::WrongAttempt => Server("an agent is started by its worker, not by hand"),
        ErrorKind::AttemptOver => Command("see how it ended with `punctual job get`"),
        ErrorKind::TaskExists => Command("update it with `punctual task apply`"),
        ErrorKind::JobAlreadyStarted => Command("end it with `punctual cancel`"),
        ErrorKind::JobAlreadyFinished => Command("run it again with `punctual job retry`"),
        ErrorKind::JobNotFinished => Command("wait for it with `punctual wait`, or end it with `punctual cancel`"),
        ErrorKind::JobDeleted => Command("submit a new one with `punctual run`"),
        ErrorKind::RevisionConflict => Command("read it again with `get` of the same command, and repeat your change"),
        ErrorKind::IdempotencyKeyReused => Command("use another --idempotency-key"),
        ErrorKind::NotServedHere => Command("name a server that has the role api with --server"),
        ErrorKind::InvalidJoinToken
        | ErrorKind::ForeignJoinToken
        | ErrorKind::JoinTokenExpired
        | ErrorKind::JoinTokenRevoked
        | ErrorKind::JoinTokenUsedUp
        | ErrorKind::WorkerRevoked
        | ErrorKind::WorkerNotEnrolled
        | ErrorKind::OutOfScope => Server("make another token with `punctual worker token create`"),
        ErrorKind::WorkerTokenNotFound => Command("see what there is with `punctual worker token list`"),
        ErrorKind::EnrolmentNotFound => Command("see what there is with `punctual worker enrolments`"),
        ErrorKind::TooManyWorkerTokens => Server("make fewer tokens with more uses"),
        ErrorKind::TooManyEnrolments => Server("revoke workers that are gone with `punctual worker revoke`"),
        ErrorKind::NoAuthority => Server("start the servers with TLS; see docs/tls.md"),
        ErrorKind::TooManyRequests | ErrorKind::RequestTimeout | ErrorKind::Unavailable | ErrorKind::ShardMoving => {
            Server("try again in a moment")
        }
        ErrorKind::DatabaseUnavailable => Server("start the database; `punctual doctor` checks it"),
        ErrorKind::DiskFull => Server("make room on the disk of the database"),
        ErrorKind::DatabaseFileReplaced => Server("move the file of the database back"),
        ErrorKind::DatabaseReadOnly => Server("make the database writable"),
        ErrorKind::DatabaseCorrupt => Server("stop the server and restore a backup"),
        ErrorKind::Internal => Server("look into the server's log"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_problem_has_an_exit_code_of_the_table() {
        let rows: Vec<_> = ErrorKind::ALL
            .iter()
            .map(|&kind| format!("{} {} {:?}", kind.exit_code(), kind.code(), Exit::of_kind(kind)))
            .collect();
        insta::assert_snapshot!(rows.join("\n"));
    }

    #[test]
    fn the_exit_codes_are_stable() {
        insta::assert_snapshot!(Exit::table());
    }

    #[test]
    fn every_problem_says_what_to_do_next() {
        for &kind in ErrorKind::ALL {
            let problem = Problem {
                type_uri: String::new(),
                title: String::new(),
                status: kind.http_status(),
                detail: "the detail".to_owned(),
                code: kind.code().to_owned(),
                hint: None,
                request_id: "r1".to_owned(),
                retryable: false,
                errors: Vec::new(),
            };
            let report = Report::new(&ClientError::Problem(Box::new(problem)).into());
            assert!(!report.hint.is_empty(), "{kind:?}");
            assert!(report.sentence().starts_with("the detail. "), "{}", report.sentence());
            assert_eq!(report.exit_code, kind.exit_code());
        }
    }

    #[test]
    fn a_sentence_ends_with_one_full_stop() {
        let report = Report::new(&usage("no such zone.", "write utc."));
        assert_eq!(report.sentence(), "no such zone. Write utc.");
        assert_eq!(report.exit_code, 2);
        let report = Report::new(&usage("did you mean `slots`?", "see the table"));
        assert_eq!(report.sentence(), "did you mean `slots`? See the table.");
    }
}
