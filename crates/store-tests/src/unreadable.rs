//! Rows that cannot be read. They are spoiled by SQL that every database understands.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_core::attempt::{AttemptRecord, Ending};
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::{JobState, NamespaceId, ServerId, TaskId, Timestamp, WorkerId};
use punctual_store::{Ailing, DeliveryRow, Dispatch, JobRecord, RuleRow, Store};
use tracing::Level;
use tracing::subscriber::DefaultGuard;

use crate::fixture::{at, job_id, new_job, original, owner_of, ran, succeed, task_id};
use crate::report_fixture::{ailing, delivery, dispatched, new_rule, notice, numbers, tell, waiting, with_rule};

/// What the log says at the level `ERROR`, on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let written = log.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(Level::ERROR).with_ansi(false);
        let subscriber = subscriber.with_writer(move || written.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn count(&self, part: &str) -> usize {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).lines().filter(|line| line.contains(part)).count()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Of a new store. What cannot be read of the attempt that ended a job is not shown, and the job is.
///
/// # Panics
/// If the store does otherwise.
pub async fn a_job_is_shown_although_its_attempt_cannot_be_read(store: &dyn Store, sql: &dyn Fn(&str)) {
    let job = new_job(1, 10, 0);
    owner_of(store, std::slice::from_ref(&job)).await.done(vec![succeed(original(&job), 1)]).await;
    let shown = || async {
        match store.job(job.id).await.unwrap().expect("the job is there") {
            JobRecord::Finished { job, attempts, .. } if job.state == JobState::Succeeded => attempts,
            other => panic!("{other:?}"),
        }
    };
    let whole = ran(1, Ending::Succeeded);
    assert_eq!(shown().await, std::slice::from_ref(&whole));
    sql("UPDATE history SET worker = NULL, server = NULL");
    assert_eq!(shown().await, [AttemptRecord { worker: WorkerId::UNKNOWN, server: ServerId::UNKNOWN, ..whole }]);
    sql("UPDATE history SET ending = 99");
    assert_eq!(shown().await, []);
}

/// Of a new store. More rows are spoiled at the front than are asked for at a time: the others are read, whoever is told
/// goes on, the log names each spoiled one once, and it is there when it can be read again.
///
/// # Panics
/// If the store does otherwise.
pub async fn rows_about_notifications_are_passed_over(store: &dyn Store, sql: &dyn Fn(&str)) {
    let (log, _guard) = Log::begin();
    let notices: Vec<Notice> = (1..=7).map(|secs| notice(NoticeKind::Failed, secs, 0)).collect();
    owner_of(store, &[]).await.done(notices.iter().map(tell).collect()).await;
    let mut rules: Vec<RuleRow> = Vec::new();
    for name in ["a", "b", "c", "d"] {
        rules.push(with_rule(store, name).await);
    }
    let ill: Vec<Ailing> = (1..=5).map(|n| ailing(n, 1, 10 + n as i64)).collect();
    let tasks: Vec<TaskId> = (1..=5).map(task_id).collect();
    let sent: Vec<DeliveryRow> = (1..=5).map(|n| delivery("a", 10 + n as i64, job_id(n, 10, 0))).collect();
    dispatched(store, Dispatch { ailing: ill.clone(), deliveries: sent.clone(), ..Dispatch::default() }).await;

    let no_time = Timestamp::MAX.as_micros() + 1;
    sql("UPDATE notice SET kind = 0 WHERE seq <= 3");
    sql("UPDATE notification_rule SET changed_at = -1 WHERE name < 'd'");
    sql(&format!("UPDATE ailing SET since = -1 WHERE last > {}", at(12).as_micros()));
    sql(&format!("UPDATE delivery SET at = {no_time} WHERE at > {}", at(12).as_micros()));

    for _ in 0..3 {
        assert_eq!(numbers_of(store, 2).await, [4, 5], "a page is full of what can be read");
        assert_eq!(waiting(store).await, notices[3..]);
        assert_eq!(store.rules(None).await.unwrap(), rules[3..]);
        assert_eq!(store.ailing(None, 2).await.unwrap(), [ill[1].clone(), ill[0].clone()]);
        assert_eq!(store.ailing(None, 9).await.unwrap().len(), 2);
        let mut known = store.ailing_of(tasks.clone()).await.unwrap();
        known.sort_by_key(|ailing| ailing.task);
        assert_eq!(known, ill[..2]);
        for rule in [None, Some("a".to_owned())] {
            let page = store.deliveries(NamespaceId::DEFAULT, rule.clone(), None, 1).await.unwrap();
            assert_eq!(page, [sent[1].clone()], "of {rule:?}");
            let next =
                store.deliveries(NamespaceId::DEFAULT, rule.clone(), Some((sent[1].at, sent[1].job)), 1).await.unwrap();
            assert_eq!(next, [sent[0].clone()], "of {rule:?}");
            assert_eq!(store.deliveries(NamespaceId::DEFAULT, rule, None, 9).await.unwrap().len(), 2);
        }
    }
    for (part, lines) in [
        ("ERROR", 12),
        (r#"table="notice""#, 3),
        (r#"table="notice" key="1" error"#, 1),
        (r#"table="notification_rule" key="b" error"#, 1),
        (r#"table="ailing""#, 3),
        (r#"table="delivery""#, 3),
    ] {
        assert_eq!(log.count(part), lines, "{part}");
    }

    dispatched(store, Dispatch { taken: numbers(store).await, ..Dispatch::default() }).await;
    assert_eq!(waiting(store).await, []);
    sql(&format!("UPDATE notice SET kind = {}", NoticeKind::Failed as u8));
    sql(&format!("UPDATE notification_rule SET changed_at = {}", new_rule("a").changed.at.as_micros()));
    assert_eq!(waiting(store).await, notices[..3]);
    assert_eq!(store.rules(None).await.unwrap(), rules);
}

async fn numbers_of(store: &dyn Store, limit: usize) -> Vec<i64> {
    store.waiting_notices(limit).await.unwrap().into_iter().map(|waiting| waiting.seq).collect()
}
