//! The tokens of agents: JSON Web Tokens, signed with Ed25519 and nothing else.
//!
//! A token opens one attempt, until its time is over. The key is derived from the cluster's
//! secret, so every server accepts what another has signed. The header of a token is compared
//! byte by byte with the only one that we write: no algorithm is ever chosen by whoever sends it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use punctual_core::{AttemptNo, JobId, Timestamp, WorkerId};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::peer_key::PeerKey;

/// `{"alg":"EdDSA","typ":"JWT"}`.
const HEADER: &str = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9";
const ISSUER: &str = "punctual";
const AUDIENCE: &str = "attempt";
/// A tracing id of 256 characters, four bytes each, makes the longest that we sign.
const TOKEN_BYTES_MAX: usize = 4096;

pub(crate) struct TokenKey(Ed25519KeyPair);

/// Whom a token speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    pub job: JobId,
    pub attempt: AttemptNo,
    /// The worker that made the environment.
    pub worker: WorkerId,
    /// The environment.
    pub host: String,
    /// What it is called where it runs.
    pub pod: String,
    pub tracing_id: Option<String>,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    #[error("it is not one of ours")]
    NotOurs,
    #[error("its time is over")]
    Expired,
}

/// As it is written. Times are seconds since 1970, as the standard has them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    iss: String,
    aud: String,
    /// The job.
    sub: String,
    attempt: u32,
    worker: String,
    host: String,
    pod: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    trace: Option<String>,
    iat: i64,
    exp: i64,
}

const MICROS: i64 = 1_000_000;

impl TokenKey {
    /// Derived, so that nothing signed here can be mistaken for another use of the secret.
    pub(crate) fn new(secret: &PeerKey) -> Self {
        let seed = secret.derive(b"punctual attempt tokens 1");
        Self(Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed is 32 bytes"))
    }

    pub(crate) fn sign(&self, claims: &Claims) -> String {
        let written = Written {
            iss: ISSUER.to_owned(),
            aud: AUDIENCE.to_owned(),
            sub: claims.job.to_string(),
            attempt: claims.attempt.0,
            worker: claims.worker.to_string(),
            host: claims.host.clone(),
            pod: claims.pod.clone(),
            trace: claims.tracing_id.clone(),
            iat: claims.issued_at.as_micros().div_euclid(MICROS),
            // Up to the next second, so that nobody gets less time than was promised.
            exp: (claims.expires_at.as_micros() + MICROS - 1).div_euclid(MICROS),
        };
        let payload = serde_json::to_vec(&written).expect("claims are JSON");
        self.sign_payload(&payload)
    }

    fn sign_payload(&self, payload: &[u8]) -> String {
        let signed = format!("{HEADER}.{}", URL_SAFE_NO_PAD.encode(payload));
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, BadToken> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(BadToken::NotOurs);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(BadToken::NotOurs)?;
        let payload = signed.strip_prefix(HEADER).and_then(|rest| rest.strip_prefix('.')).ok_or(BadToken::NotOurs)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| BadToken::NotOurs)?;
        let public = UnparsedPublicKey::new(&ED25519, self.0.public_key().as_ref());
        public.verify(signed.as_bytes(), &signature).map_err(|_| BadToken::NotOurs)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| BadToken::NotOurs)?;
        let written: Written = serde_json::from_slice(&payload).map_err(|_| BadToken::NotOurs)?;
        let claims = read(written).ok_or(BadToken::NotOurs)?;
        if now >= claims.expires_at {
            return Err(BadToken::Expired);
        }
        Ok(claims)
    }
}

fn read(written: Written) -> Option<Claims> {
    if written.iss != ISSUER || written.aud != AUDIENCE {
        return None;
    }
    Some(Claims {
        job: written.sub.parse().ok()?,
        attempt: AttemptNo(written.attempt),
        worker: written.worker.parse().ok()?,
        host: written.host,
        pod: written.pod,
        tracing_id: written.trace,
        issued_at: Timestamp::from_micros(written.iat.checked_mul(MICROS)?)?,
        expires_at: Timestamp::from_micros(written.exp.checked_mul(MICROS)?)?,
    })
}

#[cfg(test)]
mod tests {
    use punctual_core::{ShardId, Span};
    use punctual_store::ClusterSecret;
    use serde_json::{Value, json};

    use super::*;

    fn key(byte: u8) -> TokenKey {
        TokenKey::new(&PeerKey::new(ClusterSecret([byte; 32])))
    }

    fn now() -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000).unwrap()
    }

    fn claims() -> Claims {
        Claims {
            job: JobId::new(now(), ShardId(3), 7),
            attempt: AttemptNo(2),
            worker: WorkerId::new(now(), 5),
            host: "h-1".to_owned(),
            pod: "punctual-h-1".to_owned(),
            tracing_id: Some("trace ü".to_owned()),
            issued_at: now(),
            expires_at: now() + Span::from_secs(60),
        }
    }

    #[test]
    fn what_was_signed_is_read_back_until_its_time_is_over() {
        let token = key(1).sign(&claims());
        assert_eq!(key(1).verify(&token, now()), Ok(claims()));
        assert_eq!(key(1).verify(&token, now() + Span::from_micros(59_999_999)), Ok(claims()));
        assert_eq!(key(1).verify(&token, now() + Span::from_secs(60)), Err(BadToken::Expired));
        assert_eq!(key(2).verify(&token, now()), Err(BadToken::NotOurs), "another cluster");
    }

    #[test]
    fn no_changed_byte_goes_unnoticed() {
        let token = key(1).sign(&claims());
        for place in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(key(1).verify(&changed, now()), Err(BadToken::NotOurs), "byte {place}");
        }
        for cut in 0..token.len() {
            assert!(key(1).verify(&token[..cut], now()).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn no_other_algorithm_is_accepted() {
        use hmac::{Hmac, Mac};
        let key = key(1);
        let token = key.sign(&claims());
        let payload = token.split('.').nth(1).unwrap();
        let encode = |header: Value| URL_SAFE_NO_PAD.encode(header.to_string());
        for alg in ["none", "None", "NONE", "", "HS256", "RS256", "ES256", "EdDSA ", "ed25519"] {
            let signed = format!("{}.{payload}", encode(json!({ "alg": alg, "typ": "JWT" })));
            // The public key as the secret of an HMAC, the classic confusion; and our own signature.
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key.0.public_key().as_ref()).unwrap();
            mac.update(signed.as_bytes());
            let by_hmac = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
            let by_us = URL_SAFE_NO_PAD.encode(key.0.sign(signed.as_bytes()));
            for signature in ["", &by_hmac, &by_us] {
                let forged = format!("{signed}.{signature}");
                assert_eq!(key.verify(&forged, now()), Err(BadToken::NotOurs), "{alg}");
            }
        }
    }

    #[test]
    fn claims_of_another_type_are_refused_though_we_signed_them() {
        let key = key(1);
        let token = key.sign(&claims());
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        let good: Value = serde_json::from_slice(&payload).unwrap();
        assert!(key.verify(&key.sign_payload(good.to_string().as_bytes()), now()).is_ok());
        let far = 4_000_000_000_i64;
        let wrong = [
            ("exp", json!(far.to_string())),
            ("exp", json!(far as f64 + 0.5)),
            ("exp", json!([far])),
            ("exp", json!(null)),
            ("exp", json!(i64::MAX)),
            ("exp", json!(true)),
            ("iat", json!("now")),
            ("attempt", json!("2")),
            ("attempt", json!(-1)),
            ("attempt", json!(2.0)),
            ("attempt", json!([2])),
            ("sub", json!(["job"])),
            ("sub", json!("job_x")),
            ("sub", json!(7)),
            ("host", json!(null)),
            ("pod", json!({})),
            ("worker", json!("")),
            ("iss", json!("somebody")),
            ("aud", json!(["attempt"])),
            ("aud", json!("server")),
            ("trace", json!(1)),
            ("admin", json!(true)),
        ];
        for (claim, value) in wrong {
            let mut bad = good.clone();
            bad[claim] = value.clone();
            let token = key.sign_payload(bad.to_string().as_bytes());
            assert_eq!(key.verify(&token, now()), Err(BadToken::NotOurs), "{claim} = {value}");
        }
        for claim in ["exp", "iat", "sub", "attempt", "host", "pod", "worker", "iss", "aud"] {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().remove(claim);
            let token = key.sign_payload(bad.to_string().as_bytes());
            assert_eq!(key.verify(&token, now()), Err(BadToken::NotOurs), "without {claim}");
        }
        for payload in ["", "null", "[]", "{}", "\"x\""] {
            assert_eq!(key.verify(&key.sign_payload(payload.as_bytes()), now()), Err(BadToken::NotOurs));
        }
    }
}
