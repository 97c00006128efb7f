//! Quotas: how much one namespace may have and use.
//!
//! What is limited is worked out from rows, by whoever asks and when it is asked for; see `stored` for how exact that is while
//! several servers accept jobs. A lower quota than what is there refuses only what is new. While no namespace has a quota,
//! requests read one atomic.

mod logs;
mod rate;
mod stored;
mod table;

use std::sync::Arc;

use punctual_api::{ErrorKind, NamespaceUsage, QuotasEdit};
use punctual_core::namespace::NamespaceId;
use punctual_core::{Span, Timestamp};
use punctual_store::Counted;
use tokio::sync::OwnedMutexGuard;

pub(crate) use logs::LogExtents;
pub(crate) use stored::Admitted;
pub(crate) use table::{Limited, QuotaTable};

use crate::{App, AppError, Faults, Result};

/// As many of anything as a quota may allow: figures stay exact in every JSON library.
const QUOTA_MAX: u64 = 1_000_000_000_000_000;
/// More cannot be told apart in microseconds.
const RATE_MAX: u64 = 1_000_000;
/// A shorter one would remove logs that are on their way to the archive.
const RETENTION_MIN: Span = Span::from_secs(60);
/// Jobs are counted so far for people, or up to the quota.
const COUNTED_MAX: u64 = 1_000_000;

/// How many attempts of a namespace run, and may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningQuota {
    pub(crate) namespace: String,
    pub(crate) running: u64,
    pub(crate) quota: u64,
}

impl RunningQuota {
    pub(crate) fn is_reached(&self) -> bool {
        self.running >= self.quota
    }

    /// Why a due job waits although a worker has a free slot for it.
    pub(crate) fn explain(&self) -> String {
        let (name, running, quota) = (&self.namespace, grouped(self.running), grouped(self.quota));
        let used = format!("namespace {name} runs {running} of {quota} attempts (quota running_attempts)");
        match self.is_reached() {
            true => used,
            false => format!("{used}, and its share of this quota is being assigned to the server that owns the job"),
        }
    }
}

/// Whose turn it is to add something of which a namespace may have only so much.
pub(crate) struct Turn(#[expect(dead_code, reason = "it is held until it is dropped")] Option<OwnedMutexGuard<()>>);

impl App {
    /// The quotas of a namespace, if it has any.
    pub(crate) async fn limited(&self, namespace: NamespaceId) -> Result<Option<Arc<Limited>>> {
        let table = &self.0.quotas;
        if !table.is_known() {
            // Right after a start.
            self.refresh_namespaces().await?;
        }
        Ok(table.of(namespace))
    }

    /// Refuses jobs that somebody asks for if the namespace submits too many a second, or stores too many. To be kept
    /// until they are stored.
    pub(crate) async fn admit_jobs(&self, namespace: NamespaceId, count: usize) -> Result<Admitted> {
        let Some(limited) = self.limited(namespace).await? else { return Ok(Admitted::unlimited(count)) };
        if let Some(rate) = limited.quotas.submissions_per_second {
            limited.tally.rate.pay(&*self.0.store, namespace, count as u64, rate, self.now()).await?.map_err(
                |wait| {
                    let shown = format!("namespace {} submits {} jobs a second", limited.name, grouped(rate));
                    let detail = format!("{shown}, as many as it may (quota submissions_per_second)");
                    AppError::new(ErrorKind::RateQuotaExceeded, detail)
                        .hint(format!(
                            "wait {} (Retry-After), or ask an administrator for a larger quota",
                            AppError::wait_shown(wait)
                        ))
                        .retry_after(wait)
                },
            )?;
        }
        let Some(quota) = limited.quotas.stored_jobs else { return Ok(Admitted::unlimited(count)) };
        let room = limited.tally.jobs.admit(&*self.0.store, namespace, count as u64, quota).await?;
        room.map_err(|used| {
            let shown = format!("stores {} of {} jobs", grouped(used), grouped(quota));
            exceeded(&limited, &shown, "stored_jobs", if count == 1 { 0 } else { count as u64 })
                .hint("wait until jobs have finished, delete some, or ask an administrator for a larger quota")
        })
    }

    /// Admits as many jobs as there is room for: of those that the system makes by itself, and that can wait.
    pub(crate) async fn admit_some(&self, namespace: NamespaceId, wanted: usize) -> Result<Admitted> {
        let Some(limited) = self.limited(namespace).await? else { return Ok(Admitted::unlimited(wanted)) };
        let Some(quota) = limited.quotas.stored_jobs else { return Ok(Admitted::unlimited(wanted)) };
        Ok(limited.tally.jobs.admit_some(&*self.0.store, namespace, wanted as u64, quota).await?)
    }

    /// What [`App::admit_some`] waits for.
    pub(crate) async fn waits_for_room(&self, namespace: NamespaceId) -> Result<String> {
        let limited = self.limited(namespace).await?;
        let Some((limited, quota)) = limited.and_then(|one| Some((one.clone(), one.quotas.stored_jobs?))) else {
            return Ok(String::new());
        };
        Ok(format!("namespace {} stores {1} of {1} jobs (quota stored_jobs)", limited.name, grouped(quota)))
    }

    /// Refuses new schedules if the namespace has too many. On this server, nobody else adds any until the turn is dropped.
    pub(crate) async fn admit_schedules(&self, namespace: NamespaceId, count: usize) -> Result<Turn> {
        let limited = self.limited(namespace).await?.filter(|_| count > 0);
        let Some((limited, quota)) = limited.and_then(|one| Some((one.clone(), one.quotas.schedules?))) else {
            return Ok(Turn(None));
        };
        let turn = limited.tally.schedules.clone().lock_owned().await;
        let used = self.0.store.used(namespace, Counted::Schedules, u64::MAX).await?;
        if used.saturating_add(count as u64) <= quota {
            return Ok(Turn(Some(turn)));
        }
        let shown = format!("has {} of {} schedules", grouped(used), grouped(quota));
        Err(exceeded(&limited, &shown, "schedules", if count == 1 { 0 } else { count as u64 })
            .hint("delete those that nobody needs, or ask an administrator for a larger quota"))
    }

    /// The bytes that the artifacts of a namespace may have, if that is limited.
    pub(crate) async fn artifact_bytes_max(&self, namespace: NamespaceId) -> Result<Option<u64>> {
        Ok(self.limited(namespace).await?.and_then(|limited| limited.quotas.artifact_bytes))
    }

    /// An artifact of `size` bytes, which has no room.
    pub(crate) async fn no_room_for_artifact(&self, namespace: NamespaceId, bytes: u64, size: u64) -> Result<AppError> {
        let limited = self.limited(namespace).await?;
        let Some((limited, quota)) = limited.and_then(|one| Some((one.clone(), one.quotas.artifact_bytes?))) else {
            return Ok(AppError::new(ErrorKind::Unavailable, "the quotas were changed meanwhile").hint("try again"));
        };
        let shown = format!("has {} of {} bytes of artifacts", grouped(bytes), grouped(quota));
        Ok(exceeded(&limited, &shown, "artifact_bytes", size)
            .hint("delete artifacts that no task needs, or ask an administrator for a larger quota"))
    }

    /// What a namespace uses, for people.
    pub(crate) async fn usage_of(&self, namespace: NamespaceId) -> Result<NamespaceUsage> {
        let quotas = self.limited(namespace).await?.map(|limited| limited.quotas).unwrap_or_default();
        let quota = quotas.stored_jobs;
        let store = &self.0.store;
        let running_attempts = match quotas.running_attempts {
            Some(_) => Some(store.running_attempts(namespace).await?),
            None => None,
        };
        let log_bytes = match namespace.is_default() {
            true => None,
            false => Some(store.used(namespace, Counted::LogBytes, u64::MAX).await?),
        };
        Ok(NamespaceUsage {
            log_bytes,
            running_attempts,
            stored_jobs: store.used(namespace, Counted::Jobs, quota.unwrap_or(0).max(COUNTED_MAX)).await?,
            schedules: store.used(namespace, Counted::Schedules, u64::MAX).await?,
            artifact_bytes: store.used(namespace, Counted::ArtifactBytes, u64::MAX).await?,
        })
    }

    /// The namespaces whose running attempts are limited, in order.
    pub async fn running_quotas(&self) -> Result<Vec<(NamespaceId, u64)>> {
        if !self.0.quotas.is_known() {
            self.refresh_namespaces().await?;
        }
        let all = self.0.quotas.all().into_iter();
        let mut quotas: Vec<_> = all.filter_map(|(id, one)| Some((id, one.quotas.running_attempts?))).collect();
        quotas.sort_unstable();
        Ok(quotas)
    }

    /// How many attempts of the namespace run, if that is limited.
    pub(crate) async fn running_quota(&self, namespace: NamespaceId) -> Result<Option<RunningQuota>> {
        let limited = self.limited(namespace).await?;
        let Some((limited, quota)) = limited.and_then(|one| Some((one.clone(), one.quotas.running_attempts?))) else {
            return Ok(None);
        };
        let running = self.0.store.running_attempts(namespace).await?;
        Ok(Some(RunningQuota { namespace: limited.name.clone(), running, quota }))
    }

    /// Of each namespace whose history goes before that of the others: the time before which its finished jobs go.
    pub fn retention_of_namespaces(&self, now: Timestamp) -> Vec<(NamespaceId, Timestamp)> {
        let own = |limited: &Limited| limited.quotas.retention.filter(|own| *own < self.0.settings.retention);
        self.0.quotas.all().into_iter().filter_map(|(id, limited)| Some((id, now - own(&limited)?))).collect()
    }

    /// Whether the quotas can be those of a namespace.
    pub(crate) fn check_quotas(&self, edit: &QuotasEdit, is_default: bool) -> Result<()> {
        let mut faults = Faults::default();
        let at_most = |name: &str, quota: Option<Option<u64>>, least: u64, most: u64| match quota.flatten() {
            Some(figure) if figure < least || figure > most => {
                let detail = format!("must be {} to {}", grouped(least), grouped(most));
                Err(AppError::out_of_range(format!("/quotas/{name}"), detail).hint("leave it out for no limit"))
            }
            Some(_) | None => Ok(()),
        };
        let QuotasEdit {
            stored_jobs,
            running_attempts,
            submissions_per_second,
            schedules,
            artifact_bytes,
            log_bytes,
            retention,
        } = *edit;
        faults.check(at_most("stored_jobs", stored_jobs, 0, QUOTA_MAX));
        faults.check(at_most("running_attempts", running_attempts, 0, QUOTA_MAX));
        faults.check(at_most("submissions_per_second", submissions_per_second, 1, RATE_MAX));
        faults.check(at_most("schedules", schedules, 0, QUOTA_MAX));
        faults.check(at_most("artifact_bytes", artifact_bytes, 0, QUOTA_MAX));
        faults.check(at_most("log_bytes", log_bytes, 0, QUOTA_MAX));
        if is_default && log_bytes.flatten().is_some() {
            let error = AppError::field("/quotas/log_bytes", "cannot be given for the namespace default");
            faults.check(Err(error.hint("its logs are bounded by the server's settings `log_limit` and `retention`")));
        }
        if let Some(retention) = retention.flatten() {
            let most = self.0.settings.retention;
            let wrong = |detail: String| Err(AppError::out_of_range("/quotas/retention", detail));
            faults.check(if is_default {
                let error = AppError::field("/quotas/retention", "cannot be given for the namespace default");
                Err(error.hint("its history is kept as long as the server's setting `retention` says"))
            } else if retention < RETENTION_MIN {
                wrong(format!("must be at least {RETENTION_MIN}"))
            } else if retention > most {
                wrong(format!("must be at most {most}, the server's setting `retention`"))
            } else {
                Ok(())
            });
        }
        faults.finish()
    }
}

/// `more`: what a request has that asks for several at once.
fn exceeded(limited: &Limited, shown: &str, quota: &str, more: u64) -> AppError {
    let mut detail = format!("namespace {} {shown} (quota {quota})", limited.name);
    if more > 0 {
        detail += &format!("; this request has {} more", grouped(more));
    }
    AppError::new(ErrorKind::QuotaExceeded, detail)
}

/// With a comma between each three digits.
fn grouped(figure: u64) -> String {
    let digits = figure.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_in_groups_of_three_digits() {
        for (figure, shown) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (10_000, "10,000"), (123_456_789, "123,456,789")]
        {
            assert_eq!(grouped(figure), shown);
        }
    }
}
