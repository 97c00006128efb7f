//! Quotas of a namespace on the command line: `stored_jobs=100000`. Without a value, the quota is removed.

use std::str::FromStr;

use punctual_api::QuotasEdit;
use punctual_core::Span;
use punctual_core::size::ByteSize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaArg(QuotasEdit);

impl FromStr for QuotaArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as stored_jobs=100000")?;
        let value = Some(value.trim()).filter(|value| !value.is_empty());
        let number = || value.map(|value| value.parse::<u64>()).transpose().map_err(|_| whole(name));
        let size = || {
            let size = value.map(|value| value.parse::<ByteSize>()).transpose();
            size.map(|size| size.map(ByteSize::get)).map_err(|error| error.to_string())
        };
        let mut edit = QuotasEdit::default();
        match name.trim() {
            "stored_jobs" => edit.stored_jobs = Some(number()?),
            "running_attempts" => edit.running_attempts = Some(number()?),
            "submissions_per_second" => edit.submissions_per_second = Some(number()?),
            "schedules" => edit.schedules = Some(number()?),
            "artifact_bytes" => edit.artifact_bytes = Some(size()?),
            "log_bytes" => edit.log_bytes = Some(size()?),
            "retention" => {
                edit.retention = Some(value.map(Span::parse).transpose().map_err(|error| error.to_string())?);
            }
            other => {
                return Err(format!(
                    "there is no quota {other}; there are stored_jobs, running_attempts, submissions_per_second, \
                     schedules, artifact_bytes, log_bytes and retention"
                ));
            }
        }
        Ok(Self(edit))
    }
}

fn whole(name: &str) -> String {
    format!("{name} is a whole number, such as {name}=1000; leave the value out to remove the quota")
}

/// All of them in one edit. Of two for the same quota, the last counts.
pub(crate) fn edit_of(quotas: &[QuotaArg]) -> QuotasEdit {
    quotas.iter().fold(QuotasEdit::default(), |all, QuotaArg(one)| QuotasEdit {
        stored_jobs: one.stored_jobs.or(all.stored_jobs),
        running_attempts: one.running_attempts.or(all.running_attempts),
        submissions_per_second: one.submissions_per_second.or(all.submissions_per_second),
        schedules: one.schedules.or(all.schedules),
        artifact_bytes: one.artifact_bytes.or(all.artifact_bytes),
        log_bytes: one.log_bytes.or(all.log_bytes),
        retention: one.retention.or(all.retention),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<QuotasEdit, String> {
        let read: Result<Vec<QuotaArg>, String> = texts.iter().map(|text| text.parse()).collect();
        read.map(|quotas| edit_of(&quotas))
    }

    #[test]
    fn a_quota_without_a_value_is_removed() {
        let edit = read(&[
            "stored_jobs=5",
            "schedules=",
            "artifact_bytes=2KiB",
            "log_bytes=1MiB",
            "retention=7d",
            "stored_jobs=6",
        ]);
        let expected = QuotasEdit {
            stored_jobs: Some(Some(6)),
            schedules: Some(None),
            artifact_bytes: Some(Some(2048)),
            log_bytes: Some(Some(1 << 20)),
            retention: Some(Some(Span::from_secs(7 * 86_400))),
            ..QuotasEdit::default()
        };
        assert_eq!(edit, Ok(expected));
    }

    #[test]
    fn what_is_no_quota_is_refused_with_what_there_is() {
        for (text, said) in [
            ("stored_jobs", "write NAME=VALUE"),
            ("jobs=5", "there is no quota jobs"),
            ("stored_jobs=many", "whole number"),
            ("stored_jobs=-1", "whole number"),
            ("artifact_bytes=large", "a size looks like"),
            ("log_bytes=large", "a size looks like"),
        ] {
            let error = read(&[text]).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
