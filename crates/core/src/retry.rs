//! How often and how soon a job is tried again.
//!
//! `promises/src/retries.rs` works the waits out a second time, to check them, and docs/delivery.md describes them. How soon a
//! worker connects again is in `worker/src/backoff.rs`.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::attempt::FailureClass;
use crate::task_defaults::TaskDefaults;
use crate::time::Span;

/// How often and when a job is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Attempts after the first.
    #[serde(deserialize_with = "read_max")]
    pub max: u16,
    /// The wait before the first retry.
    #[cfg_attr(feature = "schema", schema(value_type = String, format = "x-duration", example = "PT1S"))]
    pub initial: Span,
    /// Each wait is this many times the one before.
    pub factor: f64,
    /// No wait is longer.
    #[cfg_attr(feature = "schema", schema(value_type = String, format = "x-duration", example = "PT10M"))]
    pub cap: Span,
    /// The part of the wait, 0 to 1, that is left to chance, so that jobs which
    /// failed together do not come back together.
    pub jitter: f64,
    /// A failure of these classes is not tried again. Only for failures: must be empty for what
    /// follows the loss of a worker.
    #[serde(skip_serializing_if = "FailureClasses::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<FailureClass>))]
    pub except: FailureClasses,
}

/// Reads [`RetryPolicy::max`]. The refusal of a number that does not fit names the limit, and not that of the type.
fn read_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    struct Read;
    impl Visitor<'_> for Read {
        type Value = u16;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number from 0 to {}", RetryPolicy::MAX_MAX)
        }
        fn visit_u64<E: Error>(self, number: u64) -> Result<u16, E> {
            u16::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<u16, E> {
            u16::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
        }
    }
    deserializer.deserialize_u16(Read)
}

fn read_given_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    struct Max(u16);
    impl<'de> Deserialize<'de> for Max {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            read_max(deserializer).map(Self)
        }
    }
    Ok(Option::<Max>::deserialize(deserializer)?.map(|max| max.0))
}

/// A set of [`FailureClass`], written as a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<FailureClass>", into = "Vec<FailureClass>")]
pub struct FailureClasses(u8);

impl FailureClasses {
    pub const NONE: Self = Self(0);

    pub fn contains(self, class: FailureClass) -> bool {
        self.0 & (1 << class as u8) != 0
    }

    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl From<Vec<FailureClass>> for FailureClasses {
    fn from(classes: Vec<FailureClass>) -> Self {
        Self(classes.into_iter().fold(0, |set, class| set | 1 << class as u8))
    }
}

impl From<FailureClasses> for Vec<FailureClass> {
    fn from(classes: FailureClasses) -> Self {
        FailureClass::ALL.into_iter().filter(|class| classes.contains(*class)).collect()
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max: TaskDefaults::get().retries,
            initial: Span::from_secs(1),
            factor: 2.0,
            cap: Span::from_secs(10 * 60),
            jitter: 0.2,
            except: FailureClasses::default(),
        }
    }
}

impl RetryPolicy {
    pub const MAX_MAX: u16 = 1000;
    pub const FACTOR_MAX: f64 = 100.0;

    /// A job that was given back: what it needs may come back, such as object storage after an outage. With these waits it is
    /// tried for some 45 minutes.
    pub fn after_give_back() -> Self {
        Self {
            max: 20,
            initial: Span::from_millis(100),
            factor: 2.0,
            cap: Span::from_secs(5 * 60),
            jitter: 0.1,
            except: FailureClasses::NONE,
        }
    }

    /// Whether it is [`RetryPolicy::after_give_back`].
    pub(crate) fn is_after_give_back(&self) -> bool {
        *self == Self::after_give_back()
    }

    /// A lost worker says nothing about the job: try again at once, elsewhere.
    pub fn after_node_failure() -> Self {
        Self { initial: Span::ZERO, ..Self::default() }
    }

    /// The wait before retry number `retry` (from 1), or `None` when no retry is left.
    /// `chance` is a fraction from 0 to 1 that comes from outside.
    pub fn wait(&self, retry: u16, chance: f64) -> Option<Span> {
        if retry == 0 || retry > self.max {
            return None;
        }
        let exponent = i32::from(retry - 1);
        let full = self.initial.as_micros() as f64 * self.factor.powi(exponent);
        let capped = full.min(self.cap.as_micros() as f64);
        let wait = capped * (1.0 - self.jitter * chance.clamp(0.0, 1.0));
        Some(Span::from_micros(wait as i64))
    }

    pub fn check(&self) -> Result<(), &'static str> {
        if self.max > Self::MAX_MAX {
            return Err("max must be at most 1000");
        }
        if !(1.0..=Self::FACTOR_MAX).contains(&self.factor) {
            return Err("factor must be between 1 and 100");
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err("jitter must be between 0 and 1");
        }
        Ok(())
    }
}

/// Reads a policy whose fields that are left out are those of [`RetryPolicy::after_give_back`].
pub(crate) fn read_after_give_back<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RetryPolicy, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct PolicyFields {
        #[serde(default, deserialize_with = "read_given_max")]
        max: Option<u16>,
        initial: Option<Span>,
        factor: Option<f64>,
        cap: Option<Span>,
        jitter: Option<f64>,
        #[serde(default)]
        except: FailureClasses,
    }
    let PolicyFields { max, initial, factor, cap, jitter, except } = PolicyFields::deserialize(deserializer)?;
    let usual = RetryPolicy::after_give_back();
    Ok(RetryPolicy {
        max: max.unwrap_or(usual.max),
        initial: initial.unwrap_or(usual.initial),
        factor: factor.unwrap_or(usual.factor),
        cap: cap.unwrap_or(usual.cap),
        jitter: jitter.unwrap_or(usual.jitter),
        except,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_retries_that_does_not_fit_is_told_the_limit() {
        let spec = |field: &str, max: &str| format!(r#"{{"run":{{"probe":{{}}}},"{field}":{{"max":{max}}}}}"#);
        for field in ["retry", "node_retry", "start_retry"] {
            assert!(serde_json::from_str::<crate::task::TaskSpec>(&spec(field, "1000")).is_ok(), "{field}");
            for max in ["-1", "70000", "1.5", "\"3\""] {
                let refused = serde_json::from_str::<crate::task::TaskSpec>(&spec(field, max)).unwrap_err().to_string();
                assert!(refused.contains("a whole number from 0 to 1000"), "{field} {max}: {refused}");
            }
        }
    }

    #[test]
    fn waits_grow_up_to_the_cap_and_then_end() {
        let policy = RetryPolicy { max: 4, cap: Span::from_secs(3), jitter: 0.0, ..RetryPolicy::default() };
        let waits: Vec<_> = (0..6).map(|retry| policy.wait(retry, 0.5)).collect();
        let secs = |n| Some(Span::from_secs(n));
        assert_eq!(waits, [None, secs(1), secs(2), secs(3), secs(3), None]);
    }

    #[test]
    fn jitter_only_shortens_and_never_by_more_than_its_share() {
        let policy = RetryPolicy { jitter: 0.2, ..RetryPolicy::default() };
        assert_eq!(policy.wait(1, 0.0), Some(Span::from_secs(1)));
        assert_eq!(policy.wait(1, 1.0), Some(Span::from_millis(800)));
        assert_eq!(policy.wait(1, 7.0), Some(Span::from_millis(800)));
    }

    #[test]
    fn classes_are_written_as_a_list() {
        let policy: RetryPolicy = serde_json::from_str(r#"{"except":["limit","task","limit"]}"#).unwrap();
        assert!(policy.except.contains(FailureClass::Limit) && !policy.except.contains(FailureClass::Network));
        assert!(serde_json::to_string(&policy).unwrap().ends_with(r#""except":["task","limit"]}"#));
        assert!(!serde_json::to_string(&RetryPolicy::default()).unwrap().contains("except"));
    }

    #[test]
    fn a_job_that_is_given_back_outlives_an_outage_of_three_quarters_of_an_hour() {
        let policy = RetryPolicy::after_give_back();
        let waits = |chance: f64| (1..=policy.max).filter_map(move |retry| policy.wait(retry, chance));
        let total = |chance| Span::from_micros(waits(chance).map(Span::as_micros).sum());
        assert_eq!(waits(0.0).next(), Some(Span::from_millis(100)));
        assert!(total(0.5) > Span::from_secs(44 * 60) && total(0.0) < Span::from_secs(50 * 60), "{}", total(0.5));
        assert_eq!(policy.wait(policy.max + 1, 0.0), None);
    }

    #[test]
    fn a_huge_exponent_stays_at_the_cap() {
        let policy = RetryPolicy { max: 1000, factor: 100.0, jitter: 0.0, ..RetryPolicy::default() };
        assert_eq!(policy.wait(1000, 0.0), Some(policy.cap));
    }
}
