//! How often somebody may try a password: by where they are, and by the name that they try.
//!
//! An attempt is counted before the password is checked, so that many at once count as many, and given back if it was right.
//! What is remembered is bounded: of more sources or names than there is room for, those with the fewest failures go first.

use std::sync::{Mutex, PoisonError};

use punctual_core::{Span, Timestamp};
use sha2::{Digest, Sha256};

use crate::rates::{Buckets, Rate, Source};

/// Somebody who has forgotten which of their passwords it is.
const BY_SOURCE: Rate = Rate { burst: 10, every: Span::from_secs(10) };
/// From all sources together: a botnet that guesses one password tries it some 3,000 times a day. Larger than the limit of a
/// source, so that one source alone cannot keep the person out elsewhere.
const BY_NAME: Rate = Rate { burst: 30, every: Span::from_secs(30) };

type NameDigest = [u8; 16];

#[derive(Debug, Default)]
pub(crate) struct LoginLimits(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    sources: Buckets<Source>,
    names: Buckets<NameDigest>,
}

/// An attempt that was admitted and counted.
#[derive(Debug)]
pub(crate) struct Admitted {
    source: Source,
    name: Option<NameDigest>,
}

impl LoginLimits {
    /// Counts an attempt, or says how long to wait.
    pub(crate) fn admit(&self, source: Source, name: &str, now: Timestamp) -> Result<Admitted, Span> {
        let digest = Sha256::digest(name);
        let name: NameDigest = digest[..16].try_into().expect("a digest is longer");
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.sources.take(source, BY_SOURCE, now)?;
        if let Err(wait) = remembered.names.take(name, BY_NAME, now) {
            remembered.sources.give_back(source, BY_SOURCE);
            return Err(wait);
        }
        Ok(Admitted { source, name: Some(name) })
    }

    /// The same for a login that shows no name before it succeeds.
    pub(crate) fn admit_source(&self, source: Source, now: Timestamp) -> Result<Admitted, Span> {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.sources.take(source, BY_SOURCE, now)?;
        Ok(Admitted { source, name: None })
    }

    /// The login of an earlier attempt from there succeeded.
    pub(crate) fn forgive_source(&self, source: Source) {
        self.forgive(&Admitted { source, name: None });
    }

    /// The password was right, or was not looked at: the attempt does not count.
    pub(crate) fn forgive(&self, attempt: &Admitted) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.sources.give_back(attempt.source, BY_SOURCE);
        if let Some(name) = attempt.name {
            remembered.names.give_back(name, BY_NAME);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::access::SocketUser;
    use crate::rates::REMEMBERED_MAX;

    fn at(secs: i64) -> Timestamp {
        Timestamp::EPOCH + Span::from_secs(1_000_000 + secs)
    }

    fn address(last: u8) -> Source {
        Source::new(SocketUser::Unknown, Some(IpAddr::from([192, 0, 2, last])))
    }

    #[test]
    fn a_source_that_floods_is_limited_and_others_are_not() {
        let limits = LoginLimits::default();
        for number in 0..BY_SOURCE.burst {
            assert!(limits.admit(address(1), &format!("name {number}"), at(0)).is_ok());
        }
        let wait = limits.admit(address(1), "one more", at(0)).unwrap_err();
        assert_eq!(wait, BY_SOURCE.every);
        assert!(limits.admit(address(2), "ana", at(0)).is_ok(), "another source");
        assert!(limits.admit(address(1), "ana", at(9)).is_err());
        assert!(limits.admit(address(1), "ana", at(10)).is_ok(), "one more in each interval");
        assert!(limits.admit(address(1), "ana", at(10)).is_err());
    }

    #[test]
    fn one_source_cannot_keep_a_person_out_elsewhere_and_many_are_limited_together() {
        let limits = LoginLimits::default();
        for _ in 0..50 {
            let _ = limits.admit(address(1), "ana", at(0));
        }
        assert!(limits.admit(address(2), "ana", at(0)).is_ok());
        let tried = (3..200).filter(|last| limits.admit(address(*last), "ana", at(0)).is_ok()).count();
        assert!(tried <= BY_NAME.burst as usize, "{tried}");
        assert!(limits.admit(address(1), "bob", at(60)).is_ok());
    }

    #[test]
    fn a_right_password_does_not_count() {
        let limits = LoginLimits::default();
        for _ in 0..100 {
            let attempt = limits.admit(address(1), "ana", at(0)).unwrap();
            limits.forgive(&attempt);
        }
    }

    #[test]
    fn users_of_this_machine_and_networks_of_ipv6_are_sources() {
        let loopback = Some(IpAddr::from([127, 0, 0, 1]));
        let users = [SocketUser::Own, SocketUser::Root, SocketUser::Other(7), SocketUser::Other(8)];
        let sources = users.map(|user| Source::new(user, loopback));
        assert_eq!(sources, [Source::Local, Source::Local, Source::User(7), Source::User(8)]);
        let v6 = |text: &str| Source::new(SocketUser::Unknown, text.parse().ok());
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:1"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
        assert_eq!(v6("::ffff:192.0.2.1"), address(1));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_worst_are_kept() {
        let limits = LoginLimits::default();
        for _ in 0..BY_SOURCE.burst {
            limits.admit(address(1), "ana", at(0)).unwrap();
        }
        for number in 0..REMEMBERED_MAX as u32 + 100 {
            let _ = limits.admit(Source::User(number), &number.to_string(), at(0));
        }
        let remembered = limits.0.lock().unwrap();
        assert!(remembered.sources.len() <= REMEMBERED_MAX && remembered.names.len() <= REMEMBERED_MAX);
        drop(remembered);
        assert!(limits.admit(address(1), "ana", at(0)).is_err());
    }
}
