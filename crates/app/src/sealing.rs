//! The one way in which servers encrypt what the database keeps and only they may read: XChaCha20-Poly1305 under a key of 256
//! bits. The nonce is random and long enough never to repeat. What is sealed is bound to its place, so that one row cannot
//! stand for another.

use std::fmt;
use std::sync::Arc;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use punctual_api::ErrorKind;
use zeroize::Zeroizing;

use crate::AppError;

const NONCE_BYTES: usize = 24;

/// Where random bytes come from that nobody can guess.
pub type Entropy = Arc<dyn Fn() -> Result<[u8; 32], NoRandomness> + Send + Sync>;

/// The operating system gave no random bytes. Nothing is made then: a key that somebody could guess is worse than none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random numbers")]
pub struct NoRandomness;

impl From<NoRandomness> for AppError {
    fn from(error: NoRandomness) -> Self {
        let error = Self::new(ErrorKind::Unavailable, error.to_string());
        error.hint("try again; if it lasts, look at the server's operating system: it cannot make keys")
    }
}

/// A key for sealing values.
#[derive(Clone)]
pub(crate) struct DataKey(Zeroizing<[u8; 32]>);

impl DataKey {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The nonce and the ciphertext.
    pub(crate) fn seal(&self, plain: &[u8], binding: &[u8], entropy: &Entropy) -> Result<Vec<u8>, NoRandomness> {
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(&entropy()?[..NONCE_BYTES]);
        let cipher = XChaCha20Poly1305::new(&Key::from(*self.0));
        let sealed = cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: binding });
        Ok([&nonce[..], &sealed.expect("a value is shorter than 256 GiB")].concat())
    }

    /// `None` if it was sealed with another key or for something else, or was changed.
    pub(crate) fn open(&self, sealed: &[u8], binding: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let cipher = XChaCha20Poly1305::new(&Key::from(*self.0));
        let opened = cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: binding });
        opened.ok().map(Zeroizing::new)
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> [u8; 32] {
        *self.0
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    #[test]
    fn what_is_sealed_opens_with_its_key_at_its_place_alone() {
        let next = AtomicU8::new(1);
        let entropy: Entropy = Arc::new(move || Ok([next.fetch_add(1, Ordering::Relaxed); 32]));
        let (key, other, secret) = (DataKey::new([7; 32]), DataKey::new([8; 32]), b"a private key");
        let sealed = key.seal(secret, b"authority 1", &entropy).unwrap();
        assert_eq!(key.open(&sealed, b"authority 1").unwrap().as_slice(), secret);
        assert!(other.open(&sealed, b"authority 1").is_none());
        assert!(key.open(&sealed, b"authority 2").is_none());
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(key.open(&changed, b"authority 1").is_none(), "byte {place}");
        }
        assert!(key.open(&sealed[..20], b"authority 1").is_none());
        assert_ne!(key.seal(secret, b"authority 1", &entropy).unwrap(), sealed, "nonces differ");
        assert!(!sealed.windows(secret.len()).any(|window| window == secret));
    }

    #[test]
    fn without_randomness_nothing_is_sealed() {
        let none: Entropy = Arc::new(|| Err(NoRandomness));
        assert_eq!(DataKey::new([7; 32]).seal(b"value", b"place", &none), Err(NoRandomness));
        assert_eq!(AppError::from(NoRandomness).kind, ErrorKind::Unavailable);
    }
}
