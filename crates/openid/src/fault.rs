//! Why a login cannot go on, in words for the administrator.

/// What is wrong. The text is for logs: it names claims and endpoints, and never holds a token, a code or a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The provider does not answer, or answers with an error of its own. The same may succeed later.
    #[error("the provider cannot be asked: {0}")]
    Unavailable(String),
    /// The provider's documents cannot be used: a wrong setting here or there.
    #[error("the provider cannot be used: {0}")]
    Unusable(String),
    /// The provider does not accept this client: its id, secret, redirect address or scopes.
    #[error("the provider refuses the client: {0}")]
    ClientRefused(String),
    /// The provider, or the person there, said no.
    #[error("the provider refused the login: {0}")]
    LoginRefused(String),
    /// What came back does not prove what it should.
    #[error("the answer of the provider is not valid: {reason}: {detail}")]
    Invalid {
        /// Stable, such as `wrong_audience`.
        reason: &'static str,
        detail: String,
    },
}

impl Fault {
    pub(crate) fn invalid(reason: &'static str, detail: impl Into<String>) -> Self {
        Self::Invalid { reason, detail: detail.into() }
    }

    /// Stable, for the audit log and the docs.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "provider_unavailable",
            Self::Unusable(_) => "provider_unusable",
            Self::ClientRefused(_) => "client_refused",
            Self::LoginRefused(_) => "provider_refused",
            Self::Invalid { reason, .. } => reason,
        }
    }

    /// Whether nobody did anything wrong who logs in: the provider or the settings have to be looked at.
    pub const fn is_of_provider(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unusable(_) | Self::ClientRefused(_))
    }
}

/// A text of somebody else's, for a log: short, and on one line.
pub(crate) fn quoted(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CHARS_MAX).collect()
}
