//! Seals what the database keeps and only servers may read: XChaCha20-Poly1305 under a key that is derived from the cluster's
//! secret. The nonce is random and long enough never to repeat. What is sealed is bound to its place, so that one row cannot
//! stand for another.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use ring::rand::{SecureRandom, SystemRandom};

const NONCE_LEN: usize = 24;

/// The nonce, and what was sealed.
pub(super) fn seal(key: &[u8; 32], place: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).expect("the operating system has random numbers");
    let cipher = XChaCha20Poly1305::new(Key::from_slice(key));
    let sealed = cipher
        .encrypt(XNonce::from_slice(&nonce), Payload { msg: secret, aad: place })
        .expect("a key is far below the limit");
    [&nonce[..], &sealed].concat()
}

/// `None` if it was sealed with another key or for another place, or was changed.
pub(super) fn open(key: &[u8; 32], place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
    let cipher = XChaCha20Poly1305::new(Key::from_slice(key));
    cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: sealed, aad: place }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_its_key_at_its_place_alone() {
        let (key, secret) = ([7; 32], b"a private key");
        let sealed = seal(&key, b"authority 1", secret);
        assert_eq!(open(&key, b"authority 1", &sealed).as_deref(), Some(&secret[..]));
        assert_eq!(open(&[8; 32], b"authority 1", &sealed), None);
        assert_eq!(open(&key, b"authority 2", &sealed), None);
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(open(&key, b"authority 1", &changed), None, "byte {place}");
        }
        assert_eq!(open(&key, b"authority 1", &sealed[..20]), None);
        assert_ne!(seal(&key, b"authority 1", secret), sealed, "nonces differ");
        assert!(!sealed.windows(secret.len()).any(|window| window == secret));
    }
}
