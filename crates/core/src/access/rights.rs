//! A set of rights.

use std::fmt;

use super::{Right, Role};

/// A set of rights. One word, so that asking it costs nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rights(u64);

const _: () = assert!(Right::ALL.len() <= 64, "the set is one word");

/// A name that is none of a right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no right `{0}`")]
pub struct UnknownRight(pub String);

impl Rights {
    pub const NONE: Self = Self(0);

    pub const fn all() -> Self {
        Self::of(Right::ALL)
    }

    pub const fn of(rights: &[Right]) -> Self {
        let (mut set, mut index) = (0, 0);
        while index < rights.len() {
            set |= bit(rights[index]);
            index += 1;
        }
        Self(set)
    }

    pub const fn of_role(role: Role) -> Self {
        role.rights()
    }

    pub const fn contains(self, right: Right) -> bool {
        self.0 & bit(right) != 0
    }

    /// Whether every right of `other` is in this set: nobody may hand on more than they have.
    pub const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.iter().copied().filter(move |right| self.contains(*right))
    }

    /// In the order of [`Right::ALL`]. Rights are stored by name: their numbers change when one is added.
    pub fn names(self) -> Vec<&'static str> {
        self.iter().map(Right::name).collect()
    }

    pub fn from_names<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Result<Self, UnknownRight> {
        let mut set = Self::NONE;
        for name in names {
            let right = Right::from_name(name.as_ref()).ok_or_else(|| UnknownRight(name.as_ref().to_owned()))?;
            set.0 |= bit(right);
        }
        Ok(set)
    }
}

const fn bit(right: Right) -> u64 {
    1 << right as u8
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().fold(0, |set, right| set | bit(right)))
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_survive_being_stored_by_name() {
        for role in Role::ALL {
            let rights = Rights::of_role(role);
            assert_eq!(Rights::from_names(rights.names()), Ok(rights), "{role}");
        }
        assert_eq!(Rights::from_names(["jobs.view", "jobs.fly"]), Err(UnknownRight("jobs.fly".to_owned())));
    }

    #[test]
    fn a_set_covers_what_it_holds_and_nothing_else() {
        let (some, other) = (Rights::of(&[Right::ViewJobs, Right::ViewLogs]), Rights::of(&[Right::ViewJobs]));
        assert!(some.covers(other) && !other.covers(some) && other.covers(Rights::NONE));
        assert_eq!(some.intersection(other), other);
        assert_eq!(some.without(other), Rights::of(&[Right::ViewLogs]));
        assert_eq!(other.union(some), some);
        assert!(Rights::all().covers(some) && Rights::default().is_empty());
    }
}
