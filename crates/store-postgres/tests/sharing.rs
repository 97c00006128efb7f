//! Several servers on one database, and what people and workers send that does not fit.

mod common;

use common::Database;
use futures_util::future::join_all;
use punctual_core::attempt::{Details, Ending};
use punctual_core::shard::write::{JobWrite, Requeue, Settle, StaleOutcome, Write};
use punctual_core::task::Task;
use punctual_core::{AttemptNo, JobId, JobState, NamespaceId, ShardId};
use punctual_store::{
    FoundRow, IdempotencyKey, IdempotentAnswer, JobReads, JobRecord, NewJob, Order, Retention, Submission, Submit,
    Submitted, Tasks, Transitions,
};
use punctual_store_tests::fixture::*;

fn keyed(key: &str, answer: &str, jobs: Vec<NewJob>) -> Submission {
    let idempotency = IdempotentAnswer {
        key: IdempotencyKey { namespace: NamespaceId::DEFAULT, key: key.to_owned() },
        fingerprint: [1; 32],
        answer: text(answer),
        now: at(0),
        expires_at: at(100),
    };
    Submission { jobs, idempotency: Some(idempotency), batch: None }
}

#[tokio::test]
async fn one_request_sent_to_two_servers_is_stored_once() {
    let database = Database::new();
    let stores = [database.store().await, database.store().await];
    with_task(&stores[0]).await;
    let calls = (0..200).map(|n| {
        let (key, store) = (n / 2, &stores[n as usize % 2]);
        store.submit(keyed(&format!("key {key}"), &format!("answer {n}"), vec![new_job(n, 10, (n % 4) as u16)]))
    });
    let answers: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
    for pair in answers.chunks(2).zip((0..).step_by(2)) {
        let (pair, n) = pair;
        let done = pair.iter().position(|answer| *answer == Submitted::Done).expect("one of them is stored");
        let answer = text(&format!("answer {}", n + done));
        assert_eq!(pair[1 - done], Submitted::Replayed { answer });
    }
    assert_eq!(database.execute("SELECT count(*) FROM job"), "100");
}

#[tokio::test]
async fn a_submission_that_is_refused_leaves_its_neighbours_alone() {
    let database = Database::new();
    let store = database.store().await;
    with_task(&store).await;
    submit(&store, vec![new_job(7, 10, 0)]).await.unwrap();
    // Two of the same job, one that is there, a repeated key, and many that fit.
    let submissions: Vec<Submission> = (0..60)
        .map(|n| match n {
            20 => Submission { jobs: vec![new_job(1, 10, 1)], idempotency: None, batch: None },
            21 => Submission { jobs: vec![new_job(7, 10, 0), new_job(70, 10, 0)], idempotency: None, batch: None },
            22 => keyed("a", "first", vec![new_job(100, 10, 1)]),
            23 => keyed("a", "second", vec![new_job(101, 10, 1)]),
            n => Submission { jobs: vec![new_job(n, 10, 1)], idempotency: None, batch: None },
        })
        .collect();
    let answers = join_all(submissions.into_iter().map(|submission| store.submit(submission))).await;
    for (n, answer) in answers.into_iter().enumerate() {
        match n {
            20 | 21 => assert_inconsistent(answer),
            23 => assert_eq!(answer.unwrap(), Submitted::Replayed { answer: text("first") }),
            _ => assert_eq!(answer.unwrap(), Submitted::Done, "{n}"),
        }
    }
    assert_eq!(store.find(job_id(70, 10, 0)).await.unwrap(), FoundRow::Absent, "all or nothing");
    assert_eq!(database.execute("SELECT count(*) FROM job"), "58");
}

#[tokio::test]
async fn the_same_content_is_interned_once_by_all_servers() {
    let database = Database::new();
    let stores = join_all((0..4).map(|_| database.store())).await;
    let calls = stores.iter().zip(0..).map(|(store, server)| {
        // In another order on every second server: who waits for whom must not matter.
        let mut tasks: Vec<_> = (0..6).map(nameless_task).collect();
        if server % 2 == 1 {
            tasks.reverse();
        }
        let tasks = tasks.into_iter().zip(0..).map(move |((task, digest), n)| {
            (Task { id: punctual_core::TaskId::new(at(0), 100 * (server + 1) + n), ..task }, digest)
        });
        store.intern_tasks(tasks.collect())
    });
    let mut answers: Vec<_> = join_all(calls).await.into_iter().map(|answer| answer.unwrap().ids()).collect();
    answers.iter_mut().skip(1).step_by(2).for_each(|answer| answer.reverse());
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(database.execute("SELECT count(*) FROM task"), "6");
}

/// One server forgets a task while another still remembers its number.
#[tokio::test]
async fn a_job_of_a_task_that_another_server_let_go_of_is_refused() {
    const DAY: i64 = 86_400;
    let database = Database::new();
    let (one, other) = (database.store().await, database.store().await);
    let (task, digest) = nameless_task(2);
    one.intern_tasks(vec![(task, digest)]).await.unwrap();
    let job = |n, due_secs| NewJob { task: task_id(2), submitted_at: at(10 * DAY), ..new_job(n, due_secs, 0) };
    let first = NewJob { submitted_at: at(0), ..job(1, 10) };
    submit(&one, vec![first.clone()]).await.unwrap();
    let mut owner = punctual_store_tests::fixture::Owner::new(&other, 1).await;
    owner.done(vec![succeed(original(&first), 1)]).await;
    other.prune(at(10 * DAY), at(0), 10).await.unwrap();
    other.prune(at(10 * DAY), at(0), 10).await.unwrap();
    assert_eq!(other.tasks_by_id(vec![task_id(2)]).await.unwrap(), []);
    // Long overdue, due now, and due far ahead: each looks at another thing.
    for due_secs in [20, 10 * DAY, 30 * DAY] {
        assert_inconsistent(submit(&one, vec![job(2, due_secs)]).await);
    }
    assert_eq!(database.execute("SELECT count(*) FROM job"), "0");
}

#[tokio::test]
async fn a_reason_may_hold_what_postgresql_cannot() {
    let database = Database::new();
    let store = database.store().await;
    let job = NewJob { tracing_id: Some("a\0b".to_owned()), ..new_job(1, 10, 0) };
    let mut owner = owner_of(&store, std::slice::from_ref(&job)).await;
    let mut failed: Settle = settled(original(&job), 1, JobState::Failed, Ending::Failed);
    failed.attempt.as_mut().unwrap().reason = Some("exit\0code".to_owned());
    let stale = StaleOutcome {
        id: job_id(9, 1, 0),
        attempt: AttemptNo(1),
        worker: worker(1),
        at: at(1),
        outcome: "\0".to_owned(),
    };
    owner.done(vec![Write::Job(JobWrite::Settle(failed)), Write::Job(JobWrite::Stale(stale))]).await;
    match store.job(job.id).await.unwrap().unwrap() {
        JobRecord::Finished { job, .. } => assert_eq!(job.reason.as_deref(), Some("exit\u{fffd}code")),
        hot @ JobRecord::Hot { .. } => panic!("{hot:?}"),
    }
}

#[tokio::test]
async fn a_long_scan_ends_with_a_short_page_that_says_where_to_go_on() {
    let database = Database::new();
    let store = database.store().await;
    with_task(&store).await;
    store.create_task(named_task(2, "rare")).await.unwrap();
    let rare = NewJob { task: task_id(2), ..new_job(1, 20_000, 3) };
    for round in 0..3 {
        let jobs = (0..9000).map(|n| new_job(n, round, (n % 4) as u16)).collect();
        submit(&store, jobs).await.unwrap();
    }
    submit(&store, vec![rare.clone()]).await.unwrap();
    let filter = punctual_store::Filter { task: Some(task_id(2)), ..Default::default() };
    let mut position = first_page(Order::Ascending, 10);
    let mut pages = 0;
    let found = loop {
        let page = hot_page(&store, filter.clone(), position).await;
        pages += 1;
        if let Some(job) = page.rows.first() {
            break job.key.id;
        }
        position.after = Some(page.next.expect("there is more"));
    };
    assert_eq!((found, pages), (rare.id, 3));
}

/// A job's id that is none.
const NO_ID: &str = "00000000-0000-0000-0000-000000000000";

#[tokio::test]
async fn jobs_behind_many_whose_ids_cannot_be_read_are_listed() {
    let database = Database::new();
    let store = database.store().await;
    with_task(&store).await;
    let spoiled = (1..=250).chain(1001..=1250).map(|n| new_job(n, n as i64, 0));
    submit(&store, spoiled.collect()).await.unwrap();
    database.execute(&format!("UPDATE job SET id = '{NO_ID}'"));
    // Those of the other shard must not lead a page past those of the first.
    let jobs = [new_job(1, 500, 0), new_job(2, 600, 1), new_job(3, 700, 1), new_job(4, 800, 0), new_job(5, 2000, 1)];
    submit(&store, jobs.to_vec()).await.unwrap();
    database.execute(&format!("UPDATE job SET priority = 9999 WHERE due_at = {}", at(700).as_micros()));
    let mut listed = [jobs[0].id, jobs[1].id, jobs[3].id, jobs[4].id];
    for limit in [1, 2, 3, 100, 1000] {
        assert_eq!(listed_hot(&store, Order::Ascending, limit).await, listed, "by {limit}");
    }
    listed.reverse();
    for limit in [1, 2, 3, 100, 1000] {
        assert_eq!(listed_hot(&store, Order::Descending, limit).await, listed, "by {limit}");
    }
}

#[tokio::test]
async fn a_list_that_finds_nothing_but_ids_that_cannot_be_read_does_not_pretend_to_end() {
    let database = Database::new();
    let store = database.store().await;
    with_task(&store).await;
    submit(&store, vec![new_job(1, 1_000_000, 0)]).await.unwrap();
    let spoiled = |count: u32| {
        database.execute(&format!(
            "INSERT INTO job SELECT spoiled.* FROM job CROSS JOIN generate_series(1, {count}) AS n, \
             jsonb_populate_record(job, jsonb_build_object('id', '{NO_ID}', 'due_at', n)) AS spoiled \
             WHERE job.id <> '{NO_ID}' ON CONFLICT DO NOTHING"
        ))
    };
    spoiled(20_000);
    assert_eq!(listed_hot(&store, Order::Ascending, 10).await.len(), 1, "some are passed over");
    spoiled(170_000);
    let first = first_page(Order::Ascending, 10);
    let refused = store.list_jobs(punctual_store::Filter::default(), first).await.expect_err("too many");
    assert!(refused.to_string().contains("160000 jobs in a row have ids that cannot be read"), "{refused}");
    let last = store.list_jobs(punctual_store::Filter::default(), first_page(Order::Descending, 1)).await.unwrap();
    assert_eq!(last.hot.rows.len(), 1, "those before them are there");
}

#[tokio::test]
async fn a_task_that_cannot_be_read_is_left_out_and_the_others_are_read() {
    let database = Database::new();
    let store = database.store().await;
    with_task(&store).await;
    store.create_task(named_task(2, "newer")).await.unwrap();
    database.execute(r#"UPDATE task SET spec = '{"run":{"teleport":{}}}' WHERE name = 'newer'"#);
    for _ in 0..2 {
        let tasks = store.tasks_by_id(vec![task_id(2), task_id(1)]).await.unwrap();
        assert_eq!(tasks, [named_task(1, "report")]);
    }
    // By name it comes before the other, and takes nothing from the page.
    assert_eq!(store.list_tasks(NamespaceId::DEFAULT, None, 1).await.unwrap(), [named_task(1, "report")]);
}

#[tokio::test]
async fn a_job_that_cannot_be_read_is_left_out_of_lists_and_the_others_are_there() {
    let database = Database::new();
    let store = database.store().await;
    let jobs: Vec<NewJob> = (1..=5).map(|n| new_job(n, 10 * n as i64, (n % 2) as u16)).collect();
    let _owner = owner_of(&store, &jobs).await;
    let spoil = |column: &str, secs: i64| {
        let due_at = at(secs).as_micros();
        database.execute(&format!("UPDATE job SET {column} WHERE due_at = {due_at}"));
    };
    spoil("priority = 9999", 20);
    spoil("id = '00000000-0000-0000-0000-000000000000'", 30);
    for order in [Order::Ascending, Order::Descending] {
        for limit in [1, 2, 100] {
            let mut listed = listed_hot(&store, order, limit).await;
            listed.sort_unstable();
            assert_eq!(listed, [jobs[0].id, jobs[3].id, jobs[4].id], "{order:?} by {limit}");
        }
    }
}

#[tokio::test]
async fn details_that_cannot_be_read_are_left_out_and_the_job_is_shown() {
    let database = Database::new();
    let store = database.store().await;
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(&store, std::slice::from_ref(&job)).await;
    let known = |n| with_details(ran(n, Ending::Failed), details());
    owner
        .done(vec![Write::Job(JobWrite::Requeue(Requeue {
            attempt: Some(known(1)),
            ..retried(original(&job), 1, at(10))
        }))])
        .await;
    let last = settled(original(&job), 2, JobState::Failed, Ending::Failed);
    owner.done(vec![Write::Job(JobWrite::Settle(Settle { attempt: Some(known(2)), ..last }))]).await;
    let shown = async || match store.job(job.id).await.unwrap() {
        Some(JobRecord::Finished { attempts, .. }) => attempts,
        other => panic!("{other:?}"),
    };
    assert_eq!(shown().await, [known(1), known(2)]);
    for unreadable in [r#"{"class":"magic"}"#, "{", "null", ""] {
        database.execute(&format!("UPDATE history SET details = '{unreadable}'"));
        database.execute(&format!("UPDATE attempt SET details = '{unreadable}'"));
        assert_eq!(shown().await, [ran(1, Ending::Failed), ran(2, Ending::Failed)], "{unreadable}");
    }
    // What a newer program adds is passed over.
    database.execute(r#"UPDATE history SET details = '{"signal":9,"later":[1]}'"#);
    let read = Details { signal: Some(9), ..Details::default() };
    assert_eq!(shown().await, [ran(1, Ending::Failed), with_details(ran(2, Ending::Failed), read)]);
}

#[tokio::test]
async fn a_late_outcome_that_is_repeated_is_kept_once() {
    let database = Database::new();
    let store = database.store().await;
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(&store, std::slice::from_ref(&job)).await;
    let stale = |n, secs| {
        let outcome = format!("at {secs}");
        Write::Job(JobWrite::Stale(StaleOutcome {
            id: job.id,
            attempt: AttemptNo(1),
            worker: worker(n),
            at: at(secs),
            outcome,
        }))
    };
    owner.done(vec![stale(1, 300), stale(1, 301)]).await;
    owner.done(vec![stale(1, 302), stale(2, 303)]).await;
    assert_eq!(database.execute("SELECT string_agg(outcome, ',' ORDER BY at) FROM stale_outcome"), "at 300,at 303");
}

/// A worker's number in history is given once, and is let go of with the last row that needs it.
#[tokio::test]
async fn workers_are_numbered_once_and_forgotten_with_their_history() {
    const DAY: i64 = 86_400;
    let database = Database::new();
    let stores = [database.store().await, database.store().await];
    with_task(&stores[0]).await;
    let mut owner = Owner::new(&stores[0], 1).await;
    let finish = |n: u64, shard: u16| {
        let job = new_job(n, 10, shard);
        let id: JobId = job.id;
        (job, punctual_core::JobKey::original(id))
    };
    for (n, store) in stores.iter().enumerate() {
        let (job, key) = finish(n as u64, 1);
        submit(store, vec![job]).await.unwrap();
        owner.store = store;
        owner.done(vec![succeed(key, 1)]).await;
    }
    assert_eq!(database.execute("SELECT count(*) FROM node"), "1", "the worker's id is the server's in these cases");
    assert_eq!(stores[0].prune(at(DAY), at(0), 10).await.unwrap(), 2);
    assert_eq!(database.execute("SELECT count(*) FROM node"), "1", "somebody may be about to use them");
    stores[0].prune(at(3 * DAY), at(0), 10).await.unwrap();
    assert_eq!(database.execute("SELECT count(*) FROM node"), "0");
    let (job, key) = finish(9, 2);
    submit(&stores[0], vec![job.clone()]).await.unwrap();
    owner.store = &stores[0];
    owner.done(vec![succeed(key, 1)]).await;
    assert!(stores[1].job(job.id).await.unwrap().is_some());
    assert_eq!(stores[1].open_starts(ShardId(2)).await.unwrap().running.len(), 0);
}
