//! What a worker demands of the sandbox, and what it gives programs.

use punctual_exec::{NetworkPolicy, UserRange};
use punctual_sandbox::Protection;

use super::{Config, Origin};

/// The limits that a program as a whole is held to.
const LIMITS: [(&str, Protection); 3] =
    [("memory", Protection::MemoryLimit), ("cpu", Protection::CpuLimit), ("pids", Protection::PidsLimit)];
const NONE: &str = "none";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxSettings {
    /// Without these no program is run.
    pub(crate) required: Vec<Protection>,
    /// Somebody asked for exactly these: a worker that cannot give them does not start.
    pub(crate) is_named: bool,
    pub(crate) network: NetworkPolicy,
    pub(crate) users: UserSettings,
}

/// The users that programs run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserSettings {
    pub(crate) range: UserRange,
    /// Somebody asked for this range: a worker that cannot use it does not start.
    pub(crate) is_named: bool,
    /// Whether one user for all namespaces will do where the worker cannot choose. `None` if nobody said so.
    pub(crate) allow_shared: Option<bool>,
}

impl SandboxSettings {
    pub(crate) fn new(config: &Config) -> anyhow::Result<Self> {
        let named = config.sandbox_require()?;
        let is_named = named.is_some();
        let required = named.unwrap_or_else(|| LIMITS.map(|(_, limit)| limit).to_vec());
        let network = if config.allow_network()? { NetworkPolicy::Allowed } else { NetworkPolicy::Refused };
        let users = UserSettings {
            range: config.program_users()?,
            is_named: config.value("program_users").origin != Origin::Default,
            allow_shared: config.allow_shared_user()?,
        };
        Ok(Self { required, is_named, network, users })
    }

    /// For one person on one machine, where limits and other users are a comfort: whatever the machine can do.
    pub(crate) fn or_none(mut self) -> Self {
        self.users.allow_shared.get_or_insert(true);
        match self.is_named {
            true => self,
            false => Self { required: Vec::new(), ..self },
        }
    }
}

pub(super) fn users(text: &str) -> Result<UserRange, String> {
    text.parse()
}

pub(super) fn limits(text: &str) -> Result<Vec<Protection>, String> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    if words == [NONE] {
        return Ok(Vec::new());
    }
    let limit = |word: &str| {
        let known = LIMITS.iter().find(|(name, _)| *name == word).map(|(_, limit)| *limit);
        known.ok_or_else(|| format!("`{word}` is none of memory, cpu, pids; or write `none` alone"))
    };
    words.into_iter().map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Sources, Untrusted};
    use super::*;

    fn settings(required: Option<&str>) -> anyhow::Result<SandboxSettings> {
        let lookup = |name: &str| required.filter(|_| name == "PUNCTUAL_SANDBOX_REQUIRE").map(str::to_owned);
        let empty = tempfile::NamedTempFile::new().unwrap();
        let file = Some(empty.path().to_owned());
        let sources = Sources { flags: &[], environment: &lookup, file, untrusted: Untrusted::Refuse };
        SandboxSettings::new(&Config::load(&sources)?)
    }

    #[test]
    fn all_limits_are_required_unless_somebody_says_otherwise() {
        let usual = settings(None).unwrap();
        assert_eq!(usual.required, [Protection::MemoryLimit, Protection::CpuLimit, Protection::PidsLimit]);
        assert_eq!((usual.is_named, usual.network), (false, NetworkPolicy::Refused));
        assert_eq!(usual.or_none().required, []);
        assert_eq!(settings(Some("none")).unwrap().required, []);
        let named = settings(Some("pids, memory")).unwrap();
        assert_eq!(named.required, [Protection::PidsLimit, Protection::MemoryLimit]);
        assert_eq!(named.clone().or_none().required, named.required);
        assert_eq!((named.users.allow_shared, named.or_none().users.allow_shared), (None, Some(true)));
    }

    #[test]
    fn a_limit_that_does_not_exist_is_named() {
        for wrong in ["ram", "memory,none", "none,none"] {
            let refused = settings(Some(wrong)).unwrap_err().to_string();
            assert!(refused.contains("is none of memory, cpu, pids"), "{refused}");
        }
    }
}
