//! Reads what other servers changed before something unknown is refused.
//!
//! Keys, sessions, people, namespaces and enrolments are held in memory and read once a second, so one that another server made a
//! moment ago is not known yet. Before it is refused, the store is asked once more. All who wait share one reading, and readings
//! are [`PAUSE`] apart, so a stranger with invented secrets cannot keep the database busy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_api::ErrorKind;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::{App, AppError, Principal, Result, Transport};

/// At most ten readings a second, each of which costs one row if nothing has changed.
const PAUSE: Duration = Duration::from_millis(100);
/// A database that takes longer is unavailable to whoever waits.
const LIMIT: Duration = Duration::from_secs(2);

/// The turns of those who wait for a reading that begins after they came.
#[derive(Debug, Default)]
pub(crate) struct Recheck {
    begun: AtomicU64,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    number: u64,
    ended: Option<Instant>,
    is_done: bool,
}

impl Recheck {
    /// Whether a reading succeeded that began after this call.
    async fn wait(&self, read: impl Future<Output = Result<()>>) -> bool {
        let needed = self.begun.load(Ordering::SeqCst) + 1;
        let mut last = self.last.lock().await;
        if last.number < needed {
            if let Some(ended) = last.ended {
                tokio::time::sleep_until(ended + PAUSE).await;
            }
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            let is_done = timeout(LIMIT, read).await.is_ok_and(|result| result.is_ok());
            *last = Last { number, ended: Some(Instant::now()), is_done };
        }
        last.is_done
    }
}

impl App {
    /// As [`App::authenticate`], and asks the store before it refuses a credential or a namespace that another server may have
    /// made a moment ago.
    pub async fn authenticate_freshly(
        &self,
        transport: &Transport,
        bearer: Option<&str>,
        namespace: Option<&str>,
    ) -> Result<Principal> {
        let refusal = match self.authenticate(transport, bearer, namespace) {
            Ok(principal) => return Ok(principal),
            Err(refusal) => refusal,
        };
        let is_read = match refusal.kind {
            ErrorKind::WorkerNotEnrolled => self.recheck_enrolments().await,
            ErrorKind::NamespaceNotFound => self.recheck_identities().await,
            // A text that is no whole credential is refused without a question.
            ErrorKind::InvalidToken | ErrorKind::CredentialRevoked if self.is_whole_credential(bearer) => {
                self.recheck_identities().await
            }
            _ => return Err(refusal),
        };
        if !is_read {
            return Err(AppError::new(
                ErrorKind::DatabaseUnavailable,
                "the database cannot be asked whether the credential is valid",
            )
            .hint("try again in a few seconds"));
        }
        self.authenticate(transport, bearer, namespace)
    }

    /// Whether keys, sessions, people and namespaces are as the store had them after this call began.
    pub(crate) async fn recheck_identities(&self) -> bool {
        let read = async {
            self.refresh_namespaces().await?;
            self.refresh_identities().await
        };
        let is_read = self.0.identities_recheck.wait(read).await;
        if !is_read {
            // The reading may have been given up before it could say that the store failed.
            self.0.identities.distrust();
        }
        is_read
    }

    async fn recheck_enrolments(&self) -> bool {
        self.0.enrolments_recheck.wait(self.refresh_enrolments()).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn all_who_wait_while_one_reads_share_the_next_reading() {
        const WAITERS: u64 = 1000;
        let recheck = Arc::new(Recheck::default());
        let (came, readings) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let may_read = Arc::new(Semaphore::new(0));
        let waiting = (0..WAITERS).map(|_| {
            let (recheck, came, readings) = (Arc::clone(&recheck), Arc::clone(&came), Arc::clone(&readings));
            let may_read = Arc::clone(&may_read);
            tokio::spawn(async move {
                came.fetch_add(1, Ordering::SeqCst);
                let read = async {
                    let _permit = may_read.acquire().await.unwrap();
                    readings.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                };
                recheck.wait(read).await
            })
        });
        let waiting: Vec<_> = waiting.collect();
        while came.load(Ordering::SeqCst) < WAITERS {
            tokio::task::yield_now().await;
        }
        may_read.add_permits(1);
        for waiter in waiting {
            assert!(waiter.await.unwrap());
        }
        assert!(readings.load(Ordering::SeqCst) <= 2, "{readings:?}");
    }

    #[tokio::test]
    async fn strangers_who_ask_without_pause_cause_few_readings() {
        let recheck = Recheck::default();
        let begun = Instant::now();
        let mut readings = 0;
        for _ in 0..4 {
            let read = async {
                readings += 1;
                Ok(())
            };
            assert!(recheck.wait(read).await);
        }
        assert_eq!(readings, 4, "each of them is asked for after the one before");
        assert!(begun.elapsed() >= PAUSE * 3);
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_is_not_waited_for() {
        assert!(!Recheck::default().wait(std::future::pending()).await);
    }
}
