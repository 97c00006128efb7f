use futures_util::future::join_all;
use punctual_core::notice::NoticeKind;
use punctual_core::{JobId, NamespaceId};
use punctual_store::{DeliveryRow, Dispatch, Dispatched, FoundRow, JobRecord, NewJob, RuleRow, Store};

use crate::fixture::*;
use crate::report_fixture::*;

const DAY: i64 = 86_400;

/// A message of the rule `ops`, which has this version, about all that waits; delivered by job 1.
async fn message(store: &dyn Store, version: u64) -> Dispatch {
    let job = NewJob { input: Some(text("hello")), tracing_id: Some("ops".to_owned()), ..new_job(1, 200, 1) };
    Dispatch {
        taken: numbers(store).await,
        rules: vec![update("ops", version, r#"{"waits":0}"#)],
        ailing: vec![ailing(2, 90, 100)],
        well: Vec::new(),
        deliveries: vec![delivery("ops", 200, job.id)],
        jobs: vec![job],
    }
}

/// Two notices wait, and there are the rules `ops` and `devs`.
async fn reported(store: &dyn Store) -> Owner<'_> {
    let mut owner = owner_of(store, &[]).await;
    owner.done(vec![tell(&notice(NoticeKind::Failed, 1, 0)), tell(&notice(NoticeKind::Lost, 2, 1))]).await;
    for name in ["ops", "devs"] {
        with_rule(store, name).await;
    }
    owner
}

pub(super) async fn a_dispatch_takes_notices_and_makes_jobs(store: &dyn Store) {
    let mut owner = reported(store).await;
    let dispatch = message(store, 0).await;
    let job = dispatch.jobs[0].clone();
    dispatched(store, dispatch.clone()).await;
    assert_eq!(waiting(store).await, []);
    let rule = store.rule(NamespaceId::DEFAULT, "ops").await.unwrap().unwrap();
    assert_eq!(rule, RuleRow { state: Some(r#"{"waits":0}"#.to_owned()), version: 1, ..new_rule("ops") });
    assert_eq!(
        store.rule(NamespaceId::DEFAULT, "devs").await.unwrap(),
        Some(new_rule("devs")),
        "the other one is as it was"
    );
    assert_eq!(store.ailing(None, 10).await.unwrap(), dispatch.ailing);
    assert_eq!(store.deliveries(NamespaceId::DEFAULT, None, None, 10).await.unwrap(), dispatch.deliveries);
    // The job is like any that was submitted.
    let Some(JobRecord::Hot { job: shown, input, .. }) = store.job(job.id).await.unwrap() else { panic!("it waits") };
    assert_eq!((shown.key, shown.task, shown.tracing_id), (original(&job), job.task, job.tracing_id.clone()));
    assert_eq!((shown.submitted_at, input), (job.submitted_at, Some(text("hello"))));
    let loaded = store.load(load_all(1)).await.unwrap().rows;
    assert_eq!(loaded.iter().map(|row| row.key).collect::<Vec<_>>(), [original(&job)]);
    owner.done(vec![start(original(&job), 1)]).await;
    owner.done(vec![succeed(original(&job), 1)]).await;
    assert!(matches!(store.find(job.id).await.unwrap(), FoundRow::Finished { .. }));
}

pub(super) async fn the_state_of_a_rule_has_a_version(store: &dyn Store) {
    reported(store).await;
    let only = |rules| Dispatch { rules, ..Dispatch::default() };
    dispatched(store, only(vec![update("ops", 0, "one"), update("devs", 0, "other")])).await;
    dispatched(store, only(vec![update("ops", 1, "two")])).await;
    let emptied = punctual_store::RuleUpdate { state: None, ..update("devs", 1, "") };
    dispatched(store, only(vec![emptied])).await;
    let state = async |name| {
        let rule = store.rule(NamespaceId::DEFAULT, name).await.unwrap().unwrap();
        (rule.version, rule.state)
    };
    assert_eq!(state("ops").await, (2, Some("two".to_owned())));
    assert_eq!(state("devs").await, (2, None));
    for version in [0, 1, 3, u64::MAX >> 1] {
        let old = only(vec![update("devs", 2, "new"), update("ops", version, "old")]);
        assert_eq!(store.dispatch(old).await.unwrap(), Dispatched::Conflict, "{version}");
    }
    assert_eq!(state("ops").await, (2, Some("two".to_owned())));
    assert_eq!(state("devs").await, (2, None), "one conflict is a conflict of all");
    dispatched(store, Dispatch::default()).await;
}

/// All that a dispatch could change.
async fn seen(store: &dyn Store, jobs: &[JobId]) -> String {
    let mut hot = Vec::new();
    for id in jobs {
        hot.push(store.find(*id).await.unwrap());
    }
    let waiting = store.waiting_notices(100).await.unwrap();
    let (rules, ailing) = (store.rules(None).await.unwrap(), store.ailing(None, 100).await.unwrap());
    format!(
        "{waiting:?} {rules:?} {ailing:?} {:?} {hot:?}",
        store.deliveries(NamespaceId::DEFAULT, None, None, 100).await.unwrap()
    )
}

pub(super) async fn a_dispatch_is_all_or_nothing(store: &dyn Store) {
    let mut owner = reported(store).await;
    let first = Dispatch { taken: numbers(store).await[..1].to_vec(), ..message(store, 0).await };
    dispatched(store, first.clone()).await;
    // The next one changes something of each kind, if it fits.
    owner.done(vec![tell(&notice(NoticeKind::Late, 3, 2))]).await;
    let jobs = [new_job(2, 300, 1), new_job(3, 300, 2)];
    let good = Dispatch {
        taken: numbers(store).await,
        rules: vec![update("devs", 0, "new"), update("ops", 1, "new")],
        ailing: vec![ailing(3, 1, 2)],
        well: vec![task_id(2)],
        deliveries: jobs.iter().map(|job| delivery("devs", 300, job.id)).collect(),
        jobs: jobs.to_vec(),
    };
    let with_taken = |seq| Dispatch { taken: [good.taken.clone(), vec![seq]].concat(), ..good.clone() };
    let with_rule = |rule| Dispatch { rules: [good.rules.clone(), vec![rule]].concat(), ..good.clone() };
    let with_job = |job: NewJob| Dispatch { jobs: [good.jobs.clone(), vec![job]].concat(), ..good.clone() };
    let ids = [jobs[0].id, jobs[1].id, job_id(1, 200, 1), job_id(4, 300, 1)];
    let before = seen(store, &ids).await;
    let conflicts = [
        (with_taken(first.taken[0]), "a notice was taken"),
        (with_taken(i64::MAX), "a notice was never there"),
        (Dispatch { rules: vec![update("ops", 0, "new")], ..good.clone() }, "a rule has another version"),
        (with_rule(update("absent", 0, "new")), "a rule is not there"),
        (Dispatch { taken: first.taken.clone(), ..Dispatch::default() }, "only a notice, and it was taken"),
    ];
    for (dispatch, what) in conflicts {
        assert_eq!(store.dispatch(dispatch).await.unwrap(), Dispatched::Conflict, "{what}");
        assert_eq!(seen(store, &ids).await, before, "{what}");
    }
    let inconsistent = [
        (with_job(NewJob { task: task_id(99), ..new_job(4, 300, 1) }), "no such task"),
        (with_job(new_job(4, 300, SHARDS)), "no such shard"),
        (with_job(first.jobs[0].clone()), "the job is there"),
        (Dispatch { deliveries: first.deliveries.clone(), ..good.clone() }, "the delivery is there"),
    ];
    for (dispatch, what) in inconsistent {
        assert_inconsistent(store.dispatch(dispatch).await);
        assert_eq!(seen(store, &ids).await, before, "{what}");
    }
    dispatched(store, good.clone()).await;
    assert_eq!(waiting(store).await, []);
    assert_eq!(store.ailing(None, 10).await.unwrap(), [ailing(3, 1, 2)]);
    for job in &jobs {
        assert!(matches!(store.find(job.id).await.unwrap(), FoundRow::Hot(_)));
    }
    assert_eq!(store.dispatch(good).await.unwrap(), Dispatched::Conflict, "done is done");
}

pub(super) async fn dispatches_at_once_take_a_notice_once(store: &dyn Store) {
    reported(store).await;
    let taken = numbers(store).await;
    let dispatch = |n: u64| {
        let job = new_job(n, 200, (n % 4) as u16);
        let deliveries = vec![delivery("ops", 200, job.id)];
        // In both orders, so that who waits for whom is not given.
        let taken = if n.is_multiple_of(2) { taken.clone() } else { taken.iter().rev().copied().collect() };
        store.dispatch(Dispatch { taken, deliveries, jobs: vec![job], ..Dispatch::default() })
    };
    let answers: Vec<Dispatched> = join_all((0..8).map(dispatch)).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == Dispatched::Done).count(), 1, "{answers:?}");
    assert_eq!(store.deliveries(NamespaceId::DEFAULT, None, None, 10).await.unwrap().len(), 1);
    let mut jobs = 0;
    for shard in 0..SHARDS {
        jobs += store.load(load_all(shard)).await.unwrap().rows.len();
    }
    assert_eq!(jobs, 1);
}

pub(super) async fn a_rule_updated_at_once_has_one_version(store: &dyn Store) {
    reported(store).await;
    let update = |n: u64| {
        // In both orders likewise.
        let mut rules = vec![update("ops", 0, &n.to_string()), update("devs", 0, &n.to_string())];
        if n.is_multiple_of(2) {
            rules.reverse();
        }
        store.dispatch(Dispatch { rules, ..Dispatch::default() })
    };
    let answers: Vec<Dispatched> = join_all((0..8).map(update)).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == Dispatched::Done).count(), 1, "{answers:?}");
    let rules = store.rules(None).await.unwrap();
    assert_eq!(rules.iter().map(|rule| rule.version).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(rules[0].state, rules[1].state);
}

pub(super) async fn ailing_tasks_are_replaced_and_get_well(store: &dyn Store) {
    with_task(store).await;
    // Stores need not know the tasks: they may be gone.
    let ail = |ailing| Dispatch { ailing, ..Dispatch::default() };
    dispatched(store, ail(vec![ailing(1, 10, 10), ailing(2, 10, 30), ailing(3, 10, 20), ailing(4, 10, 20)])).await;
    let all = async |limit| store.ailing(None, limit).await.unwrap();
    let ties = [ailing(4, 10, 20), ailing(3, 10, 20)];
    assert_eq!(all(10).await, [&[ailing(2, 10, 30)], &ties[..], &[ailing(1, 10, 10)]].concat(), "the latest first");
    assert_eq!(all(2).await, [ailing(2, 10, 30), ailing(4, 10, 20)]);
    let worse = punctual_store::Ailing { failures: u32::MAX, ..ailing(1, 10, 40) };
    let better = Dispatch { well: vec![task_id(2), task_id(3), task_id(77)], ..ail(vec![worse.clone()]) };
    dispatched(store, better).await;
    assert_eq!(all(10).await, [worse.clone(), ailing(4, 10, 20)]);
    let mut some = store.ailing_of([1, 2, 4, 77, 1].map(task_id).to_vec()).await.unwrap();
    some.sort_by_key(|ailing| ailing.task);
    assert_eq!(some, [worse, ailing(4, 10, 20)], "each once, and only those that ail");
    assert_eq!(store.ailing_of(vec![task_id(2)]).await.unwrap(), []);
    assert_eq!(store.ailing_of(Vec::new()).await.unwrap(), []);
}

pub(super) async fn deliveries_are_listed_the_latest_first_in_pages(store: &dyn Store) {
    with_task(store).await;
    let mut expected = Vec::new();
    for n in 0..6 {
        // Three at the same time, and their jobs' ids do not follow the time.
        let row = delivery(["ops", "devs"][n % 2], 100 + (n as i64 / 3), job_id(n as u64, 50 - n as i64, 1));
        expected.push(DeliveryRow { events: u32::MAX - n as u32, summary: format!("\"ü\" {n}"), ..row });
    }
    dispatched(store, Dispatch { deliveries: expected.clone(), ..Dispatch::default() }).await;
    expected.sort_by_key(|row| std::cmp::Reverse((row.at, row.job)));
    for rule in [None, Some("ops"), Some("devs"), Some("op"), Some("")] {
        let fits: Vec<_> = expected.iter().filter(|row| rule.is_none_or(|rule| row.rule == rule)).cloned().collect();
        for limit in [1, 2, 4, 10] {
            let mut seen: Vec<DeliveryRow> = Vec::new();
            loop {
                let before = seen.last().map(|row| (row.at, row.job));
                let page =
                    store.deliveries(NamespaceId::DEFAULT, rule.map(str::to_owned), before, limit).await.unwrap();
                assert!(page.len() <= limit);
                seen.extend(page.iter().cloned());
                if page.len() < limit {
                    break;
                }
            }
            assert_eq!(seen, fits, "{rule:?} by {limit}");
        }
    }
}

pub(super) async fn old_deliveries_and_ailments_go(store: &dyn Store) {
    with_rule(store, "ops").await;
    let rows = [99, 100, 101].map(|secs| delivery("ops", secs, job_id(secs as u64, secs, 1)));
    let sick = [ailing(1, 10, 99), ailing(2, 10, 100)];
    let dispatch = Dispatch { deliveries: rows.to_vec(), ailing: sick.to_vec(), ..Dispatch::default() };
    dispatched(store, dispatch).await;
    assert_eq!(store.prune(at(100), at(100), 10).await.unwrap(), 0, "it counts jobs");
    assert_eq!(
        store.deliveries(NamespaceId::DEFAULT, None, None, 10).await.unwrap(),
        [rows[2].clone(), rows[1].clone()]
    );
    assert_eq!(store.deliveries(NamespaceId::DEFAULT, Some("ops".to_owned()), None, 10).await.unwrap().len(), 2);
    assert_eq!(store.ailing(None, 10).await.unwrap(), [sick[1].clone()]);
    store.prune(at(5000), at(5000), 10).await.unwrap();
    assert_eq!(store.deliveries(NamespaceId::DEFAULT, None, None, 10).await.unwrap(), []);
    assert_eq!(store.ailing(None, 10).await.unwrap(), []);
    assert_eq!(store.rules(None).await.unwrap(), [new_rule("ops")], "a rule does not grow old");
}

pub(super) async fn the_task_of_a_delivery_is_in_use(store: &dyn Store) {
    store.intern_tasks(vec![nameless_task(2)]).await.unwrap();
    let job = NewJob { task: task_id(2), ..new_job(1, 20 * DAY, 0) };
    dispatched(store, Dispatch { jobs: vec![job.clone()], ..Dispatch::default() }).await;
    let is_known = async || !store.tasks_by_id(vec![task_id(2)]).await.unwrap().is_empty();
    store.prune(at(10 * DAY), at(10 * DAY), 10).await.unwrap();
    assert!(is_known().await, "its job waits");
    Owner::new(store, 1).await.done(vec![succeed(original(&job), 1)]).await;
    // The job is gone, and its task is remembered to be used until the job was due.
    store.prune(at(21 * DAY), at(21 * DAY), 10).await.unwrap();
    assert_eq!(store.find(job.id).await.unwrap(), FoundRow::Absent);
    assert!(is_known().await, "it was used a day ago");
    store.prune(at(30 * DAY), at(30 * DAY), 10).await.unwrap();
    assert!(!is_known().await);
}
