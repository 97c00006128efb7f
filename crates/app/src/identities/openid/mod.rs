//! Logging in at a provider of OpenID Connect, by browser and by device code.
//!
//! What the provider and the browser say is checked by the crate `openid`. Here is who may log in, which session comes of it, and
//! what is on record. The refusals that people see tell little; the audit log and the server's log have the reason.

mod people;
mod rules;
mod tickets;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use punctual_api::{
    BrowserLoginQuery, DeviceLogin, DevicePollRequest, DeviceStatus, ErrorKind, LoginExchange, SecretText,
    SessionCreated, login_check,
};
use punctual_core::{Span, Timestamp, hex};
use punctual_openid::{Answer, DevicePoll, Fault, Identity, LoginSecrets, Provider, challenge_of, is_challenge};
use punctual_store::{IdentityId, UserRow};
use subtle::ConstantTimeEq;
use tokio::sync::{Semaphore, SemaphorePermit};

pub use self::rules::GroupRules;
pub(crate) use self::tickets::TicketKey;
use self::tickets::{BrowserParts, BrowserTicket, CodeTicket, DeviceTicket, Ticket};
use crate::audit::AuditEvent;
use crate::principal::Transport;
use crate::{App, AppError, Checked, Faults, Result};

/// From the first redirect until the browser is back: a password and a second factor.
const BROWSER_LOGIN_MAX: Span = Span::from_secs(600);
/// From then on until the command line has the code: one click.
const CODE_LIFE: Span = Span::from_secs(120);
/// Requests to the provider at a time.
const ASKING_MAX: usize = 16;
/// A device login is passed on to the provider this often at most, whoever asks how often.
const POLL_STEP: Span = Span::from_secs(1);
/// Device logins whose polls are counted. Of more, the provider hears too often, and says so.
const POLLS_MAX: usize = 1000;
/// How a login got on record that was none by password.
const WAY: &str = "openid";

/// What logging in at a provider is made of.
pub struct OpenIdParts {
    pub provider: Provider,
    pub rules: GroupRules,
    /// How long a session lasts. At its end, the groups are looked at again.
    pub session: Span,
}

pub(super) struct OpenIdLogins {
    provider: Provider,
    rules: GroupRules,
    session: Span,
    asking: Semaphore,
    polls: Mutex<HashMap<u64, Timestamp>>,
}

/// A browser that is to go to the provider.
pub struct BegunLogin {
    pub address: String,
    /// For the browser to keep until it is back.
    pub cookie: String,
    pub lasts: Duration,
}

/// A browser that is back, with a code for the command line.
pub struct FinishedLogin {
    pub name: String,
    /// Where the command line listens.
    pub address: String,
    /// What the command line shows, so that people see that this login is their own.
    pub check: String,
}

pub enum DevicePolled {
    Waiting(DeviceStatus),
    Done(Box<SessionCreated>),
}

/// Why somebody who may be known to the provider does not get in.
pub(crate) struct Refusal {
    /// Stable, for the audit log.
    reason: &'static str,
    /// Whom it is about, for the audit log.
    whom: String,
    /// What the person learns. Nothing, unless the provider vouched for them.
    told: Option<&'static str>,
}

impl Refusal {
    fn new(reason: &'static str, whom: &str) -> Self {
        Self { reason, whom: whom.to_owned(), told: None }
    }

    fn no_role(identity: &Identity) -> Self {
        let whom = format!("{} {}", identity.issuer, identity.subject);
        Self { reason: "no_role", whom, told: Some("the provider knows you, and none of your groups has a role here") }
    }
}

impl OpenIdLogins {
    fn ask(&self) -> Result<SemaphorePermit<'_>> {
        self.asking.try_acquire().map_err(|_| {
            let detail = format!("{ASKING_MAX} logins ask the provider already");
            AppError::new(ErrorKind::TooManyLogins, detail).hint("try again in a moment")
        })
    }

    /// Whether the provider may be asked about this login now.
    fn may_poll(&self, id: u64, now: Timestamp) -> bool {
        let mut polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        if polls.get(&id).is_some_and(|next| now < *next) {
            return false;
        }
        if polls.len() >= POLLS_MAX {
            polls.retain(|_, next| now < *next);
        }
        if polls.len() < POLLS_MAX {
            polls.insert(id, now + POLL_STEP);
        }
        true
    }
}

impl App {
    /// Lets people log in at a provider. Called once, before requests are served.
    pub fn use_openid(&self, parts: OpenIdParts) {
        let OpenIdParts { provider, rules, session } = parts;
        let logins =
            OpenIdLogins { provider, rules, session, asking: Semaphore::new(ASKING_MAX), polls: Mutex::default() };
        if self.identities().openid.set(logins).is_err() {
            tracing::error!("the provider of OpenID Connect was set twice");
        }
    }

    fn openid(&self) -> Result<&OpenIdLogins> {
        self.identities().openid.get().ok_or_else(|| {
            AppError::new(ErrorKind::OpenIdOff, "this server has no provider of OpenID Connect")
                .hint("log in with a name and a password, or ask an administrator to set `openid_issuer`")
        })
    }

    fn seal_ticket<T: Ticket>(&self, ticket: T, lasts: Span) -> Result<String> {
        Ok(self.0.keys.now().signing.tickets.seal(ticket, self.now() + lasts, &self.identities().entropy)?)
    }

    fn open_ticket<T: Ticket>(&self, text: &str) -> Option<T> {
        let now = self.now();
        self.0.keys.now().accepted().find_map(|keys| keys.tickets.open(text, now))
    }

    fn random_text(&self) -> Result<String> {
        Ok(hex::encode(self.identities().random()?))
    }

    /// Before a browser is sent on to another address of this server, which checks it again.
    pub fn check_browser_login(&self, query: &BrowserLoginQuery) -> Result<()> {
        self.openid()?;
        query.check()
    }

    /// Sends a browser to the provider.
    pub async fn begin_browser_login(&self, query: BrowserLoginQuery) -> Result<BegunLogin> {
        query.check()?;
        let openid = self.openid()?;
        let secrets =
            LoginSecrets { state: self.random_text()?, nonce: self.random_text()?, verifier: self.random_text()? };
        let asking = openid.ask()?;
        let address = openid.provider.login_address(&secrets).await.map_err(provider_fault)?;
        drop(asking);
        let BrowserLoginQuery { port, challenge, state, moved: _ } = query;
        let parts = BrowserParts { port, challenge, command_state: state };
        let ticket = BrowserTicket::new(self.identities().new_id()?.0, &secrets, parts);
        let cookie = self.seal_ticket(ticket, BROWSER_LOGIN_MAX)?;
        Ok(BegunLogin { address: address.into(), cookie, lasts: BROWSER_LOGIN_MAX.to_std() })
    }

    /// Takes a browser back that began here, and gives it a code for the command line that sent it.
    pub async fn finish_browser_login(
        &self,
        transport: &Transport,
        answer: &Answer,
        cookie: Option<&str>,
    ) -> Result<FinishedLogin> {
        let openid = self.openid()?;
        let attempt = self.admit_nameless_login(transport)?;
        let ticket: Option<BrowserTicket> = cookie.and_then(|cookie| self.open_ticket(cookie));
        let Some(ticket) = ticket else {
            let refusal = Refusal {
                told: Some("this browser did not begin this login, or it took longer than 10 minutes"),
                ..Refusal::new("foreign_callback", "")
            };
            return Err(self.refused(transport, refusal).await);
        };
        let BrowserTicket { id, state, nonce, verifier, port, challenge, command_state, .. } = ticket;
        let secrets = LoginSecrets { state, nonce, verifier };
        let asking = openid.ask().inspect_err(|_| self.identities().logins.forgive(&attempt))?;
        let finished = openid.provider.finish(answer, &secrets).await;
        drop(asking);
        let identity = match finished {
            Ok(identity) => identity,
            Err(fault) if fault.is_of_provider() => {
                self.identities().logins.forgive(&attempt);
                return Err(provider_fault(fault));
            }
            Err(fault) => return Err(self.refused_by_fault(transport, &fault).await),
        };
        let user = self.admitted_user(transport, &identity).await?;
        self.identities().logins.forgive(&attempt);
        let check = login_check(&challenge);
        let code = CodeTicket::new(id, user.id.0, user.revision, challenge);
        let code = self.seal_ticket(code, CODE_LIFE)?;
        let address = format!("http://127.0.0.1:{port}/?code={code}&state={command_state}");
        Ok(FinishedLogin { name: user.name.clone(), address, check })
    }

    /// The session for the code that a browser brought. Good once, and only for the command line that began.
    pub async fn exchange_login(&self, transport: &Transport, exchange: &LoginExchange) -> Result<SessionCreated> {
        let openid = self.openid()?;
        let attempt = self.admit_nameless_login(transport)?;
        let (SecretText(code), SecretText(verifier)) = (&exchange.code, &exchange.verifier);
        let ticket: Option<CodeTicket> = self.open_ticket(code);
        let is_own =
            |ticket: &CodeTicket| bool::from(challenge_of(verifier).as_bytes().ct_eq(ticket.challenge.as_bytes()));
        let Some(ticket) = ticket.filter(is_own) else {
            return Err(self.refused(transport, Refusal::new("wrong_code", "")).await);
        };
        self.refresh_identities().await?;
        let user = self.identities().snapshot().user(IdentityId(ticket.user)).cloned();
        let user = user.filter(|user| !user.disabled && user.revision == ticket.revision);
        let Some(user) = user else { return Err(self.refused(transport, Refusal::new("user_changed", "")).await) };
        let session = self.openid_session(transport, openid, &user, ticket.id).await?;
        self.identities().logins.forgive(&attempt);
        Ok(session)
    }

    /// Begins a login with a code that somebody types at the provider.
    pub async fn begin_device_login(&self, transport: &Transport) -> Result<DeviceLogin> {
        let openid = self.openid()?;
        // Until it succeeds: each asks the provider for a code.
        let attempt = self.admit_nameless_login(transport)?;
        let asking = openid.ask().inspect_err(|_| self.identities().logins.forgive(&attempt))?;
        let begun = openid.provider.begin_device_login().await;
        drop(asking);
        let begun = begun.inspect_err(|_| self.identities().logins.forgive(&attempt)).map_err(provider_fault)?;
        let lasts = Span::from_secs(begun.expires_in.as_secs().try_into().unwrap_or(i64::MAX));
        let ticket = DeviceTicket::new(self.identities().new_id()?.0, begun.device_code);
        let login = self.seal_ticket(ticket, lasts)?;
        Ok(DeviceLogin {
            login: SecretText(login),
            user_code: begun.user_code,
            address: begun.address,
            complete_address: begun.complete_address,
            expires_in: begun.expires_in.as_secs(),
            interval: begun.interval.as_secs(),
        })
    }

    /// Asks the provider once whether somebody has typed the code.
    pub async fn poll_device_login(&self, transport: &Transport, request: &DevicePollRequest) -> Result<DevicePolled> {
        let openid = self.openid()?;
        let SecretText(login) = &request.login;
        let ticket: Option<DeviceTicket> = self.open_ticket(login);
        let Some(ticket) = ticket else {
            self.admit_nameless_login(transport)?;
            let refusal =
                Refusal { told: Some("this login has ended, or there was none"), ..Refusal::new("code_expired", "") };
            return Err(self.refused(transport, refusal).await);
        };
        if !openid.may_poll(ticket.id, self.now()) {
            return Ok(DevicePolled::Waiting(DeviceStatus::SlowDown));
        }
        let asking = openid.ask()?;
        let polled = openid.provider.poll_device_login(&ticket.device_code).await;
        drop(asking);
        let identity = match polled {
            Ok(DevicePoll::Pending) => return Ok(DevicePolled::Waiting(DeviceStatus::Pending)),
            Ok(DevicePoll::SlowDown) => return Ok(DevicePolled::Waiting(DeviceStatus::SlowDown)),
            Ok(DevicePoll::Done(identity)) => identity,
            Err(fault) if fault.is_of_provider() => return Err(provider_fault(fault)),
            Err(fault) => return Err(self.refused_by_fault(transport, &fault).await),
        };
        let user = self.admitted_user(transport, &identity).await?;
        let session = self.openid_session(transport, openid, &user, ticket.id).await?;
        self.forgive_nameless_login(transport);
        Ok(DevicePolled::Done(Box::new(session)))
    }

    async fn admitted_user(&self, transport: &Transport, identity: &Identity) -> Result<std::sync::Arc<UserRow>> {
        let roles = self.openid()?.rules.roles(&identity.groups);
        match self.openid_user(transport, identity, &roles).await? {
            Ok(user) => Ok(user),
            Err(refusal) => Err(self.refused(transport, refusal).await),
        }
    }

    async fn openid_session(
        &self,
        transport: &Transport,
        openid: &OpenIdLogins,
        user: &UserRow,
        id: u64,
    ) -> Result<SessionCreated> {
        match self.begin_session(transport, user, IdentityId(id), openid.session, Some(WAY)).await? {
            Some(session) => Ok(session),
            // It was made before, or the person was changed in this moment.
            None => Err(self.refused(transport, Refusal::new("code_used", &user.name)).await),
        }
    }

    async fn refused_by_fault(&self, transport: &Transport, fault: &Fault) -> AppError {
        tracing::warn!(reason = fault.reason(), %fault, "a login by OpenID Connect was refused");
        let told = match fault {
            Fault::LoginRefused(_) => Some("the provider refused it, or it was cancelled there"),
            _ => None,
        };
        self.refused(transport, Refusal { told, ..Refusal::new(fault.reason(), "") }).await
    }

    /// What people are told of a refusal; all of it is on record.
    async fn refused(&self, transport: &Transport, refusal: Refusal) -> AppError {
        let Refusal { reason, whom, told } = refusal;
        let kind = ErrorKind::OpenIdRefused;
        let object = format!("{reason} {whom}");
        let event =
            AuditEvent::by_nobody(transport.address, "openid_login", kind.code()).object(Some(object.trim_end()));
        self.record_refusal(event).await;
        let detail = told.unwrap_or("the login did not prove who you are");
        AppError::new(kind, detail).hint(
            "begin again with `punctual login --oidc`; an administrator finds the reason with `punctual audit list`",
        )
    }
}

/// The provider or the settings are to blame: people learn that, and the server's log has the reason.
fn provider_fault(fault: Fault) -> AppError {
    tracing::warn!(reason = fault.reason(), %fault, "logins by OpenID Connect are not possible");
    let error = AppError::new(ErrorKind::ProviderUnavailable, "the OpenID Connect provider cannot be used now");
    let error = error.hint("try again later; the server's log says why. Passwords, keys and open sessions still work");
    AppError { cause: Some(fault.to_string()), ..error }
}

impl Checked for BrowserLoginQuery {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        if self.port < 1024 {
            faults.check(Err(AppError::out_of_range("port", "must be 1024 to 65535")));
        }
        if !is_challenge(&self.challenge) {
            faults.check(Err(AppError::field("challenge", "must be a SHA-256 in base64url")));
        }
        // It becomes a part of an address.
        let is_plain = self.state.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if !is_plain || !(16..=128).contains(&self.state.len()) {
            faults.check(Err(AppError::field("state", "must be 16 to 128 letters, digits, dashes and underscores")));
        }
        faults.finish()
    }
}

impl Checked for punctual_api::ProviderAnswerQuery {
    // What is missing or too long is refused as an answer, and is on record then.
}

impl Checked for LoginExchange {}

impl Checked for DevicePollRequest {}
