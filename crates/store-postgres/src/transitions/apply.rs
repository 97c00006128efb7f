//! Applies one batch. At first everything is sent at once, with statements that fail unless
//! all is as expected: then nothing was applied, and the batch is looked at step by step. Some leave out
//! what is void, and the answer says what; not so if people are to be told of the batch, because its notices are
//! on their way before anybody knows which of them are void.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use punctual_core::shard::write::{Batch, JobWrite, Start, Void, Write};
use punctual_core::{AttemptNo, BatchId, JobId, JobKey, RunId, ShardId};
use punctual_store::{Applied, Graphs, RunSteps};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Row};

use super::columns::{Run, Statement, expectations, runs};
use super::named::{Missing, Named, Unfit};
use super::{notices, plain, schedules, starts};
use crate::batches;
use crate::codec::{self, Read, Uuid, shard_number};
use crate::connection::Conn;
use crate::memory::Memory;
use crate::nodes::Numbers;
use crate::pipeline::{Param, Pipeline, Step, column};
use crate::sql;
use crate::trouble::Trouble;
use crate::workflows::{self, Foreseen, Steps};

type Done<T> = Result<T, Trouble>;

/// A batch on its way.
pub(super) struct Sent {
    pub(super) pipeline: Pipeline,
    /// What the answer to each step of the pipeline should name.
    named: Vec<Named>,
    followed: Followed,
}

/// What follows in runs from a batch, once it is durable.
#[derive(Default)]
pub(super) struct Followed {
    pub(super) steps: RunSteps,
    /// Of which more is known than is durable.
    pub(super) runs: Vec<RunId>,
}

/// Makes the transaction of a batch, numbered `number` on this connection and to be applied
/// only after the one numbered `last`. An error, with nothing sent, if a write cannot be made at all.
pub(super) async fn send(
    conn: &Arc<Conn>,
    nodes: &Numbers,
    memory: &Memory,
    batch: &Batch,
    last: u64,
    number: u64,
) -> Done<Sent> {
    check_fences(batch)?;
    let Foreseen { statements: following, steps, runs } = foresee(conn, memory, batch).await?;
    let followed = Followed { steps, runs };
    let fence = fence(batch, last, number);
    let mut wanted = statements(nodes, batch)?;
    if following.is_empty() && plain::is_plain(&wanted) {
        let statement = conn.prepare(plain::TEXT).await?;
        let steps = vec![Step::Prepared(statement, plain::params(fence, wanted))];
        return Ok(Sent { pipeline: Pipeline::new(conn, steps), named: vec![Named::Nothing], followed });
    }
    wanted.insert(0, Statement::new(sql!("fence"), fence));
    let mut steps = vec![Step::Plain("BEGIN")];
    let mut named = vec![Named::Nothing];
    for statement in wanted {
        steps.push(Step::Prepared(conn.prepare(statement.text).await?, statement.params));
        named.push(statement.named);
    }
    named.extend(following.iter().map(|_| Named::Nothing));
    steps.extend(following);
    steps.push(Step::Plain("COMMIT"));
    named.push(Named::Nothing);
    Ok(Sent { pipeline: Pipeline::new(conn, steps), named, followed })
}

/// An error if what follows in runs has to be worked out step by step.
async fn foresee(conn: &Arc<Conn>, memory: &Memory, batch: &Batch) -> Done<Foreseen> {
    if !ends_jobs_of_runs(batch) {
        return Ok(Foreseen::default());
    }
    let step_by_step = || Trouble::inconsistent("what follows in runs is worked out step by step");
    let ends_members =
        |(_, write): (usize, &JobWrite)| matches!(write, JobWrite::Settle(settle) if settle.member.is_some());
    if batch.job_writes().any(ends_members) {
        return Err(step_by_step());
    }
    match workflows::foresee(conn, memory, batch).await {
        Ok(foreseen) => foreseen.ok_or_else(step_by_step),
        Err(trouble) if trouble.may_fit_otherwise() => Err(step_by_step()),
        Err(trouble) => Err(trouble),
    }
}

/// The runs of which a batch ends jobs.
pub(super) fn runs_of(batch: &Batch) -> Vec<RunId> {
    let of_write = |(_, write): (usize, &JobWrite)| match write {
        JobWrite::Settle(settle) => settle.node.as_deref().map(|node| node.run),
        _ => None,
    };
    batch.job_writes().filter_map(of_write).collect()
}

/// Of runs of workflows, or of batches.
pub(super) fn ends_jobs_of_runs(batch: &Batch) -> bool {
    let has_more = |write: &JobWrite| match write {
        JobWrite::Settle(settle) => settle.node.is_some() || settle.member.is_some(),
        _ => false,
    };
    batch.job_writes().any(|(_, write)| has_more(write))
}

/// All but the fence.
fn statements(nodes: &Numbers, batch: &Batch) -> Done<Vec<Statement>> {
    let told = notices::statement(batch.notices(&Void::default()));
    let unfit = if told.is_some() { Unfit::Refuse } else { Unfit::LeaveOut };
    let mut wanted = schedules::statements(batch, unfit)?;
    for run in runs(batch.job_writes()) {
        wanted.extend(run.statements(nodes, unfit)?);
    }
    wanted.extend(record_starts(batch, |_| true));
    wanted.extend(told);
    Ok(wanted)
}

/// What the answers to a batch mean. An error says that nothing was applied, or that it is not known.
pub(super) fn judge(named: Vec<Named>, answers: Vec<Result<Vec<Row>, Error>>, steps: RunSteps) -> Done<Applied> {
    let mut missing = Missing::default();
    for (answer, named) in answers.into_iter().zip(named) {
        // After the first error every statement fails, and COMMIT rolls back.
        missing.look_for(named, &answer?)?;
    }
    Ok(Applied::Done { void: missing.into_void(), steps })
}

impl Sent {
    pub(super) fn split(self) -> (Pipeline, Vec<Named>, Followed) {
        (self.pipeline, self.named, self.followed)
    }
}

/// A batch that ends jobs of runs. All but the steps is sent at once, with statements that fail unless all is as expected. The
/// caller rolls back after an error, and applies it carefully. `last` is the number of the last batch on this connection, and
/// stays.
pub(super) async fn apply_with_steps(
    conn: &Arc<Conn>,
    nodes: &Numbers,
    graphs: &Graphs,
    batch: &Batch,
    last: u64,
) -> Done<Applied> {
    check_fences(batch)?;
    let mut wanted = statements(nodes, batch)?;
    wanted.insert(0, Statement::new(sql!("fence"), fence(batch, last, last)));
    let mut steps = vec![Step::Plain("BEGIN")];
    let mut named = vec![Named::Nothing];
    for statement in wanted {
        steps.push(Step::Prepared(conn.prepare(statement.text).await?, statement.params));
        named.push(statement.named);
    }
    let answers = conn.within_limit(async { Ok::<_, Trouble>(Pipeline::new(conn, steps).await) }).await?;
    let mut missing = Missing::default();
    for (answer, named) in answers.into_iter().zip(named) {
        missing.look_for(named, &answer?)?;
    }
    let void = missing.into_void();
    let mut steps = workflows::step_all(conn, graphs, batch, &void, Steps::Trusted).await?;
    steps.batches = batches::step_all(conn, batch, &void).await?;
    conn.run("COMMIT").await?;
    Ok(Applied::Done { void, steps })
}

fn fence(batch: &Batch, last: u64, number: u64) -> Vec<Param> {
    vec![
        column(batch.fences.iter().map(|(shard, _)| shard_number(*shard))),
        column(batch.fences.iter().map(|(_, epoch)| epoch.0 as i64)),
        Box::new(last.to_string()),
        Box::new(number.to_string()),
    ]
}

/// The second look: step by step, leaving out what is void. The caller rolls back after an error.
pub(super) async fn apply_carefully(
    conn: &Arc<Conn>,
    nodes: &Numbers,
    graphs: &Graphs,
    batch: &Batch,
    steps: Steps,
) -> Done<Applied> {
    conn.run("BEGIN").await?;
    let fenced = fenced_shards(conn, batch).await?;
    if !fenced.is_empty() {
        conn.run("ROLLBACK").await?;
        return Ok(Applied::Fenced(fenced));
    }
    check_fences(batch)?;
    let mut missing = Missing::default();
    for statement in schedules::statements(batch, Unfit::LeaveOut)? {
        missing.look_for(statement.named, &query(conn, statement.text, statement.params).await?)?;
    }
    let mut void_gangs = BTreeSet::new();
    for mut run in runs(batch.job_writes()) {
        missing.add_jobs(take_void(conn, &mut run, &mut void_gangs).await?);
        for statement in run.statements(nodes, Unfit::LeaveOut)? {
            missing.look_for(statement.named, &query(conn, statement.text, statement.params).await?)?;
        }
    }
    let is_void = missing.places_of_jobs();
    if let Some(statement) = record_starts(batch, |place| !is_void.contains(&place)) {
        query(conn, statement.text, statement.params).await?;
    }
    let void = missing.into_void();
    let mut steps = workflows::step_all(conn, graphs, batch, &void, steps).await?;
    steps.batches = batches::step_all(conn, batch, &void).await?;
    if let Some(statement) = notices::statement(batch.notices(&void)) {
        query(conn, statement.text, statement.params).await?;
    }
    conn.run("COMMIT").await?;
    Ok(Applied::Done { void, steps })
}

fn check_fences(batch: &Batch) -> Done<()> {
    let fenced: HashSet<ShardId> = batch.fences.iter().map(|(shard, _)| *shard).collect();
    match batch.writes.iter().map(Write::shard).find(|shard| !fenced.contains(shard)) {
        Some(shard) => Err(Trouble::inconsistent(format!("the batch touches shard {shard} without its fence"))),
        None => Ok(()),
    }
}

async fn fenced_shards(conn: &Conn, batch: &Batch) -> Done<Vec<ShardId>> {
    let shards: Vec<i16> = batch.fences.iter().map(|(shard, _)| shard_number(*shard)).collect();
    let rows = conn.query(sql!("shard_epochs"), &[&shards]).await?;
    let read = |row: &Row| Ok((codec::shard(row, 0)?, codec::epoch(row, 1)?));
    let current = rows.iter().map(read).collect::<Read<HashMap<_, _>>>()?;
    let lost = batch.fences.iter().filter(|(shard, epoch)| current.get(shard) != Some(epoch));
    Ok(lost.map(|(shard, _)| *shard).collect())
}

/// Takes the writes out of a run whose waiting jobs are not as they expect, and the starts of gangs with such a member. The starts
/// of a gang follow each other, and no write about its members comes before them.
async fn take_void(
    conn: &Arc<Conn>,
    run: &mut Run<'_>,
    void_gangs: &mut BTreeSet<BatchId>,
) -> Done<Vec<(usize, JobId)>> {
    let expecting: Vec<(usize, (JobKey, AttemptNo))> =
        run.writes.iter().filter_map(|(place, write)| Some((*place, write.expects_waiting()?))).collect();
    if expecting.is_empty() {
        return Ok(Vec::new());
    }
    let expected: Vec<_> = expecting.iter().map(|(_, expected)| *expected).collect();
    let rows = query(conn, sql!("waiting"), expectations(&expected)).await?;
    let fitting = rows.iter().map(|row| codec::value::<i64>(row, 0)).collect::<Read<HashSet<_>>>()?;
    let unfit: HashSet<usize> = expecting
        .iter()
        .zip(1..)
        .filter(|(_, number)| !fitting.contains(number))
        .map(|((place, _), _)| *place)
        .collect();
    let gang = |(_, write): &&(usize, &JobWrite)| match write {
        JobWrite::Start(start) => start.gang,
        _ => None,
    };
    void_gangs.extend(run.writes.iter().filter(|(place, _)| unfit.contains(place)).filter_map(|write| gang(&write)));
    let is_void = |write: &&(usize, &JobWrite)| {
        unfit.contains(&write.0) || gang(write).is_some_and(|gang| void_gangs.contains(&gang))
    };
    let void: Vec<(usize, JobId)> =
        run.writes.iter().filter(is_void).filter_map(|(place, write)| Some((*place, write.job()?))).collect();
    run.writes.retain(|(place, _)| void.iter().all(|(gone, _)| gone != place));
    Ok(void)
}

/// What each shard started, in one row.
fn record_starts(batch: &Batch, counts: impl Fn(usize) -> bool) -> Option<Statement> {
    let mut started: BTreeMap<ShardId, Vec<&Start>> = BTreeMap::new();
    for (place, write) in batch.job_writes() {
        if let JobWrite::Start(start) = write
            && counts(place)
        {
            started.entry(start.key.shard()).or_default().push(start);
        }
    }
    if started.is_empty() {
        return None;
    }
    let params: Vec<Param> = vec![
        column(started.keys().map(|shard| shard_number(*shard))),
        column(started.keys().map(|shard| batch.starts_id(*shard).epoch.0 as i64)),
        Box::new(batch.seq.0 as i64),
        Box::new(Uuid::from(batch.server)),
        column(started.values().map(|starts| starts::encode(starts.iter().copied()))),
    ];
    Some(Statement::new(sql!("insert_starts"), params))
}

async fn query(conn: &Arc<Conn>, text: &'static str, params: Vec<Param>) -> Done<Vec<Row>> {
    let steps = vec![Step::Prepared(conn.prepare(text).await?, params)];
    let answers = conn.within_limit(async { Ok::<_, Trouble>(Pipeline::new(conn, steps).await) }).await?;
    let answer = answers.into_iter().next().unwrap_or(Ok(Vec::new()));
    answer.map_err(|error| match error.code() {
        // How a statement says that a row is not as expected.
        Some(&SqlState::DIVISION_BY_ZERO) => {
            Trouble::inconsistent("a job is not where the batch says or has another attempt, or a task is not there")
        }
        _ => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::notice::NoticeKind;
    use punctual_core::shard::write::{BatchSeq, Epoch, Settle};
    use punctual_store_tests::fixture::{at, new_job, original, server, succeed, worker};
    use punctual_store_tests::report_fixture::notice;

    fn texts(writes: Vec<Write>) -> Vec<&'static str> {
        let nodes = [Uuid::from(worker(1)), Uuid::from(server(1))].into_iter().zip(1..).collect::<HashMap<_, _>>();
        let fences = vec![(ShardId(0), Epoch(1))];
        let batch = Batch { seq: BatchSeq(1), server: server(1), fences, at: at(0), writes };
        let wanted = statements(&nodes, &batch).unwrap();
        assert_eq!(plain::is_plain(&wanted), batch.notices(&Void::default()).next().is_none());
        wanted.iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn a_notice_costs_one_statement_and_a_batch_without_any_stays_plain() {
        let success = |n| succeed(original(&new_job(n, 10, 0)), 1);
        assert_eq!(texts(vec![success(1), success(2)]), [sql!("settle_plain")]);
        let told = |n| {
            let Write::Job(JobWrite::Settle(settle)) = success(n) else { panic!("it is an end") };
            Write::Job(JobWrite::Settle(Settle {
                notice: Some(Box::new(notice(NoticeKind::Recovered, 1, 0))),
                ..settle
            }))
        };
        assert_eq!(texts(vec![told(1), success(2), told(3)]), [sql!("settle_plain"), sql!("keep_notices")]);
    }
}
