//! Everything that is wrong with a request, so that nobody has to send it as often as it has mistakes.

use punctual_api::{AbortRequest, ErrorKind, NoteRequest, RunRequest, SkipRequest};

use crate::error::listed;
use crate::{AppError, Result};

/// Fields that one answer names.
const FIELDS_MAX: usize = 20;

/// Collects what several checks refuse.
#[derive(Debug, Default)]
pub struct Faults(Vec<AppError>);

impl Faults {
    pub fn check(&mut self, result: Result<()>) {
        self.0.extend(result.err());
    }

    /// The value, if it is right.
    pub fn value<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an answer would name no more. Long lists need not be read to their end then.
    pub fn is_full(&self) -> bool {
        self.0.len() >= FIELDS_MAX
    }

    /// Takes what a further check says of other fields than those that are known to be wrong, below which nothing can be
    /// judged, and above which everything may follow from them.
    pub fn and_elsewhere(&mut self, result: Result<()>, wrong: &[String]) {
        let Err(mut error) = result else { return };
        let is_below = |pointer: &str, other: &str| {
            pointer.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        error.errors.retain(|field| {
            wrong.iter().all(|wrong| !is_below(&field.pointer, wrong) && !is_below(wrong, &field.pointer))
        });
        let hint = error.hint;
        for field in error.errors {
            let single = AppError::field(field.pointer, field.detail).code(field.code);
            self.0.push(AppError { hint: field.hint.or_else(|| hint.clone()), ..single });
        }
    }

    pub fn finish(mut self) -> Result<()> {
        if self.0.len() <= 1 {
            return self.0.pop().map_or(Ok(()), Err);
        }
        // What is no fault of a field comes alone.
        if let Some(place) =
            self.0.iter().position(|error| error.kind != ErrorKind::InvalidRequest || error.errors.is_empty())
        {
            return Err(self.0.swap_remove(place));
        }
        let mut fields = Vec::new();
        for AppError { errors, hint, .. } in self.0 {
            for mut field in errors {
                field.hint = field.hint.or_else(|| hint.clone());
                fields.push(field);
            }
        }
        fields.truncate(FIELDS_MAX);
        let detail = listed(&fields);
        let error = AppError { errors: fields, ..AppError::invalid(detail) };
        Err(error.hint("correct all of them and send the request again"))
    }
}

/// What can be said of a request without looking anything up. Used for what else is wrong with a body of which some fields
/// cannot even be read.
pub trait Checked {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Checks a list of requests, which is at this place in the body.
pub(crate) fn each<T: Checked>(requests: &[T], pointer: &str) -> Result<()> {
    let mut faults = Faults::default();
    for (place, request) in requests.iter().enumerate() {
        faults.check(request.check().map_err(|error| error.under(&format!("{pointer}/{place}"))));
        if faults.is_full() {
            break;
        }
    }
    faults.finish()
}

impl Checked for AbortRequest {}
impl Checked for NoteRequest {}
impl Checked for RunRequest {}
impl Checked for SkipRequest {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_faults_are_one_answer_and_one_stays_as_it_is() {
        assert!(Faults::default().finish().is_ok());
        let mut faults = Faults::default();
        faults.check(Err(AppError::field("/a", "is wrong").hint("right it")));
        faults.check(Ok(()));
        let mut more = Faults::default();
        more.check(Err(AppError::field("/a", "is wrong").hint("right it")));
        more.and_elsewhere(Err(AppError::field("/b", "too")), &["/a".to_owned()]);
        more.and_elsewhere(Err(AppError::field("/a/b", "follows")), &["/a".to_owned()]);
        more.and_elsewhere(Err(AppError::field("", "follows")), &["/a".to_owned()]);
        let one = faults.finish().unwrap_err();
        assert_eq!((one.detail.as_str(), one.hint.as_deref()), ("/a: is wrong", Some("right it")));
        let two = more.finish().unwrap_err();
        assert_eq!(two.detail, "2 fields are wrong. /a: is wrong; /b: too");
        assert_eq!(two.errors[0].hint.as_deref(), Some("right it"));
    }

    #[test]
    fn the_fields_of_an_answer_are_bounded_and_other_refusals_come_alone() {
        let mut faults = Faults::default();
        for number in 0..100 {
            faults.check(Err(AppError::field(format!("/{number}"), "is wrong")));
        }
        assert_eq!(faults.finish().unwrap_err().errors.len(), FIELDS_MAX);
        let mut faults = Faults::default();
        faults.check(Err(AppError::field("/a", "is wrong")));
        faults.check(Err(AppError::new(ErrorKind::UnknownArtifact, "there is none")));
        assert_eq!(faults.finish().unwrap_err().kind, ErrorKind::UnknownArtifact);
    }
}
