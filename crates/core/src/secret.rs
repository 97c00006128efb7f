//! Secrets: their names, and their values on the way to the attempt that needs them.

use std::collections::BTreeMap;
use std::fmt;

use zeroize::Zeroizing;

/// The longest name of a secret.
pub const SECRET_NAME_BYTES_MAX: usize = 64;

/// A shorter value would be found in ordinary words, so that it could not be removed from logs.
pub const SECRET_BYTES_MIN: usize = 4;

/// A private key with its certificates fits. What is larger is a file, and belongs into an artifact.
pub const SECRET_BYTES_MAX: usize = 64 << 10;

/// Secrets that one task may refer to: their values go out with each attempt.
pub const TASK_SECRETS_MAX: usize = 16;

/// Whether a secret may have this name: 1 to 64 letters, digits, dots, dashes and underscores, of which the first is a
/// letter or a digit.
pub fn is_secret_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    name.len() <= SECRET_NAME_BYTES_MAX
        && name.bytes().all(is_allowed)
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// The value of a secret. Shown to nobody, and overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// The value itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The values that one attempt was given, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretValues(BTreeMap<String, SecretValue>);

impl SecretValues {
    pub fn get(&self, name: &str) -> Option<&SecretValue> {
        self.0.get(name)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl FromIterator<(String, SecretValue)> for SecretValues {
    fn from_iter<I: IntoIterator<Item = (String, SecretValue)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_can_stand_in_a_placeholder() {
        for good in ["a", "db-password", "Stripe.KEY_2", &"x".repeat(64)] {
            assert!(is_secret_name(good), "{good}");
        }
        for bad in ["", "-a", ".a", "_a", "a b", "a/b", "ä", "a}}", &"x".repeat(65)] {
            assert!(!is_secret_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_value_is_not_in_debug_output() {
        let values = SecretValues::from_iter([("db".to_owned(), SecretValue::new("s3cret"))]);
        let debugged = format!("{values:?}");
        assert!(debugged.contains("db") && !debugged.contains("s3cret"), "{debugged}");
    }
}
