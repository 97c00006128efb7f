//! Passwords: argon2id, a few at a time.
//!
//! Each takes 19 MiB and some ten milliseconds, which is the point. So at most two are computed at once, a bounded number waits, and
//! more are refused at once: a flood of logins takes neither the memory nor the time of what else the server does.

use std::sync::Arc;

use argon2::password_hash::{PasswordHash as Phc, PasswordHasher as _, PasswordVerifier as _, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use punctual_api::{ErrorKind, FieldCode, SecretText, limits};
use punctual_core::Span;
use punctual_store::PasswordHash;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{AppError, Result};

/// Computed at once: 38 MiB, and not all of the processors of a small machine.
const AT_ONCE: usize = 2;
/// Those that are computed or wait for it: less than a second.
const ADMITTED_MAX: usize = 34;
/// The least that OWASP recommends for argon2id.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;

/// What is checked for people who are not there, with the same parameters, so that it takes as long. Nobody knows a password
/// for it.
const NOBODYS: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdCEh$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Whether a password is the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    Wrong,
}

#[derive(Debug)]
pub(crate) struct Passwords {
    admitted: Arc<Semaphore>,
    computing: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { admitted: Arc::new(Semaphore::new(ADMITTED_MAX)), computing: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Passwords {
    /// With 16 random bytes as the salt.
    pub(crate) async fn hash(&self, password: &SecretText, salt: [u8; 16]) -> Result<PasswordHash> {
        let password = password.clone();
        self.compute(move || {
            let salt = SaltString::encode_b64(&salt).expect("the salt has the recommended length");
            let hashed = argon2().hash_password(password.0.as_bytes(), &salt);
            PasswordHash(hashed.expect("the password is short and the parameters are ours").to_string())
        })
        .await
    }

    /// Takes as long without a hash to compare with.
    pub(crate) async fn verify(&self, password: &SecretText, hash: Option<PasswordHash>) -> Result<Verdict> {
        let password = password.clone();
        self.compute(move || {
            let is_somebodys = hash.is_some();
            let hash = hash.map_or_else(|| NOBODYS.to_owned(), |hash| hash.0);
            // One that cannot be read fits no password.
            let is_right =
                Phc::new(&hash).is_ok_and(|hash| argon2().verify_password(password.0.as_bytes(), &hash).is_ok());
            if is_right && is_somebodys { Verdict::Right } else { Verdict::Wrong }
        })
        .await
    }

    async fn compute<T: Send + 'static>(&self, compute: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let place = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| busy())?;
        let permit = Arc::clone(&self.computing).acquire_owned().await.map_err(|_| busy())?;
        // The permits are given back when it is computed, also if nobody waits for it any more.
        let task = tokio::task::spawn_blocking(move || held(compute, [place, permit]));
        task.await
            .map_err(|error| AppError::new(ErrorKind::Internal, "a password could not be computed").because(error))
    }
}

fn held<T>(compute: impl FnOnce() -> T, permits: [OwnedSemaphorePermit; 2]) -> T {
    let value = compute();
    drop(permits);
    value
}

fn argon2() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None).expect("the parameters are in their range");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn busy() -> AppError {
    AppError::new(ErrorKind::TooManyLogins, "too many passwords are being checked")
        .hint("try again in a few seconds")
        .retry_after(Span::from_secs(2))
}

/// The length is all that is asked of a password.
pub(crate) fn check(pointer: &str, password: &SecretText) -> Result<()> {
    let SecretText(text) = password;
    if text.chars().count() < limits::PASSWORD_CHARS_MIN {
        let error = AppError::field(pointer, format!("must be at least {} characters", limits::PASSWORD_CHARS_MIN));
        return Err(error.hint("some unrelated words are easy to remember and hard to guess"));
    }
    if text.len() > limits::PASSWORD_BYTES_MAX {
        let error = AppError::field(pointer, format!("must be at most {} bytes", limits::PASSWORD_BYTES_MAX));
        return Err(error.code(FieldCode::TooLong));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    fn secret(text: &str) -> SecretText {
        SecretText(text.to_owned())
    }

    #[tokio::test]
    async fn only_the_password_itself_is_right() {
        let passwords = Passwords::default();
        let hash = passwords.hash(&secret("correct horse battery"), [7; 16]).await.unwrap();
        assert!(hash.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.0);
        assert!(!hash.0.contains("horse") && !format!("{hash:?}").contains("argon2id$"));
        let verdict =
            async |password: &str, hash: Option<PasswordHash>| passwords.verify(&secret(password), hash).await.unwrap();
        assert_eq!(verdict("correct horse battery", Some(hash.clone())).await, Verdict::Right);
        for wrong in ["correct horse batter", "correct horse battery ", ""] {
            assert_eq!(verdict(wrong, Some(hash.clone())).await, Verdict::Wrong, "{wrong}");
        }
        assert_eq!(verdict("correct horse battery", None).await, Verdict::Wrong);
        assert_eq!(verdict("correct horse battery", Some(PasswordHash("x".to_owned()))).await, Verdict::Wrong);
        let other = passwords.hash(&secret("correct horse battery"), [8; 16]).await.unwrap();
        assert_ne!(hash, other, "the salt counts");
    }

    #[test]
    fn checking_a_person_who_is_not_there_costs_as_much() {
        let nobodys = Phc::new(NOBODYS).unwrap();
        let params = Params::try_from(&nobodys).unwrap();
        let ours = argon2().params().clone();
        assert_eq!((params.m_cost(), params.t_cost(), params.p_cost()), (ours.m_cost(), ours.t_cost(), ours.p_cost()));
        assert_eq!(nobodys.hash.unwrap().len(), 32);
    }

    #[tokio::test]
    async fn more_passwords_than_may_wait_are_refused_at_once() {
        let passwords = Passwords::default();
        let _computing = Arc::clone(&passwords.computing).acquire_many_owned(AT_ONCE as u32).await.unwrap();
        let tries = (0..ADMITTED_MAX + 5).map(|_| passwords.compute(|| ()));
        let mut all = join_all(
            tries.map(Box::pin).map(|attempt| tokio::time::timeout(std::time::Duration::from_millis(200), attempt)),
        )
        .await;
        let refused = all.extract_if(.., |answer| answer.is_ok()).map(|answer| answer.unwrap().unwrap_err().kind);
        assert_eq!(refused.collect::<Vec<_>>(), [ErrorKind::TooManyLogins; 5]);
        assert_eq!(all.len(), ADMITTED_MAX, "they wait");
    }

    #[test]
    fn a_password_is_judged_by_its_length_alone() {
        for good in ["twelve chars", "aaaaaaaaaaaa", "ünïcödé pass"] {
            assert!(check("/password", &secret(good)).is_ok(), "{good}");
        }
        for bad in ["", "eleven char", &"x".repeat(1025)] {
            let refused = check("/password", &secret(bad)).unwrap_err();
            assert!(bad.is_empty() || !refused.to_string().contains(bad), "{refused}");
        }
    }
}
