//! Quotas of a namespace on the wire: how much one tenant may have and use.

use punctual_core::Span;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The quotas of a namespace. One that is left out is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quotas {
    /// Jobs that wait or run. History does not count.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stored_jobs: Option<u64>,
    /// Attempts that run at a time, on all servers and workers together. Jobs beyond it wait.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub running_attempts: Option<u64>,
    /// Jobs that may be submitted in a second, on average.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub submissions_per_second: Option<u64>,
    /// Schedules, paused ones among them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schedules: Option<u64>,
    /// Bytes of artifacts, those whose file has not arrived among them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub artifact_bytes: Option<u64>,
    /// Bytes of logs of all attempts that are kept, archived or not. What is printed beyond it is cut off.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log_bytes: Option<u64>,
    /// How long finished jobs are kept, with their attempts, outputs and logs. The server's setting `retention` counts if it
    /// is shorter.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub retention: Option<Span>,
}

/// Changes of quotas. What is left out stays; `null` removes a quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotasEdit {
    /// Jobs that wait or run. History does not count.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, maximum = 1_000_000_000_000_000_u64)]
    pub stored_jobs: Option<Option<u64>>,
    /// Attempts that run at a time, on all servers and workers together. Jobs beyond it wait.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, maximum = 1_000_000_000_000_000_u64)]
    pub running_attempts: Option<Option<u64>>,
    /// Jobs that may be submitted in a second, on average.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 1_000_000)]
    pub submissions_per_second: Option<Option<u64>>,
    /// Schedules, paused ones among them.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, maximum = 1_000_000_000_000_000_u64)]
    pub schedules: Option<Option<u64>>,
    /// Bytes of artifacts, those whose file has not arrived among them.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, maximum = 1_000_000_000_000_000_u64)]
    pub artifact_bytes: Option<Option<u64>>,
    /// Bytes of logs of all attempts that are kept, archived or not. What is printed beyond it is cut off.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, maximum = 1_000_000_000_000_000_u64)]
    pub log_bytes: Option<Option<u64>>,
    /// How long finished jobs are kept: at least a minute, and no longer than the server's setting `retention`.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub retention: Option<Option<Span>>,
}

/// What a namespace uses at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceUsage {
    /// Jobs that wait or run. Counting ends at 1,000,000, or at the quota if that is more.
    pub stored_jobs: u64,
    /// Attempts that run, as of up to half a second ago. Only if they are limited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub running_attempts: Option<u64>,
    /// Schedules, paused ones among them.
    pub schedules: u64,
    /// Bytes of artifacts, those whose file has not arrived among them.
    pub artifact_bytes: u64,
    /// Bytes of logs of all attempts that are kept, archived or not. Not for the namespace default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log_bytes: Option<u64>,
}

/// Tells a field that is `null` from one that is left out.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl Quotas {
    /// With the changes.
    #[must_use]
    pub fn with(self, edit: QuotasEdit) -> Self {
        let QuotasEdit {
            stored_jobs,
            running_attempts,
            submissions_per_second,
            schedules,
            artifact_bytes,
            log_bytes,
            retention,
        } = edit;
        Self {
            stored_jobs: stored_jobs.unwrap_or(self.stored_jobs),
            running_attempts: running_attempts.unwrap_or(self.running_attempts),
            submissions_per_second: submissions_per_second.unwrap_or(self.submissions_per_second),
            schedules: schedules.unwrap_or(self.schedules),
            artifact_bytes: artifact_bytes.unwrap_or(self.artifact_bytes),
            log_bytes: log_bytes.unwrap_or(self.log_bytes),
            retention: retention.unwrap_or(self.retention),
        }
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl QuotasEdit {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_is_null_is_removed_and_one_that_is_left_out_stays() {
        let quotas = Quotas { stored_jobs: Some(5), schedules: Some(7), ..Quotas::default() };
        let edit: QuotasEdit = serde_json::from_str(r#"{"stored_jobs":null,"artifact_bytes":9}"#).unwrap();
        let expected = Quotas { schedules: Some(7), artifact_bytes: Some(9), ..Quotas::default() };
        assert_eq!(quotas.with(edit), expected);
        let text = serde_json::to_string(&edit).unwrap();
        assert_eq!(text, r#"{"stored_jobs":null,"artifact_bytes":9}"#);
        assert!(serde_json::from_str::<QuotasEdit>(r#"{"jobs":5}"#).is_err(), "there is no such quota");
    }
}
