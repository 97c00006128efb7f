//! Conditions: comparisons, and how they are combined.

use super::node::{Reader, Scope};
use super::{COMPARISONS_MAX, CONDITION_DEPTH_MAX};
use crate::workflow::condition::Condition;
use crate::workflow::spec::ConditionSpec;

impl Reader<'_> {
    pub(super) fn condition(&mut self, at: &str, spec: &ConditionSpec, scope: Scope, depth: usize) -> Condition {
        let nothing = Condition::All(Vec::new());
        if depth > CONDITION_DEPTH_MAX {
            self.faults.add(at, format!("conditions nest at most {CONDITION_DEPTH_MAX} deep"));
            return nothing;
        }
        if let (None, true) = (&spec.path, comparisons(spec) == 0) {
            return self.combination(at, spec, scope, depth).unwrap_or(nothing);
        }
        let combines = spec.all.is_some() || spec.any.is_some() || spec.not.is_some();
        if combines || comparisons(spec) != 1 {
            self.faults.add(at, "must have a `path` and exactly one of `eq`, `ne`, `lt`, `in` and `exists`");
            return nothing;
        }
        let Some(text) = &spec.path else {
            self.faults.add(format!("{at}/path"), "a comparison needs a `path`");
            return nothing;
        };
        let Some(path) = self.path(&format!("{at}/path"), text, scope) else { return nothing };
        match (&spec.eq, &spec.ne, &spec.lt, &spec.one_of, spec.exists) {
            (Some(value), ..) => Condition::Eq(path, value.clone()),
            (_, Some(value), ..) => Condition::Ne(path, value.clone()),
            (_, _, Some(value), ..) => {
                if !value.is_number() && !value.is_string() {
                    self.faults.add(format!("{at}/lt"), "must be a number or a text");
                }
                Condition::Lt(path, value.clone())
            }
            (_, _, _, Some(values), _) => {
                if values.is_empty() || values.len() > COMPARISONS_MAX {
                    self.faults.add(format!("{at}/in"), format!("must be 1 to {COMPARISONS_MAX} values"));
                }
                Condition::In(path, values.clone())
            }
            (_, _, _, _, exists) => Condition::Exists(path, exists.unwrap_or(true)),
        }
    }

    fn combination(&mut self, at: &str, spec: &ConditionSpec, scope: Scope, depth: usize) -> Option<Condition> {
        let mut list = |field: &str, list: &[ConditionSpec]| {
            if list.is_empty() || list.len() > COMPARISONS_MAX {
                self.faults.add(format!("{at}/{field}"), format!("must be 1 to {COMPARISONS_MAX} conditions"));
                return Vec::new();
            }
            let one = |(place, one): (usize, &ConditionSpec)| {
                self.condition(&format!("{at}/{field}/{place}"), one, scope, depth + 1)
            };
            list.iter().enumerate().map(one).collect()
        };
        match (&spec.all, &spec.any, &spec.not) {
            (Some(all), None, None) => Some(Condition::All(list("all", all))),
            (None, Some(any), None) => Some(Condition::Any(list("any", any))),
            (None, None, Some(not)) => {
                Some(Condition::Not(Box::new(self.condition(&format!("{at}/not"), not, scope, depth + 1))))
            }
            _ => {
                self.faults.add(at, "must be a comparison with a `path`, or exactly one of `all`, `any` and `not`");
                None
            }
        }
    }
}

fn comparisons(spec: &ConditionSpec) -> usize {
    let has = [spec.eq.is_some(), spec.ne.is_some(), spec.lt.is_some(), spec.one_of.is_some(), spec.exists.is_some()];
    has.into_iter().filter(|has| *has).count()
}
