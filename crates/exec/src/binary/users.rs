//! Which user of the machine a program runs as: one of its namespace's own, where the worker may choose.
//!
//! The number of a namespace is never given twice, so a number of a range follows from it without a table: the same on every
//! worker with this range, and no other namespace's.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::OnceLock;

use punctual_core::attempt::Outcome;
use punctual_core::namespace::NamespaceId;
use punctual_sandbox::{ProgramUser, may_run_as};

/// Numbers of users, such as `1900000000-2099999999`. Never root's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRange {
    first: u32,
    last: u32,
}

impl UserRange {
    /// Whether this process may start programs as all of these users.
    pub fn is_usable(self) -> bool {
        may_run_as(self.numbers())
    }

    fn numbers(self) -> RangeInclusive<u32> {
        self.first..=self.last
    }

    fn user_of(self, namespace: NamespaceId) -> Option<u32> {
        self.first.checked_add(namespace.0).filter(|user| self.numbers().contains(user))
    }
}

impl fmt::Display for UserRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for UserRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let range = text.split_once('-').and_then(|(first, last)| Some((number(first)?, number(last)?)));
        match range {
            // The last number means "no change" to the kernel.
            Some((first, last)) if first > 0 && first <= last && last < u32::MAX => Ok(Self { first, last }),
            _ => Err(format!(
                "`{text}` is not a range of users, such as 1900000000-1900009999: the first from 1, the last up to {}",
                u32::MAX - 1
            )),
        }
    }
}

/// How a worker keeps the programs of its namespaces apart.
#[derive(Debug)]
pub enum ProgramUsers {
    /// Each namespace has the user with its number in the range.
    PerNamespace(UserRange),
    /// All run as this one.
    Shared(ProgramUser),
    /// The worker may not choose, so it runs programs of one namespace only: the first whose program it is given.
    OneNamespace(OnceLock<NamespaceId>),
}

impl ProgramUsers {
    /// The user for a program of this namespace. `Err` is why this worker does not run it.
    pub fn of(&self, namespace: NamespaceId) -> Result<ProgramUser, Outcome> {
        let refused = |reason: String| Err(Outcome::NotStarted { reason });
        match self {
            Self::PerNamespace(range) => match range.user_of(namespace) {
                Some(user) => Ok(ProgramUser::Number(user)),
                None => refused(format!(
                    "this worker has no user for programs of {namespace}: its program_users are {range}"
                )),
            },
            Self::Shared(user) => Ok(*user),
            Self::OneNamespace(served) if *served.get_or_init(|| namespace) == namespace => Ok(ProgramUser::Usual),
            Self::OneNamespace(_) => refused(
                "this worker runs programs of one namespace only, because it cannot run those of several as different \
                 users; start it as root, give each namespace a worker of its own, or set allow_shared_user"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> UserRange {
        text.parse().unwrap()
    }

    #[track_caller]
    fn reason(refused: Result<ProgramUser, Outcome>) -> String {
        match refused {
            Err(Outcome::NotStarted { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_namespace_has_a_user_of_its_own_or_none() {
        let users = ProgramUsers::PerNamespace(range("5000-5002"));
        let found = [0, 1, 2].map(|number| users.of(NamespaceId(number)).unwrap());
        assert_eq!(found, [5000, 5001, 5002].map(ProgramUser::Number));
        for beyond in [3, u32::MAX] {
            let reason = reason(users.of(NamespaceId(beyond)));
            assert!(reason.contains("its program_users are 5000-5002"), "{reason}");
        }
    }

    #[test]
    fn a_worker_that_cannot_tell_users_apart_stays_with_its_first_namespace() {
        let users = ProgramUsers::OneNamespace(OnceLock::new());
        let (first, second) = (NamespaceId(2), NamespaceId::DEFAULT);
        for _ in 0..2 {
            assert_eq!(users.of(first), Ok(ProgramUser::Usual));
            let reason = reason(users.of(second));
            assert!(reason.contains("one namespace only") && reason.contains("allow_shared_user"), "{reason}");
        }
        let shared = ProgramUsers::Shared(ProgramUser::Usual);
        assert_eq!([first, second].map(|namespace| shared.of(namespace)), [const { Ok(ProgramUser::Usual) }; 2]);
    }

    #[test]
    fn a_range_is_two_numbers_without_root() {
        assert_eq!(range(" 7 - 9 ").to_string(), "7-9");
        assert_eq!(range("1-4294967294").to_string(), "1-4294967294");
        for wrong in ["", "7", "0-9", "9-7", "a-b", "1-4294967295", "-1-5", "1-99999999999"] {
            let refused = wrong.parse::<UserRange>().unwrap_err();
            assert!(refused.contains("is not a range of users"), "{refused}");
        }
    }
}
