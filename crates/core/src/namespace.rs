//! Namespaces: the tenants of a cluster. Everything that a user names or makes is in one, and its key begins with it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The number of a namespace. It is never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NamespaceId(pub u32);

impl NamespaceId {
    /// The namespace `default`, which always exists.
    pub const DEFAULT: Self = Self(0);

    pub const fn is_default(&self) -> bool {
        self.0 == Self::DEFAULT.0
    }

    /// For columns in which nothing stands for the default namespace, so that a single tenant pays nothing.
    pub const fn or_none(self) -> Option<u32> {
        if self.is_default() { None } else { Some(self.0) }
    }

    /// From such a column. `None` if it is not the number of a namespace.
    pub fn from_column(column: Option<i64>) -> Option<Self> {
        u32::try_from(column.unwrap_or(0)).ok().map(Self)
    }
}

impl fmt::Display for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespace {}", self.0)
    }
}

/// The namespaces whose jobs a worker may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServedNamespaces {
    All,
    Only(BTreeSet<NamespaceId>),
}

impl ServedNamespaces {
    pub fn serves(&self, namespace: NamespaceId) -> bool {
        match self {
            Self::All => true,
            Self::Only(served) => served.contains(&namespace),
        }
    }

    /// Whether it serves this one and no other.
    pub fn is_only(&self, namespace: NamespaceId) -> bool {
        matches!(self, Self::Only(served) if served.len() == 1 && served.contains(&namespace))
    }

    /// Those in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, one) | (one, Self::All) => one,
            (Self::Only(one), Self::Only(other)) => Self::Only(one.intersection(&other).copied().collect()),
        }
    }
}

/// The name of a namespace: lowercase letters, digits and hyphens, with a letter or digit at both ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamespaceName(String);

/// As long as a label of a host name, which a namespace may become a part of.
pub const NAMESPACE_NAME_LEN_MAX: usize = 63;

impl NamespaceName {
    /// The namespace that always exists.
    pub const DEFAULT: &'static str = "default";

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for NamespaceName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is not the name of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotANamespaceName;

impl fmt::Display for NotANamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "must have 1 to {NAMESPACE_NAME_LEN_MAX} lowercase letters, digits and hyphens, and begin and end with a \
             letter or digit"
        )
    }
}

impl std::error::Error for NotANamespaceName {}

impl FromStr for NamespaceName {
    type Err = NotANamespaceName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_letter_or_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let has_ends = bytes.first().is_some_and(|first| is_letter_or_digit(*first))
            && bytes.last().is_some_and(|last| is_letter_or_digit(*last));
        let is_name = has_ends
            && bytes.len() <= NAMESPACE_NAME_LEN_MAX
            && bytes.iter().all(|byte| is_letter_or_digit(*byte) || *byte == b'-');
        if is_name { Ok(Self(text.to_owned())) } else { Err(NotANamespaceName) }
    }
}

impl TryFrom<String> for NamespaceName {
    type Error = NotANamespaceName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<NamespaceName> for String {
    fn from(name: NamespaceName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_a_label_of_a_host_name_is() {
        let longest = "a".repeat(NAMESPACE_NAME_LEN_MAX);
        for good in ["a", "7", "team-a", "a--b", "0a", longest.as_str(), NamespaceName::DEFAULT] {
            assert_eq!(good.parse::<NamespaceName>().map(String::from), Ok(good.to_owned()));
        }
        let too_long = "a".repeat(NAMESPACE_NAME_LEN_MAX + 1);
        for bad in ["", "-a", "a-", "-", "A", "a_b", "a.b", "a/b", "ä", " a", "a\n", too_long.as_str()] {
            assert_eq!(bad.parse::<NamespaceName>(), Err(NotANamespaceName), "{bad:?}");
        }
    }

    #[test]
    fn a_worker_serves_what_both_sides_say() {
        let only = |ids: &[u32]| ServedNamespaces::Only(ids.iter().map(|id| NamespaceId(*id)).collect());
        assert_eq!(ServedNamespaces::All.and(only(&[1])), only(&[1]));
        assert_eq!(only(&[1, 2]).and(only(&[2, 3])), only(&[2]));
        assert_eq!(only(&[1]).and(ServedNamespaces::All), only(&[1]));
        assert!(ServedNamespaces::All.serves(NamespaceId(7)) && !only(&[]).serves(NamespaceId::DEFAULT));
    }

    #[test]
    fn nothing_in_a_column_is_the_default_namespace() {
        for id in [0, 1, u32::MAX].map(NamespaceId) {
            assert_eq!(NamespaceId::from_column(id.or_none().map(i64::from)), Some(id));
        }
        assert_eq!(NamespaceId::DEFAULT.or_none(), None);
        assert_eq!(NamespaceId::from_column(Some(-1)), None);
        assert_eq!(NamespaceId::from_column(Some(i64::from(u32::MAX) + 1)), None);
    }
}
