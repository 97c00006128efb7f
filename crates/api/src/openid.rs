//! Logging in at a provider of OpenID Connect.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SecretText;

/// `GET /v1/login/oidc/start`: what a command line has a browser say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrowserLoginQuery {
    /// Where the command line listens on the browser's machine.
    pub port: u16,
    /// The SHA-256 of what only the command line knows, in base64url.
    pub challenge: String,
    /// Comes back with the code, so that the command line takes no other.
    pub state: String,
    /// The browser was sent on from another address of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<bool>,
}

/// `GET /v1/login/oidc/callback`: what the provider has the browser say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderAnswerQuery {
    #[serde(default)]
    pub state: Option<String>,
    #[serde(default)]
    pub code: Option<String>,
    #[serde(default)]
    pub iss: Option<String>,
    #[serde(default)]
    pub error: Option<String>,
    #[serde(default)]
    pub error_description: Option<String>,
}

/// `POST /v1/login/oidc/exchange`: the code that the browser brought, for a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginExchange {
    #[schema(value_type = String, max_length = 2048)]
    pub code: SecretText,
    /// What the challenge is the SHA-256 of.
    #[schema(value_type = String, max_length = 128)]
    pub verifier: SecretText,
}

/// `POST /v1/login/oidc/device`: a login that waits for somebody with a browser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeviceLogin {
    /// For `POST /v1/login/oidc/device/poll`. Whoever has it gets the session.
    #[schema(value_type = String)]
    pub login: SecretText,
    /// What the person types at the provider.
    pub user_code: String,
    /// Where they type it.
    #[schema(example = "https://id.example.com/device")]
    pub address: String,
    /// The address with the code in it, if the provider has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_address: Option<String>,
    /// Seconds until the code ends.
    pub expires_in: u64,
    /// Seconds between two polls.
    pub interval: u64,
}

/// `POST /v1/login/oidc/device/poll`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DevicePollRequest {
    #[schema(value_type = String, max_length = 8192)]
    pub login: SecretText,
}

/// Nobody has logged in yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DevicePending {
    pub status: DeviceStatus,
}

/// What to do while nobody has logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeviceStatus {
    /// Ask again after the interval.
    Pending,
    /// Add 5 seconds to the interval, for good.
    SlowDown,
}

/// What a command line and a browser show of the same login, for people to compare: eight characters of its challenge.
pub fn login_check(challenge: &str) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'-' => 62,
        _ => 63,
    };
    let digits: String =
        challenge.bytes().take(8).map(|byte| char::from(DIGITS[usize::from(value(byte) % 32)])).collect();
    let (first, second) = digits.split_at(digits.len() / 2);
    format!("{first}-{second}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_compare_is_short_and_has_no_letters_that_look_alike() {
        assert_eq!(login_check("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"), "4XCY-518T");
        assert_ne!(login_check("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"), login_check("E9MelhobX"));
        assert_eq!(login_check("").len(), 1);
    }
}
