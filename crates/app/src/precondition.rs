//! What must hold of a definition for a change to be made, so that nobody overwrites what they have not seen.

use punctual_api::ErrorKind;

use crate::{AppError, Result};

/// The condition of a change: `If-Match` and `If-None-Match` in HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precondition {
    /// The change is made whatever there is.
    #[default]
    None,
    /// The definition must not exist: the change creates it.
    Absent,
    /// The definition must exist.
    Exists,
    /// The definition must have this revision.
    Revision(u32),
}

impl Precondition {
    /// Checks the revision of a definition, which is `None` if the definition does not exist. `what` and `name` are for
    /// people.
    pub(crate) fn check(self, what: &str, name: &str, revision: Option<u32>) -> Result<()> {
        match (self, revision) {
            (Self::None, _) | (Self::Absent, None) | (Self::Exists, Some(_)) => Ok(()),
            (Self::Revision(expected), Some(revision)) if expected == revision => Ok(()),
            (Self::Revision(expected), Some(revision)) => {
                let detail =
                    format!("the change expects revision {expected}, but the {what} {name} is at revision {revision}");
                Err(conflict(detail)
                    .hint(format!("read it again, and repeat the change with `If-Match: \"{revision}\"`")))
            }
            (Self::Absent, Some(revision)) => {
                let detail = format!("the {what} {name} exists, at revision {revision}");
                let hint = format!("choose another name, or replace it with `If-Match: \"{revision}\"`");
                Err(conflict(detail).hint(hint))
            }
            (Self::Revision(expected), None) => {
                let detail = format!("the change expects revision {expected}, but the {what} {name} does not exist");
                Err(conflict(detail).hint("leave out the header If-Match to create it"))
            }
            (Self::Exists, None) => {
                let detail = format!("the change expects that the {what} {name} exists, and it does not exist");
                Err(conflict(detail).hint("leave out the header If-Match to create it"))
            }
        }
    }

    /// Checks the revision, and returns the one that the store must still find when it makes the change; 0 stands for
    /// no definition.
    pub(crate) fn expect(self, what: &str, name: &str, revision: Option<u32>) -> Result<Option<u32>> {
        self.check(what, name, revision)?;
        Ok(match self {
            Self::None => None,
            Self::Absent | Self::Exists | Self::Revision(_) => Some(revision.unwrap_or(0)),
        })
    }

    /// The error of a change that the store refused because of this revision.
    pub(crate) fn refusal(self, what: &str, name: &str, revision: Option<u32>) -> AppError {
        self.check(what, name, revision).err().unwrap_or_else(|| {
            let detail = format!("the {what} {name} is being changed by many at once");
            AppError::new(ErrorKind::Unavailable, detail).hint("try again")
        })
    }

    /// The revision that the definition must have, if the condition names one.
    pub(crate) fn revision(self) -> Option<u32> {
        match self {
            Self::Revision(revision) => Some(revision),
            Self::None | Self::Absent | Self::Exists => None,
        }
    }
}

fn conflict(detail: String) -> AppError {
    AppError::new(ErrorKind::RevisionConflict, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_refused_with_the_revision_that_there_is() {
        use Precondition::{Absent, Exists, None as Any, Revision};
        for (condition, revision, holds) in [
            (Any, None, true),
            (Any, Some(3), true),
            (Absent, None, true),
            (Absent, Some(3), false),
            (Exists, None, false),
            (Exists, Some(3), true),
            (Revision(3), None, false),
            (Revision(3), Some(3), true),
            (Revision(2), Some(3), false),
        ] {
            let checked = condition.check("task", "report", revision);
            assert_eq!(checked.is_ok(), holds, "{condition:?} {revision:?}");
            let Err(error) = checked else { continue };
            assert_eq!(error.kind, ErrorKind::RevisionConflict);
            let said = format!("{} {}", error.detail, error.hint.unwrap_or_default());
            assert!(said.contains("report"), "{said}");
            assert_eq!(said.contains("If-Match: \"3\""), revision.is_some(), "{said}");
        }
        assert_eq!(Any.expect("task", "report", Some(3)).unwrap(), None);
        assert_eq!(Exists.expect("task", "report", Some(3)).unwrap(), Some(3));
        assert_eq!(Absent.expect("task", "report", None).unwrap(), Some(0));
    }
}
