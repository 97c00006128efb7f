//! Sessions: logging in with name and password, and ending it.

use punctual_api::{ErrorKind, FieldCode, LoginRequest, SecretText, SessionCreated, SessionList, SessionView, limits};
use punctual_core::Span;
use punctual_core::access::Right;
use punctual_store::{IdentityId, SESSIONS_MAX, SessionChange, SessionRow, UserRow};

use super::login_limits::Admitted;
use super::passwords::Verdict;
use super::snapshot::{Session, Snapshot};
use super::{CredentialKind, SESSION_LIFE, check_session, credential, credential_of, id_of};
use crate::audit::AuditEvent;
use crate::principal::{Principal, Transport};
use crate::rates::Source;
use crate::{App, AppError, Checked, Result};

/// Stands for the session that a request is made with.
const CURRENT: &str = "current";

impl App {
    /// Begins a session. A name that nobody has, a person without a password and one who is disabled get the same answer as a
    /// wrong password, after the same time.
    pub async fn login(&self, transport: &Transport, request: &LoginRequest) -> Result<SessionCreated> {
        request.check()?;
        let identities = self.identities();
        let attempt = self.admit_login(transport, &request.name)?;
        // Whoever was added or got a password at another server a moment ago is known then. Asked for every name alike, so that
        // the time of the answer does not tell which names there are.
        self.recheck_identities().await;
        let user = {
            let snapshot = identities.trusted(self.now()).inspect_err(|_| identities.logins.forgive(&attempt))?;
            snapshot.user_named(&request.name).cloned()
        };
        let able = user.filter(|user| !user.disabled);
        let hash = able.as_ref().and_then(|user| user.password.clone());
        let verdict = identities.passwords.verify(&request.password, hash).await;
        // One that was not looked at does not count.
        let verdict = verdict.inspect_err(|_| identities.logins.forgive(&attempt))?;
        let (Verdict::Right, Some(user)) = (verdict, able) else { return Err(wrong()) };
        identities.logins.forgive(&attempt);
        let begun = self.begin_session(transport, &user, identities.new_id()?, SESSION_LIFE, None).await?;
        // The password was changed, or the person disabled, while it was checked.
        begun.ok_or_else(wrong)
    }

    /// A session of somebody who proved who they are; `None` if they changed since, or if the id was used. `way` is how they
    /// logged in, if not with a password.
    pub(super) async fn begin_session(
        &self,
        transport: &Transport,
        user: &UserRow,
        id: IdentityId,
        life: Span,
        way: Option<&str>,
    ) -> Result<Option<SessionCreated>> {
        let (text, digest) = credential::new(CredentialKind::Session, id, self.identities().random()?);
        let now = self.now();
        let row = SessionRow {
            id,
            digest,
            user: user.id,
            created_at: now,
            expires_at: now + life,
            last_used_at: now,
            ended_at: None,
            address: transport.address.map(|address| address.to_string()),
        };
        match self.0.store.add_session(row.clone(), user.revision).await? {
            SessionChange::Done => {}
            SessionChange::Stale | SessionChange::IdTaken => return Ok(None),
            SessionChange::Full => {
                let detail = format!("there are {SESSIONS_MAX} sessions, the most there may be");
                return Err(AppError::new(ErrorKind::TooManyLogins, detail).hint("end sessions that nobody needs"));
            }
        }
        self.refresh_after_change().await;
        self.record_login(&text, transport, way).await;
        let session = SessionView {
            id: id.to_string(),
            user: user.name.clone(),
            created_at: row.created_at,
            expires_at: row.expires_at,
            last_used_at: row.last_used_at,
            address: row.address,
            current: true,
        };
        Ok(Some(SessionCreated { session, token: SecretText(text) }))
    }

    /// One's own open sessions; of all people, with the right to manage them.
    pub async fn list_sessions(&self, principal: &Principal) -> Result<SessionList> {
        let whose = self.whose_sessions(principal);
        self.refresh_identities().await?;
        let now = self.now();
        let snapshot = self.identities().snapshot();
        let seen =
            snapshot.sessions().filter(|session| whose.has(session) && check_session(&snapshot, session, now).is_ok());
        let mut sessions: Vec<SessionView> = seen.map(|session| view(&snapshot, session, principal)).collect();
        sessions.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
        Ok(SessionList { sessions })
    }

    /// Ends a session: one's own, or anybody's with the right to manage people. `current` is the one of this request.
    pub async fn end_session(&self, principal: &Principal, session: &str) -> Result<()> {
        self.refresh_identities().await?;
        let id = match (session, credential_of(principal)) {
            (CURRENT, Some((CredentialKind::Session, id))) => Some(id),
            (CURRENT, _) => {
                let detail = format!("{} has no session: it did not log in", principal.name());
                return Err(AppError::new(ErrorKind::SessionNotFound, detail).hint("name the session by its id"));
            }
            (text, _) => id_of(text),
        };
        // One's own session ends also for somebody who may do nothing else any more.
        let is_current = id.is_some() && credential_of(principal).map(|(_, own)| own) == id;
        let whose = if is_current { Whose::All } else { self.whose_sessions(principal) };
        let is_seen = |id: &IdentityId| {
            let snapshot = self.identities().snapshot();
            snapshot.session(*id).is_some_and(|found| whose.has(found))
        };
        let Some(id) = id.filter(is_seen) else {
            let shown: String = session.chars().take(limits::NAME_CHARS_MAX).collect();
            return Err(AppError::new(ErrorKind::SessionNotFound, format!("there is no session {shown}"))
                .hint("GET /v1/sessions lists them"));
        };
        self.0.store.end_session(id, self.now()).await?;
        self.refresh_after_change().await;
        Ok(())
    }

    /// Whose sessions somebody may see and end.
    fn whose_sessions(&self, principal: &Principal) -> Whose {
        if principal.may(Right::ManagePeople) {
            return Whose::All;
        }
        match credential_of(principal) {
            Some((CredentialKind::Session, _)) => self.person_behind(principal).map_or(Whose::Nobodys, Whose::OfPerson),
            // Also a key of a person: it is for a program, which has no business with logins.
            _ => Whose::Nobodys,
        }
    }

    async fn record_login(&self, token: &str, transport: &Transport, way: Option<&str>) {
        let Some(Ok(principal)) = self.identify(token, transport) else { return };
        if let Err(error) = self.record(AuditEvent::new(&principal, "login", AuditEvent::DONE).object(way)).await {
            tracing::error!(%error, who = principal.name(), "a login is missing in the audit log");
        }
    }

    /// Counts an attempt to give a password, and refuses it if there were too many.
    pub(super) fn admit_login(&self, transport: &Transport, name: &str) -> Result<Admitted> {
        let source = Source::new(transport.socket_user, transport.address);
        self.identities().logins.admit(source, name, self.now()).map_err(too_many)
    }

    /// The same for a login without a name.
    pub(super) fn admit_nameless_login(&self, transport: &Transport) -> Result<Admitted> {
        let source = Source::new(transport.socket_user, transport.address);
        self.identities().logins.admit_source(source, self.now()).map_err(too_many)
    }
}

impl App {
    /// Gives an attempt back that another request of the same login counted.
    pub(super) fn forgive_nameless_login(&self, transport: &Transport) {
        let source = Source::new(transport.socket_user, transport.address);
        self.identities().logins.forgive_source(source);
    }
}

#[derive(Debug, Clone, Copy)]
enum Whose {
    All,
    OfPerson(IdentityId),
    Nobodys,
}

impl Whose {
    fn has(self, session: &Session) -> bool {
        match self {
            Self::All => true,
            Self::OfPerson(person) => session.row.user == person,
            Self::Nobodys => false,
        }
    }
}

fn too_many(wait: Span) -> AppError {
    let seconds = wait.to_std().as_secs_f64().ceil();
    let detail = "too many logins failed with this name or from this address";
    AppError::new(ErrorKind::TooManyLogins, detail).hint(format!("wait {seconds} s, and try again")).retry_after(wait)
}

fn wrong() -> AppError {
    AppError::new(ErrorKind::LoginFailed, "the name or the password is wrong")
        .hint("check both; an administrator can set a new password")
}

fn view(snapshot: &Snapshot, session: &Session, asker: &Principal) -> SessionView {
    let row = &session.row;
    SessionView {
        id: row.id.to_string(),
        user: snapshot.user(row.user).map(|user| user.name.clone()).unwrap_or_default(),
        created_at: row.created_at,
        expires_at: row.expires_at,
        last_used_at: session.last_used_at(),
        address: row.address.clone(),
        current: credential_of(asker) == Some((CredentialKind::Session, row.id)),
    }
}

impl Checked for LoginRequest {
    fn check(&self) -> Result<()> {
        // Whether the rest is a name is no question that is answered here.
        if self.name.chars().count() > limits::NAME_CHARS_MAX {
            let error = AppError::field("/name", format!("must be at most {} characters", limits::NAME_CHARS_MAX));
            return Err(error.code(FieldCode::TooLong));
        }
        let SecretText(password) = &self.password;
        if password.len() > limits::PASSWORD_BYTES_MAX {
            let error = AppError::field("/password", format!("must be at most {} bytes", limits::PASSWORD_BYTES_MAX));
            return Err(error.code(FieldCode::TooLong));
        }
        Ok(())
    }
}
