//! What a line of the audit log says.

use std::net::IpAddr;

use punctual_api::AuditNamespace;

use crate::principal::Principal;

/// A path or a name that somebody else chose.
const OBJECT_CHARS_MAX: usize = 256;
const BEFORE_CHARS_MAX: usize = 512;

/// Something that was done or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    pub(super) principal: String,
    pub(super) kind: &'static str,
    pub(super) credential: Option<String>,
    /// `None`: it concerns the cluster.
    pub(super) namespace: Option<AuditNamespace>,
    pub(super) address: Option<IpAddr>,
    pub(super) action: String,
    pub(super) object: Option<String>,
    pub(super) before: Option<String>,
    pub(super) outcome: String,
    pub(super) times: Option<u32>,
}

impl AuditEvent {
    pub const DONE: &str = "done";

    /// `outcome` is [`AuditEvent::DONE`] or the code of an error.
    pub fn new(by: &Principal, action: impl Into<String>, outcome: impl Into<String>) -> Self {
        Self {
            principal: by.name().to_owned(),
            kind: by.kind().name(),
            credential: by.credential().map(str::to_owned),
            namespace: None,
            address: by.address(),
            action: action.into(),
            object: None,
            before: None,
            outcome: outcome.into(),
            times: None,
        }
    }

    /// Of somebody who did not prove who they are.
    pub fn by_nobody(address: Option<IpAddr>, action: impl Into<String>, outcome: impl Into<String>) -> Self {
        Self {
            principal: "nobody".to_owned(),
            kind: "nobody",
            credential: None,
            namespace: None,
            address,
            action: action.into(),
            object: None,
            before: None,
            outcome: outcome.into(),
            times: None,
        }
    }

    /// In the namespace in which the principal asked.
    #[must_use]
    pub fn in_namespace_of(mut self, by: &Principal) -> Self {
        let namespace = by.namespace();
        self.namespace = Some(AuditNamespace { id: namespace.id().0, name: namespace.name().to_owned() });
        self
    }

    #[must_use]
    pub fn object(mut self, object: Option<&str>) -> Self {
        self.object = object.map(|object| object.chars().take(OBJECT_CHARS_MAX).collect());
        self
    }

    #[must_use]
    pub fn before(mut self, before: Option<&str>) -> Self {
        self.before = before.map(|before| before.chars().take(BEFORE_CHARS_MAX).collect());
        self
    }
}
