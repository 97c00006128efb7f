//! Signs requests by the rules of Standard Webhooks, so that receivers know who sent them.
//!
//! The id is the job's, the same for every attempt; the time is the attempt's.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use http::header::{HeaderName, HeaderValue};
use punctual_core::{JobId, Timestamp};
use sha2::Sha256;

use super::request::Outgoing;
use crate::named;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
pub(super) const HEADERS: [HeaderName; 3] = [ID, TIMESTAMP, SIGNATURE];

/// The length of keys in the standard: shorter keys can be guessed, longer ones add nothing.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The keys of a worker, by name. Several of one name all sign, so that a receiver can be moved
/// from one to the next.
#[derive(Clone, Default)]
pub struct WebhookKeys(BTreeMap<String, Vec<Vec<u8>>>);

impl fmt::Debug for WebhookKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl WebhookKeys {
    /// Reads `name=whsec_…` pairs. Never repeats a key in a refusal.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut keys: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for (name, secret) in named::parse(text, "key")? {
            let secret = secret.strip_prefix("whsec_").ok_or_else(|| {
                format!(
                    "the key {name} does not begin with whsec_; make one with `echo whsec_$(openssl rand -base64 32)`"
                )
            })?;
            let key = STANDARD.decode(secret).map_err(|_| format!("the key {name} is not base64 after whsec_"))?;
            if !KEY_BYTES.contains(&key.len()) {
                let (least, most) = KEY_BYTES.into_inner();
                return Err(format!("the key {name} has {} bytes; it must have {least} to {most}", key.len()));
            }
            keys.entry(name).or_default().push(key);
        }
        Ok(Self(keys))
    }

    pub(super) fn sign(&self, name: &str, job: JobId, now: Timestamp, request: &mut Outgoing) -> Result<(), String> {
        let keys = self
            .0
            .get(name)
            .ok_or_else(|| format!("this worker has no webhook key `{name}`; its setting webhook_keys can have it"))?;
        let seconds = now.as_micros().div_euclid(1_000_000);
        let body = request.body.clone().unwrap_or_default();
        let signatures: Vec<_> = keys.iter().map(|key| signature(key, job, seconds, &body)).collect();
        let value = |text: &str| HeaderValue::from_str(text).expect("an id and base64 are ASCII");
        request.headers.insert(ID, value(&job.to_string()));
        request.headers.insert(TIMESTAMP, HeaderValue::from(seconds));
        request.headers.insert(SIGNATURE, value(&signatures.join(" ")));
        Ok(())
    }
}

fn signature(key: &[u8], id: impl fmt::Display, seconds: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length makes a code");
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification.
    #[test]
    fn a_signature_is_what_the_standard_says() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_wrong_key_is_refused_without_showing_it() {
        for bad in ["s3cretkey", "a=s3cretkey", "a=whsec_s3cret!", "a=whsec_czNjcmV0", "a b=whsec_s3cret"] {
            let refused = WebhookKeys::parse(bad).unwrap_err();
            assert!(!refused.contains("s3cret") && !refused.contains("czNjcmV0"), "{refused}");
        }
        let keys = WebhookKeys::parse("a=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(format!("{keys:?}"), r#"{"a"}"#);
    }
}
