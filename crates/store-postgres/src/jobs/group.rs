//! One transaction for a group of submissions, and one for each where that does not work.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use punctual_core::{JobKey, TaskId, Timestamp};
use punctual_store::{
    IdempotencyKey, IdempotentAnswer, NewJob, Result, SUBMIT_MAX, StoreError, Submission, Submitted, TASK_USE_STEP,
};

use super::submit::{Call, Submitting};
use crate::codec::{self, Uuid, namespace_number, shard_number};
use crate::connection::Conn;
use crate::pipeline::{Blob, Param, Pipeline, Step, column};
use crate::sql;
use crate::tasks::{self, KnownTask, KnownTasks};
use crate::trouble::Trouble;
use crate::{batches, requesters};

type Done<T> = std::result::Result<T, Trouble>;

/// Answers every call.
pub(super) async fn commit(with: &Submitting, calls: Vec<Call>) {
    if calls.is_empty() {
        return;
    }
    let conn = match with.link.conn().await {
        Ok(conn) => conn,
        Err(error) => return refuse(calls, &error),
    };
    // Those that cannot share a transaction, to be stored one by one.
    let mut alone = Vec::new();
    let mut together = Vec::new();
    let mut keys = HashSet::new();
    for call in calls {
        let key = call.submission.idempotency.as_ref().map(|wanted| wanted.key.clone());
        let repeats = key.is_some_and(|key| !keys.insert(key));
        let is_batch = call.submission.batch.is_some();
        if repeats || is_batch || call.submission.jobs.iter().any(is_long_overdue) {
            alone.push(call)
        } else {
            together.push(call)
        }
    }
    let (ready, rest) = match prepare(with, &conn, together).await {
        Ok(sorted) => sorted,
        Err((calls, trouble)) => {
            return refuse(calls.into_iter().chain(alone).collect(), &StoreError::from(trouble));
        }
    };
    match store(with, &conn, &ready).await {
        Ok(()) => ready.into_iter().for_each(|call| call.answer(Ok(Submitted::Done))),
        Err(trouble) if trouble.is_about_the_statement() || matches!(trouble, Trouble::Refused(_)) => {
            alone = ready.into_iter().chain(alone).collect();
        }
        Err(trouble) => {
            let calls = ready.into_iter().chain(rest).chain(alone).collect();
            return refuse(calls, &StoreError::from(trouble));
        }
    }
    for call in rest.into_iter().chain(alone) {
        let answer = store_alone(with, &conn, &call.submission).await;
        if answer.is_err() {
            // A connection that is lost has rolled back already.
            let _ = conn.run("ROLLBACK").await;
        }
        call.answer(answer.map_err(StoreError::from));
    }
}

fn refuse(calls: Vec<Call>, why: &StoreError) {
    let why = match why {
        // Nothing is wrong with what was submitted.
        StoreError::Inconsistent(text) => StoreError::Unavailable(text.clone()),
        other => other.clone(),
    };
    for call in calls {
        call.answer(Err(why.clone()));
    }
}

/// Retention may take the task of such a job for unused, although it is remembered here.
fn is_long_overdue(job: &NewJob) -> bool {
    job.id.due_at() + TASK_USE_STEP < job.submitted_at
}

type Sorted = (Vec<Call>, Vec<Call>);

/// Answers those that need not be stored. The others: those that can be stored together, and
/// those that must be looked at alone.
async fn prepare(
    with: &Submitting,
    conn: &Arc<Conn>,
    calls: Vec<Call>,
) -> std::result::Result<Sorted, (Vec<Call>, Trouble)> {
    let mut open = Vec::new();
    for call in calls {
        match check_size(&call.submission.jobs) {
            Ok(()) => open.push(call),
            Err(error) => call.answer(Err(error)),
        }
    }
    let open = match answer_repeated(conn, open).await {
        Ok(open) => open,
        Err(failed) => return Err(failed),
    };
    let jobs = || open.iter().flat_map(|call| &call.submission.jobs);
    if let Err(trouble) = look_up(with, conn, jobs()).await {
        return Err((open, trouble));
    }
    let mut fitting = Vec::new();
    for call in open {
        match check_jobs(with.shard_count, &call.submission.jobs, |id| with.known_tasks.get(id)) {
            Ok(()) => fitting.push(call),
            Err(error) => call.answer(Err(error)),
        }
    }
    let gone = match remember_use(with, conn, fitting.iter().flat_map(|call| &call.submission.jobs)).await {
        Ok(gone) => gone,
        Err(trouble) => return Err((fitting, trouble)),
    };
    Ok(fitting.into_iter().partition(|call| call.submission.jobs.iter().all(|job| !gone.contains(&job.task))))
}

fn check_size(jobs: &[NewJob]) -> Result<()> {
    match jobs.len() {
        0..=SUBMIT_MAX => Ok(()),
        many => Err(StoreError::Inconsistent(format!("{many} jobs in one submission, of at most {SUBMIT_MAX}"))),
    }
}

fn check_jobs(shard_count: u16, jobs: &[NewJob], known: impl Fn(TaskId) -> Option<KnownTask>) -> Result<()> {
    for job in jobs {
        let shard = job.id.shard();
        if shard.0 >= shard_count {
            return Err(StoreError::Inconsistent(format!("{} is of shard {shard}, of {shard_count}", job.id)));
        }
        let Some(task) = known(job.task) else {
            return Err(StoreError::Inconsistent(format!("there is no {}", job.task)));
        };
        if task.namespace != job.namespace {
            let text = format!("{} is not in the namespace of {}", job.id, job.task);
            return Err(StoreError::Inconsistent(text));
        }
    }
    Ok(())
}

/// Answers those whose key was used before, and gives back the others.
async fn answer_repeated(conn: &Conn, calls: Vec<Call>) -> std::result::Result<Vec<Call>, (Vec<Call>, Trouble)> {
    if calls.iter().all(|call| call.submission.idempotency.is_none()) {
        return Ok(calls);
    }
    let keyed = |call: &Call| call.submission.idempotency.clone();
    let wanted: Vec<IdempotentAnswer> = calls.iter().filter_map(keyed).collect();
    let question: Vec<_> = wanted.iter().map(|wanted| (&wanted.key, &wanted.fingerprint, wanted.now)).collect();
    let mut answers = match answered_before(conn, &question).await {
        Ok(answers) => answers.into_iter(),
        Err(trouble) => return Err((calls, trouble)),
    };
    let mut open = Vec::new();
    for call in calls {
        let before = if call.submission.idempotency.is_some() { answers.next().flatten() } else { None };
        match before {
            Some(before) => call.answer(Ok(before)),
            None => open.push(call),
        }
    }
    Ok(open)
}

/// For each key what its use before means, in the order asked for.
pub(super) async fn answered_before(
    conn: &Conn,
    wanted: &[(&IdempotencyKey, &[u8; 32], Timestamp)],
) -> Done<Vec<Option<Submitted>>> {
    let keys: Vec<String> = wanted.iter().map(|(key, ..)| codec::text(&key.key)).collect();
    let namespaces: Vec<i32> = wanted.iter().map(|(key, ..)| namespace_number(key.namespace)).collect();
    let rows = conn.query(sql!("idempotent_answers"), &[&keys, &namespaces]).await?;
    let mut kept = HashMap::new();
    for row in &rows {
        kept.insert((codec::namespace(row, 4)?, codec::value::<&str>(row, 0)?), row);
    }
    wanted
        .iter()
        .zip(&keys)
        .map(|((asked, fingerprint, now), key)| {
            let Some(row) = kept.get(&(asked.namespace, key.as_str())) else { return Ok(None) };
            if codec::time(row, 3)? <= *now {
                return Ok(None);
            }
            if codec::value::<&[u8]>(row, 1)? != &fingerprint[..] {
                return Ok(Some(Submitted::KeyReused));
            }
            let answer = codec::bytes(row, 2)?.unwrap_or_default();
            Ok(Some(Submitted::Replayed { answer }))
        })
        .collect()
}

async fn look_up(with: &Submitting, conn: &Conn, jobs: impl Iterator<Item = &NewJob>) -> Done<()> {
    let unknown: HashSet<TaskId> = jobs.map(|job| job.task).filter(|id| with.known_tasks.get(*id).is_none()).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = unknown.into_iter().map(Uuid::from).collect();
    for row in conn.query(sql!("task_numbers"), &[&ids]).await? {
        let (id, known) = tasks::read_known(&row)?;
        with.known_tasks.put(id, known);
    }
    Ok(())
}

/// Answers the tasks that are not there any more. In a transaction of its own: to be remembered
/// in vain does a task no harm, and other groups do not wait for this one's commit.
async fn remember_use(with: &Submitting, conn: &Conn, jobs: impl Iterator<Item = &NewJob>) -> Done<HashSet<TaskId>> {
    let mut latest: HashMap<TaskId, Timestamp> = HashMap::new();
    for job in jobs {
        let due_at = job.id.due_at();
        latest.entry(job.task).and_modify(|latest| *latest = due_at.max(*latest)).or_insert(due_at);
    }
    let mut news = BTreeMap::new();
    for (id, until) in latest {
        if let Some(known) = with.known_tasks.get(id)
            && until > known.used_until + TASK_USE_STEP
        {
            news.insert(known.number, (id, known, until));
        }
    }
    if news.is_empty() {
        return Ok(HashSet::new());
    }
    let used: Vec<(i64, Timestamp)> = news.iter().map(|(number, (_, _, until))| (*number, *until)).collect();
    for (number, used_until) in tasks::use_tasks(conn, &used).await? {
        if let Some((id, known, _)) = news.remove(&number) {
            with.known_tasks.put(id, KnownTask { used_until, ..known });
        }
    }
    let gone: HashSet<TaskId> = news.into_values().map(|(id, ..)| id).collect();
    gone.iter().for_each(|id| with.known_tasks.forget(*id));
    Ok(gone)
}

/// All of them, or none.
async fn store(with: &Submitting, conn: &Arc<Conn>, calls: &[Call]) -> Done<()> {
    let jobs: Vec<&NewJob> = calls.iter().flat_map(|call| &call.submission.jobs).collect();
    let kept: Vec<&IdempotentAnswer> = calls.iter().filter_map(|call| call.submission.idempotency.as_ref()).collect();
    let mut steps = Vec::new();
    if !kept.is_empty() {
        steps.push(keep_answers(conn, kept).await?);
    }
    if !jobs.is_empty() {
        steps.push(insert_jobs(conn, &jobs, |id| with.known_tasks.get(id)).await?);
    }
    if steps.is_empty() {
        return Ok(());
    }
    // One statement is a transaction by itself.
    if steps.len() > 1 {
        steps.insert(0, Step::Plain("BEGIN"));
        steps.push(Step::Plain("COMMIT"));
    }
    let pipeline = Pipeline::new(conn, steps);
    let answers = conn.within_limit(async { Ok::<_, Trouble>(pipeline.await) }).await?;
    for answer in answers {
        answer?;
    }
    Ok(())
}

async fn keep_answers(conn: &Conn, mut kept: Vec<&IdempotentAnswer>) -> Done<Step> {
    // In order, so that two groups do not wait for each other.
    kept.sort_by(|one, other| one.key.cmp(&other.key));
    let earliest = kept.iter().map(|kept| kept.now.as_micros()).min().unwrap_or_default();
    let params: Vec<Param> = vec![
        column(kept.iter().map(|kept| codec::text(&kept.key.key))),
        column(kept.iter().map(|kept| kept.fingerprint.to_vec())),
        column(kept.iter().map(|kept| Blob(kept.answer.clone()))),
        column(kept.iter().map(|kept| kept.expires_at.as_micros())),
        Box::new(earliest),
        column(kept.iter().map(|kept| namespace_number(kept.key.namespace))),
    ];
    Ok(Step::Prepared(conn.prepare(sql!("keep_answers")).await?, params))
}

async fn insert_jobs(conn: &Conn, jobs: &[&NewJob], known: impl Fn(TaskId) -> Option<KnownTask>) -> Done<Step> {
    let numbers: Option<Vec<i64>> = jobs.iter().map(|job| known(job.task).map(|known| known.number)).collect();
    // Retention emptied the list since they were looked up.
    let numbers = numbers.ok_or_else(|| Trouble::inconsistent("a task was forgotten"))?;
    let mut params: Vec<Param> = vec![
        column(jobs.iter().map(|job| Uuid::from(job.id))),
        column(jobs.iter().map(|job| JobKey::original(job.id).due_at.as_micros())),
        column(jobs.iter().map(|job| job.submitted_at.as_micros())),
        Box::new(numbers),
        column(jobs.iter().map(|job| shard_number(job.id.shard()))),
        column(jobs.iter().map(|job| i16::from(job.priority.get()))),
    ];
    let is_plain = |job: &NewJob| {
        job.tracing_id.is_none() && job.input.is_none() && job.maker().is_none() && job.namespace.is_default()
    };
    let requesters = || column(jobs.iter().map(|job| job.requester.map(requesters::number)));
    if jobs.iter().all(|job| is_plain(job)) {
        params.push(requesters());
        return Ok(Step::Prepared(conn.prepare(sql!("insert_plain_jobs")).await?, params));
    }
    params.push(column(jobs.iter().map(|job| job.tracing_id.as_deref().map(codec::text))));
    params.push(column(jobs.iter().map(|job| job.input.clone().map(Blob))));
    params.push(column(jobs.iter().map(|job| job.maker().map(|maker| maker.to_vec()))));
    params.push(column(jobs.iter().map(|job| codec::namespace_or_none(job.namespace))));
    params.push(requesters());
    Ok(Step::Prepared(conn.prepare(sql!("insert_jobs")).await?, params))
}

/// Tries a key once more that was taken and expired meanwhile.
const ALONE_TRIES: usize = 3;

/// One submission in a transaction of its own, step by step. The caller rolls back after an error.
async fn store_alone(with: &Submitting, conn: &Arc<Conn>, submission: &Submission) -> Done<Submitted> {
    check_size(&submission.jobs)?;
    for _ in 0..ALONE_TRIES {
        conn.run("BEGIN").await?;
        if let Some(wanted) = &submission.idempotency
            && let Err(trouble) = run(conn, keep_answers(conn, vec![wanted]).await?).await
        {
            if !trouble.is_about_the_statement() {
                return Err(trouble);
            }
            conn.run("ROLLBACK").await?;
            let before = answered_before(conn, &[(&wanted.key, &wanted.fingerprint, wanted.now)]).await?;
            match before.into_iter().next().flatten() {
                Some(before) => return Ok(before),
                None => continue,
            }
        }
        if let Some(batch) = &submission.batch {
            batches::insert(conn, batch).await?;
        }
        store_within(conn, with.shard_count, &submission.jobs).await?;
        conn.run("COMMIT").await?;
        return Ok(Submitted::Done);
    }
    Err(StoreError::Unavailable("an idempotency key changes hands too quickly".to_owned()).into())
}

/// The statement that stores jobs whose tasks are remembered as used for so long that nobody removes them meanwhile. `None`
/// if one of them cannot be stored so.
pub(crate) async fn insert_remembered(
    conn: &Conn,
    known: &KnownTasks,
    shard_count: u16,
    jobs: &[&NewJob],
) -> Done<Option<Step>> {
    let is_remembered = |job: &NewJob| {
        known
            .get(job.task)
            .is_some_and(|task| task.namespace == job.namespace && job.id.due_at() <= task.used_until + TASK_USE_STEP)
    };
    if jobs.len() > SUBMIT_MAX || jobs.iter().any(|job| is_long_overdue(job) || job.id.shard().0 >= shard_count) {
        return Ok(None);
    }
    let unknown: HashSet<TaskId> = jobs.iter().filter(|job| !is_remembered(job)).map(|job| job.task).collect();
    if !unknown.is_empty() {
        let ids: Vec<Uuid> = unknown.into_iter().map(Uuid::from).collect();
        for row in conn.query(sql!("task_numbers"), &[&ids]).await? {
            let (id, task) = tasks::read_known(&row)?;
            known.put(id, task);
        }
        if !jobs.iter().all(|job| is_remembered(job)) {
            return Ok(None);
        }
    }
    insert_jobs(conn, jobs, |id| known.get(id)).await.map(Some)
}

/// Stores jobs in the transaction that is open on this connection, with the tasks that they use. The caller rolls back
/// after an error.
pub(crate) async fn store_within(conn: &Arc<Conn>, shard_count: u16, jobs: &[NewJob]) -> Done<()> {
    check_size(jobs)?;
    if jobs.is_empty() {
        return Ok(());
    }
    let mut ids: Vec<Uuid> = jobs.iter().map(|job| job.task.into()).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows = conn.query(sql!("lock_tasks"), &[&ids]).await?;
    let locked = rows.iter().map(tasks::read_known).collect::<codec::Read<HashMap<_, _>>>()?;
    let known = |id| locked.get(&id).copied();
    check_jobs(shard_count, jobs, known)?;
    let all: Vec<&NewJob> = jobs.iter().collect();
    run(conn, insert_jobs(conn, &all, known).await?).await?;
    let mut used: BTreeMap<i64, Timestamp> = BTreeMap::new();
    for job in jobs {
        let due_at = job.id.due_at();
        if let Some(known) = known(job.task).filter(|known| due_at > known.used_until + TASK_USE_STEP) {
            used.entry(known.number).and_modify(|until| *until = due_at.max(*until)).or_insert(due_at);
        }
    }
    if !used.is_empty() {
        tasks::use_tasks(conn, &used.into_iter().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

async fn run(conn: &Arc<Conn>, step: Step) -> Done<()> {
    let pipeline = Pipeline::new(conn, vec![step]);
    for answer in conn.within_limit(async { Ok::<_, Trouble>(pipeline.await) }).await? {
        answer?;
    }
    Ok(())
}
