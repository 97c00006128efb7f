//! The device flow (RFC 8628): somebody types a code into a browser elsewhere.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use url::Url;

use crate::settings::check_endpoint;
use crate::{Fault, Identity, Provider};

/// A login that waits for somebody at the provider.
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceCode {
    /// Whoever has it gets the login. For nobody but the provider.
    pub device_code: String,
    /// What people type.
    pub user_code: String,
    pub address: String,
    /// The address with the code in it.
    pub complete_address: Option<String>,
    pub expires_in: Duration,
    /// Nobody asks more often.
    pub interval: Duration,
}

impl fmt::Debug for DeviceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceCode")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DevicePoll {
    /// Nobody has answered yet.
    Pending,
    /// The same, and the interval grows by 5 seconds from now on.
    SlowDown,
    Done(Identity),
}

const CODE_BYTES_MAX: usize = 2048;
const USER_CODE_CHARS_MAX: usize = 64;
const EXPIRY_MAX: Duration = Duration::from_secs(1800);
/// What holds if the provider says nothing, by the RFC.
const INTERVAL_USUAL: Duration = Duration::from_secs(5);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

impl Provider {
    /// Whether the provider has the flow is known only after it was asked.
    pub async fn begin_device_login(&self) -> Result<DeviceCode, Fault> {
        const WHAT: &str = "the device endpoint";
        let discovery = self.discovery().await?;
        let endpoint = discovery.device.clone();
        let endpoint =
            endpoint.ok_or_else(|| Fault::Unusable("the provider has no login by device code".to_owned()))?;
        let scope = self.scope();
        let request = self.as_client(self.http.post(endpoint), discovery.client_auth, &[("scope", &scope)]);
        let answer = match self.tokens(request, WHAT).await? {
            Ok(answer) => answer,
            Err(code) => return Err(Fault::ClientRefused(format!("{WHAT} answers {code}"))),
        };
        let unusable = |what: &str| Fault::Unusable(format!("{what} of {WHAT} cannot be used"));
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let seconds = |name: &str| answer.get(name).and_then(Value::as_u64).map(Duration::from_secs);
        // They are shown on a terminal.
        let is_plain = |text: &&str| text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        let user_code = text("user_code").filter(is_plain).filter(|code| code.len() <= USER_CODE_CHARS_MAX);
        let address = |name: &str| -> Result<Option<String>, Fault> {
            let Some(text) = text(name) else { return Ok(None) };
            let url = Url::parse(text).map_err(|_| unusable(name))?;
            check_endpoint(&url, self.settings.loopback()).map_err(|_| unusable(name))?;
            Ok(Some(url.into()))
        };
        let device_code = text("device_code").filter(|code| !code.is_empty() && code.len() <= CODE_BYTES_MAX);
        Ok(DeviceCode {
            device_code: device_code.ok_or_else(|| unusable("device_code"))?.to_owned(),
            user_code: user_code.ok_or_else(|| unusable("user_code"))?.to_owned(),
            address: address("verification_uri")?.ok_or_else(|| unusable("verification_uri"))?,
            complete_address: address("verification_uri_complete")?,
            expires_in: seconds("expires_in").ok_or_else(|| unusable("expires_in"))?.min(EXPIRY_MAX),
            interval: seconds("interval").unwrap_or(INTERVAL_USUAL).clamp(Duration::from_secs(1), INTERVAL_MAX),
        })
    }

    /// Asks once whether somebody has logged in. There is no nonce in this flow: the token comes over the connection to the
    /// provider, for a code that only this client has.
    pub async fn poll_device_login(&self, device_code: &str) -> Result<DevicePoll, Fault> {
        let discovery = self.discovery().await?;
        let fields = [("grant_type", "urn:ietf:params:oauth:grant-type:device_code"), ("device_code", device_code)];
        let request = self.as_client(self.http.post(discovery.token.clone()), discovery.client_auth, &fields);
        match self.tokens(request, "the token endpoint").await? {
            Ok(tokens) => self.identity(&discovery, &tokens, None).await.map(DevicePoll::Done),
            Err(code) => match code.as_str() {
                "authorization_pending" => Ok(DevicePoll::Pending),
                "slow_down" => Ok(DevicePoll::SlowDown),
                "expired_token" => Err(Fault::invalid("code_expired", "nobody logged in in time")),
                "access_denied" => Err(Fault::LoginRefused(code)),
                _ => Err(Fault::invalid("code_refused", format!("the token endpoint answers {code}"))),
            },
        }
    }
}
