//! URLs that the server signs for its own storage.
//!
//! A signature is good for one method, one key, one size and one moment, until which it may be
//! used. The key that signs is derived from the cluster's secret, so every server accepts what
//! another has signed.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use hmac::{Hmac, Mac};
use punctual_core::{Span, Timestamp, hex};
use sha2::Sha256;

use crate::Key;

const MICROS: i64 = 1_000_000;

#[derive(Clone)]
pub struct UrlKey(Hmac<Sha256>);

/// The query of a signed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedQuery {
    /// The size of the blob that may be uploaded; 0 for a download.
    pub size: u64,
    /// Seconds since 1970.
    pub expires: i64,
    /// 64 hexadecimal digits.
    pub signature: String,
}

impl SignedQuery {
    pub fn to_text(&self) -> String {
        format!("size={}&expires={}&signature={}", self.size, self.expires, self.signature)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    #[error("the signature does not fit the request")]
    Signature,
    #[error("its time is over")]
    Expired,
}

impl UrlKey {
    /// Derived, so that nothing signed here can be mistaken for another use of the secret.
    pub fn derive(secret: &[u8; 32]) -> Self {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key may have any length");
        mac.update(b"punctual storage urls 1");
        Self(Hmac::new_from_slice(&mac.finalize().into_bytes()).expect("a key may have any length"))
    }

    pub(crate) fn sign(&self, method: &http::Method, key: &Key, size: u64, expires_at: Timestamp) -> SignedQuery {
        // Up to the next second, so that no one gets less time than was promised.
        let expires = (expires_at.as_micros() + MICROS - 1).div_euclid(MICROS);
        let proof = self.proof(method, key, size, expires).finalize().into_bytes();
        let signature = hex::encode(proof);
        SignedQuery { size, expires, signature }
    }

    pub(crate) fn verify(
        &self,
        method: &http::Method,
        key: &Key,
        query: &SignedQuery,
        now: Timestamp,
    ) -> Result<(), BadUrl> {
        let proof = hex::decode::<32>(&query.signature).ok_or(BadUrl::Signature)?;
        // Compared in constant time.
        let mac = self.proof(method, key, query.size, query.expires);
        mac.verify_slice(&proof).map_err(|_| BadUrl::Signature)?;
        let expires_at = Timestamp::EPOCH + Span::from_secs(query.expires.clamp(0, i64::MAX / MICROS));
        if now > expires_at { Err(BadUrl::Expired) } else { Ok(()) }
    }

    fn proof(&self, method: &http::Method, key: &Key, size: u64, expires: i64) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        // None of the parts can hold a line break, so none can pass for two.
        mac.update(format!("{method}\n{key}\n{size}\n{expires}").as_bytes());
        mac
    }
}

/// The keys of all clones of a storage.
pub(crate) struct UrlKeys(RwLock<(UrlKey, Option<UrlKey>)>);

impl UrlKeys {
    pub(crate) fn new(signing: UrlKey) -> Self {
        Self(RwLock::new((signing, None)))
    }

    pub(crate) fn replace(&self, signing: UrlKey, other: Option<UrlKey>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = (signing, other);
    }

    fn now(&self) -> RwLockReadGuard<'_, (UrlKey, Option<UrlKey>)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sign(&self, method: &http::Method, key: &Key, size: u64, expires_at: Timestamp) -> SignedQuery {
        self.now().0.sign(method, key, size, expires_at)
    }

    pub(crate) fn verify(
        &self,
        method: &http::Method,
        key: &Key,
        query: &SignedQuery,
        now: Timestamp,
    ) -> Result<(), BadUrl> {
        let keys = self.now();
        match (keys.0.verify(method, key, query, now), &keys.1) {
            (Err(BadUrl::Signature), Some(other)) => other.verify(method, key, query, now),
            (verified, _) => verified,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn a_signature_of_either_key_is_good_while_there_are_two() {
        let (old, new) = (UrlKey::derive(&[7; 32]), UrlKey::derive(&[8; 32]));
        let (key, at) = (Key::new("a/b").unwrap(), |secs: i64| Timestamp::EPOCH + Span::from_secs(secs));
        let urls = UrlKeys::new(old.clone());
        let before = urls.sign(&Method::PUT, &key, 10, at(100));
        let check = |query: &SignedQuery, now| urls.verify(&Method::PUT, &key, query, at(now));
        urls.replace(new.clone(), Some(old));
        let after = urls.sign(&Method::PUT, &key, 10, at(100));
        assert_ne!(before, after);
        for query in [&before, &after] {
            assert_eq!((check(query, 100), check(query, 101)), (Ok(()), Err(BadUrl::Expired)));
        }
        urls.replace(new, None);
        assert_eq!((check(&before, 1), check(&after, 1)), (Err(BadUrl::Signature), Ok(())));
    }

    #[test]
    fn a_signature_is_good_for_one_request_until_its_time_is_over() {
        let urls = UrlKey::derive(&[7; 32]);
        let key = |text: &str| Key::new(text).unwrap();
        let at = |secs: i64| Timestamp::EPOCH + Span::from_secs(secs);
        let query = urls.sign(&Method::PUT, &key("a/b"), 10, at(100));
        let check =
            |urls: &UrlKey, method, text, query: &SignedQuery, now| urls.verify(&method, &key(text), query, at(now));
        assert_eq!(check(&urls, Method::PUT, "a/b", &query, 100), Ok(()));
        assert_eq!(check(&urls, Method::PUT, "a/b", &query, 101), Err(BadUrl::Expired));
        assert_eq!(check(&urls, Method::GET, "a/b", &query, 1), Err(BadUrl::Signature), "another method");
        assert_eq!(check(&urls, Method::PUT, "a/c", &query, 1), Err(BadUrl::Signature), "another key");
        let other = UrlKey::derive(&[8; 32]);
        assert_eq!(check(&other, Method::PUT, "a/b", &query, 1), Err(BadUrl::Signature), "another cluster's");
        for changed in [
            SignedQuery { size: 11, ..query.clone() },
            SignedQuery { expires: 200, ..query.clone() },
            SignedQuery { expires: i64::MAX, ..query.clone() },
            SignedQuery { signature: String::new(), ..query.clone() },
            SignedQuery { signature: "0".repeat(64), ..query.clone() },
            SignedQuery { signature: "+1".repeat(32), ..query.clone() },
            SignedQuery { signature: query.signature[1..].to_owned(), ..query.clone() },
            SignedQuery { signature: "é".repeat(32), ..query.clone() },
        ] {
            assert_eq!(check(&urls, Method::PUT, "a/b", &changed, 1), Err(BadUrl::Signature), "{changed:?}");
        }
    }
}
