//! On whose behalf something is done, and the proof that they may do it.
//!
//! A use case takes `&By<R>`, where `R` names the right that it needs. Only [`Principal::permit`] makes one, so a use case
//! cannot be called before somebody was asked who they are and what they may do.

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_api::ErrorKind;
use punctual_core::access::{Reach, Right, Rights};
use punctual_core::namespace::NamespaceId;
use punctual_pki::CertificateName;

use crate::access::SocketUser;
use crate::grants::Grants;
use crate::namespaces::{self, Namespace};
use crate::{App, AppError, Result};

/// What a principal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrincipalKind {
    /// A process of the server's own user or of root, on the same machine.
    LocalUser,
    /// Whoever knows the access token of the cluster.
    ClusterToken,
    /// An API key.
    Key,
    /// Somebody who logged in.
    Person,
    /// A worker with a certificate.
    Worker,
    /// A server of the cluster, by itself.
    Server,
    /// An agent, with the token of its attempt.
    Agent,
}

impl PrincipalKind {
    pub const ALL: [Self; 7] =
        [Self::LocalUser, Self::ClusterToken, Self::Key, Self::Person, Self::Worker, Self::Server, Self::Agent];

    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalUser => "local_user",
            Self::ClusterToken => "cluster_token",
            Self::Key => "key",
            Self::Person => "person",
            Self::Worker => "worker",
            Self::Server => "server",
            Self::Agent => "agent",
        }
    }
}

/// Somebody who proved who they are, and the one namespace in which they ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    kind: PrincipalKind,
    name: Arc<str>,
    credential: Option<Arc<str>>,
    /// Everywhere.
    grants: Grants,
    namespace: Namespace,
    /// Whether the namespace was asked for, by name or with the key of one.
    has_chosen: bool,
    /// In the namespace.
    rights: Rights,
    address: Option<IpAddr>,
}

impl Principal {
    /// Streams and waits look at least this often whether who asked for them may still see what they show.
    pub const CHECKED_EVERY: Duration = Duration::from_secs(2);

    /// Only what checked a credential makes one.
    pub(crate) fn new(kind: PrincipalKind, name: impl Into<Arc<str>>, rights: Rights) -> Self {
        Self::granted(kind, name, Grants::of_cluster(rights))
    }

    /// In the default namespace, as long as none is chosen.
    pub(crate) fn granted(kind: PrincipalKind, name: impl Into<Arc<str>>, grants: Grants) -> Self {
        let namespace = Namespace::default();
        let rights = grants.within(namespace.id());
        Self { kind, name: name.into(), credential: None, grants, namespace, has_chosen: false, rights, address: None }
    }

    /// Asks in another namespace. Whether it is there for this principal is the caller's question.
    #[must_use]
    pub(crate) fn choosing(mut self, namespace: Namespace) -> Self {
        self.rights = self.grants.within(namespace.id());
        (self.namespace, self.has_chosen) = (namespace, true);
        self
    }

    /// Somebody with these rights, for tests: nothing proved who it is.
    #[cfg(any(test, feature = "made-up-principals"))]
    pub fn made_up(name: &str, rights: Rights) -> Self {
        Self::new(PrincipalKind::Key, name, rights)
    }

    /// Somebody with these rights in one namespace and nowhere else, who asks in that one, for tests.
    #[cfg(any(test, feature = "made-up-principals"))]
    pub fn made_up_in(namespace: Namespace, name: &str, rights: Rights) -> Self {
        let grants = Grants::in_namespace(namespace.id(), rights);
        Self::granted(PrincipalKind::Key, name, grants).choosing(namespace)
    }

    /// With the public id of the key, session or certificate that proved it.
    #[must_use]
    pub(crate) fn with_credential(mut self, credential: impl Into<Arc<str>>) -> Self {
        self.credential = Some(credential.into());
        self
    }

    #[must_use]
    pub(crate) fn at(mut self, address: Option<IpAddr>) -> Self {
        self.address = address;
        self
    }

    pub fn kind(&self) -> PrincipalKind {
        self.kind
    }

    /// As records show it: `local`, `token`, `key:deploy`, `user:ana`, `worker:…`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The public id of the key, session or certificate.
    pub fn credential(&self) -> Option<&str> {
        self.credential.as_deref()
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    pub(crate) fn shared_credential(&self) -> Option<Arc<str>> {
        self.credential.clone()
    }

    /// What it may do in its namespace, and for the cluster.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    pub(crate) fn grants(&self) -> &Grants {
        &self.grants
    }

    /// In which it asks.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Whether it is the key of a namespace, which has no right anywhere else.
    pub(crate) fn is_of_namespace(&self) -> bool {
        self.kind == PrincipalKind::Key && self.has_chosen && self.grants.is_of_one()
    }

    pub(crate) fn has_chosen_namespace(&self) -> bool {
        self.has_chosen
    }

    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    pub fn may(&self, right: Right) -> bool {
        self.rights.contains(right)
    }

    /// Whether its rights may end before its connection does. Those of the server's own user and of the access token do not.
    pub fn may_lose_rights(&self) -> bool {
        !matches!(self.kind, PrincipalKind::LocalUser | PrincipalKind::ClusterToken | PrincipalKind::Server)
    }

    /// Refuses with `forbidden` unless the principal has the right. To somebody without any right in the namespace, it is not
    /// there.
    pub fn check(&self, right: Right) -> Result<()> {
        if self.may(right) {
            return Ok(());
        }
        let may_choose = matches!(self.kind, PrincipalKind::Key | PrincipalKind::Person);
        if may_choose && right.reach() == Reach::Namespace && !self.grants.sees(self.namespace.id()) {
            return Err(namespaces::not_found(self.namespace.name()));
        }
        let detail = format!("{} does not have the right `{right}`", self.name);
        Err(AppError::new(ErrorKind::Forbidden, detail).hint("ask an administrator for a role or a key that has it"))
    }

    /// The proof that the principal has the right. There is no other way to make one.
    pub fn permit<R: Permission>(self: &Arc<Self>) -> Result<By<R>> {
        self.permit_noting(&Arc::default())
    }

    /// The same. What the use case notes about the change goes to `notes`.
    pub fn permit_noting<R: Permission>(self: &Arc<Self>, notes: &Arc<ChangeNotes>) -> Result<By<R>> {
        self.check(R::RIGHT)?;
        Ok(By { principal: Arc::clone(self), notes: Arc::clone(notes), right: PhantomData })
    }
}

/// A right as a type. There is one for each [`Right`], with the same name.
pub trait Permission: Send + Sync + 'static {
    const RIGHT: Right;
}

/// What a use case knows about its change and the request does not say: for the audit log.
#[derive(Debug, Default)]
pub struct ChangeNotes(Mutex<(Option<String>, Option<String>)>);

impl ChangeNotes {
    fn write(&self) -> MutexGuard<'_, (Option<String>, Option<String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was changed, and what it was before.
    pub fn take(&self) -> (Option<String>, Option<String>) {
        std::mem::take(&mut self.write())
    }
}

/// A principal that was found to have the right `R`.
pub struct By<R> {
    principal: Arc<Principal>,
    notes: Arc<ChangeNotes>,
    right: PhantomData<fn() -> R>,
}

impl<R: Permission> By<R> {
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// The principal's name, as records show it.
    pub fn who(&self) -> &str {
        self.principal.name()
    }

    /// The namespace in which this is done. Whatever has a name or an id is looked for in it, and nowhere else.
    pub fn namespace(&self) -> NamespaceId {
        self.principal.namespace.id()
    }

    /// Whether the right was granted for the cluster, and so counts in every namespace.
    pub(crate) fn is_for_cluster(&self) -> bool {
        self.principal.grants.cluster().contains(R::RIGHT)
    }

    /// Whether the principal also has another right, for what a view shows only then.
    pub fn may(&self, right: Right) -> bool {
        self.principal.may(right)
    }

    /// Notes what is changed, where the path of the request does not name it.
    pub(crate) fn changes(&self, object: impl Into<String>) {
        self.notes.write().0 = Some(object.into());
    }

    /// Notes what it was before, in short: no payloads, no secrets.
    pub(crate) fn was(&self, before: impl Into<String>) {
        self.notes.write().1 = Some(before.into());
    }

    /// Refuses if the principal has lost the right since, or its credential does not count any more.
    pub fn check_again(&self, app: &App) -> Result<()> {
        app.renew(&self.principal)?.check(R::RIGHT)
    }

    /// The same principal with another right, for a use case that consists of others.
    pub fn also<S: Permission>(&self) -> Result<By<S>> {
        self.principal.permit_noting(&self.notes)
    }
}

impl<R> Clone for By<R> {
    fn clone(&self) -> Self {
        Self { principal: Arc::clone(&self.principal), notes: Arc::clone(&self.notes), right: PhantomData }
    }
}

impl<R: Permission> fmt::Debug for By<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "By({}, {})", self.principal.name, R::RIGHT)
    }
}

macro_rules! permissions {
    ($($right:ident)*) => {
        $(
            #[doc = concat!("The principal has [`Right::", stringify!($right), "`].")]
            #[derive(Debug, Clone, Copy)]
            pub enum $right {}

            impl super::Permission for $right {
                const RIGHT: super::Right = super::Right::$right;
            }
        )*

        #[cfg(test)]
        pub(super) const ALL: &[super::Right] = &[$(super::Right::$right),*];
    };
}

/// Rights as types, for `By<R>`.
pub mod permission {
    permissions! {
        ViewJobs SubmitJobs ControlJobs ViewInputs ViewOutputs ViewLogs ViewTasks EditTasks UseCommands UseNetwork
        UsePrivateAddresses UseSecrets ViewSecrets EditSecrets ViewSchedules EditSchedules ControlSchedules
        ViewArtifacts ReadArtifacts EditArtifacts ViewNotifications EditNotifications ViewWorkers ManageWorkers ServeJobs
        CreateKeys ManageKeys ManagePeople ReadAudit ManageNamespaces ViewCluster ManageCluster
    }
}

/// What the transport knows about the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transport {
    pub socket_user: SocketUser,
    /// The client's, after trusted proxies.
    pub address: Option<IpAddr>,
    /// The name in the certificate that the client presented and the handshake verified.
    pub certificate: Option<Arc<CertificateName>>,
    /// Whether what is sent cannot be read on its way: TLS, or a trusted proxy that ends it.
    pub is_encrypted: bool,
}

impl Transport {
    /// Whether the client is on the server's machine, as far as it is known.
    pub fn is_here(&self) -> bool {
        self.address.is_none_or(|address| address.to_canonical().is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::permission::{EditTasks, ViewJobs};
    use super::*;

    #[test]
    fn every_right_is_a_type() {
        assert_eq!(permission::ALL, Right::ALL);
    }

    #[test]
    fn only_who_has_the_right_gets_the_proof() {
        let ana = Arc::new(Principal::new(PrincipalKind::Person, "user:ana", Rights::of(&[Right::ViewJobs])));
        let by = ana.permit::<ViewJobs>().unwrap();
        assert_eq!((by.who(), by.may(Right::EditTasks)), ("user:ana", false));
        let refused = by.also::<EditTasks>().unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        assert!(refused.detail.contains("tasks.edit"), "{}", refused.detail);
    }
}
