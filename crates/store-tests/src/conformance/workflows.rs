use bytes::Bytes;
use punctual_core::attempt::Ending;
use punctual_core::job::Input;
use punctual_core::schedule::By;
use punctual_core::shard::write::{Epoch, JobWrite, Settle, SharedBatch, Write};
use punctual_core::workflow::{
    GateVerdict, NodeRef, NodeStatus, Refusal, RunEvent, RunJob, RunState, RunStatus, WorkflowSpec,
};
use punctual_core::{JobKey, JobState, NamespaceId, RunId, ShardId, Span, TaskId, Timestamp};
use punctual_store::{
    Applied, DueRun, FoundRow, JobRecord, NewJob, OpenRun, RunChange, RunFilter, RunRow, RunSteps, Store, WorkflowRow,
    WorkflowStored,
};

use crate::fixture::*;

const CHAIN: &str = r#"{"nodes":[
    {"name":"a","task":"t"},
    {"name":"b","task":"t","needs":["a"],"input":{"rows":{"from":"a.rows"}}},
    {"name":"c","task":"t","needs":["b"]}]}"#;
const GATE: &str = r#"{"nodes":[
    {"name":"ok","gate":{"timeout":"PT1H"}},
    {"name":"b","task":"t","needs":["ok"]}]}"#;
const LIST: &str = r#"{"nodes":[
    {"name":"each","task":"t","for_each":{"from":"run","at_once":2}},
    {"name":"join","task":"t","needs":["each"],"input":{"all":{"from":"each"}}}]}"#;

fn run_id(n: u64, shard: u16) -> RunId {
    RunId::new(at(0), ShardId(shard), n)
}

fn version(name: &str, spec: &str) -> WorkflowRow {
    WorkflowRow {
        namespace: NamespaceId::DEFAULT,
        name: name.to_owned(),
        version: 0,
        spec: spec.to_owned(),
        made: By { at: at(0), who: "ann \u{fc}".to_owned() },
    }
}

async fn with_workflow(store: &dyn Store, spec: &str) {
    assert_eq!(store.put_workflow(version("flow", spec)).await.unwrap(), WorkflowStored::New(1));
}

fn new_run(n: u64, spec: &str) -> RunRow {
    let graph: WorkflowSpec = serde_json::from_str(spec).unwrap();
    let task = |gate: bool| (!gate).then_some((task_id(1), priority(3)));
    RunRow {
        id: run_id(n, 2),
        namespace: NamespaceId::DEFAULT,
        workflow: "flow".to_owned(),
        version: 1,
        made: By { at: at(0), who: "bob".to_owned() },
        input: None,
        tasks: graph.nodes.iter().map(|node| task(node.gate.is_some())).collect(),
        state: RunState::new(graph.nodes.len(), at(0) + graph.timeout),
        status: RunStatus::Running,
    }
}

async fn started(store: &dyn Store, row: RunRow) -> Vec<NewJob> {
    store.start_run(row).await.unwrap().jobs
}

async fn read(store: &dyn Store, n: u64) -> RunRow {
    store.run(run_id(n, 2)).await.unwrap().expect("the run is there")
}

async fn statuses(store: &dyn Store, n: u64) -> Vec<NodeStatus> {
    read(store, n).await.state.nodes.iter().map(|node| node.status).collect()
}

/// The job of the node that the run released last.
async fn job_of(store: &dyn Store, n: u64, node: usize) -> JobKey {
    JobKey::original(read(store, n).await.state.nodes[node].job.expect("it was released"))
}

async fn node_of(store: &dyn Store, key: JobKey) -> NodeRef {
    store.node_of_job(key.id).await.unwrap().expect("it is of a run")
}

/// The end of a job that ran once.
async fn end(store: &dyn Store, key: JobKey, state: JobState, output: Option<&str>) -> Write {
    let ending = if state == JobState::Succeeded { Ending::Succeeded } else { Ending::Failed };
    Write::Job(JobWrite::Settle(Settle {
        node: Some(Box::new(node_of(store, key).await)),
        output: output.map(|output| Bytes::from(output.to_owned())),
        ..settled(key, 1, state, ending)
    }))
}

pub(super) async fn a_new_version_differs_from_the_newest(store: &dyn Store) {
    with_workflow(store, CHAIN).await;
    assert_eq!(store.put_workflow(version("flow", CHAIN)).await.unwrap(), WorkflowStored::Unchanged(1));
    assert_eq!(store.put_workflow(version("flow", GATE)).await.unwrap(), WorkflowStored::New(2));
    assert_eq!(store.put_workflow(version("flow", CHAIN)).await.unwrap(), WorkflowStored::New(3));
    assert_eq!(store.put_workflow(version("also", LIST)).await.unwrap(), WorkflowStored::New(1));
    let other = WorkflowRow { namespace: NamespaceId(7), ..version("flow", LIST) };
    assert_eq!(store.put_workflow(other.clone()).await.unwrap(), WorkflowStored::New(1));
    let get = async |name: &str, version| store.workflow(NamespaceId::DEFAULT, name, version).await.unwrap();
    assert_eq!(get("flow", Some(2)).await, Some(WorkflowRow { version: 2, ..version("flow", GATE) }));
    assert_eq!(get("flow", None).await.unwrap().version, 3);
    assert_eq!((get("flow", Some(4)).await, get("gone", None).await), (None, None));
    let list = async |after: Option<&str>, limit| {
        let rows = store.list_workflows(NamespaceId::DEFAULT, after.map(str::to_owned), limit).await.unwrap();
        rows.into_iter().map(|row| (row.name, row.version)).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 10).await, [("also".to_owned(), 1), ("flow".to_owned(), 3)]);
    assert_eq!(list(None, 1).await, [("also".to_owned(), 1)]);
    assert_eq!(list(Some("also"), 10).await, [("flow".to_owned(), 3)]);
}

pub(super) async fn a_run_reads_back_and_its_first_jobs_wait(store: &dyn Store) {
    with_task(store).await;
    with_workflow(store, CHAIN).await;
    let row = RunRow { input: Some(text(r#"{"day":1}"#)), ..new_run(1, CHAIN) };
    let RunChange { row: stored, jobs, cancels, refused } = store.start_run(row.clone()).await.unwrap();
    assert_eq!((cancels, refused), (vec![], None));
    assert_eq!(store.run(row.id).await.unwrap(), Some(stored.clone()));
    assert_eq!(store.run_in(row.namespace, row.id).await.unwrap(), Some(stored.clone()));
    assert_eq!(store.run_in(NamespaceId(7), row.id).await.unwrap(), None, "it is of another namespace");
    assert_eq!(store.run_in(row.namespace, run_id(9, 2)).await.unwrap(), None);
    assert_eq!(RunRow { state: row.state.clone(), ..stored }, row, "only its state is another");
    assert_eq!(statuses(store, 1).await, [NodeStatus::Active, NodeStatus::Waiting, NodeStatus::Waiting]);
    let [job] = &jobs[..] else { panic!("{jobs:?}") };
    let node = NodeRef { run: row.id, node: 0, round: 0, item: 0 };
    assert_eq!((job.node, job.id.shard(), job.id.due_at(), job.priority), (Some(node), ShardId(2), at(0), priority(3)));
    let FoundRow::Hot(found) = store.find(job.id).await.unwrap() else { panic!("it is not there") };
    assert_eq!((found.node.as_deref(), &found.source), (Some(&node), &None));
    assert_eq!(node_of(store, JobKey::original(job.id)).await, node);
    let Some(JobRecord::Hot { job: shown, input, .. }) = store.job(job.id).await.unwrap() else { panic!() };
    assert_eq!((shown.source, shown.tracing_id, input), (None, Some(row.id.to_string()), Some(text(r#"{"day":1}"#))));
    assert_inconsistent(store.start_run(row).await);
}

pub(super) async fn the_end_of_a_job_releases_what_waits_for_it(store: &dyn Store) {
    let mut owner = owner_of(store, &[new_job(9, 10, 2)]).await;
    with_workflow(store, CHAIN).await;
    started(store, new_run(1, CHAIN)).await;
    let first = job_of(store, 1, 0).await;
    owner.done(vec![start(first, 1)]).await;
    // With the end of a job that is of no run.
    let plain = original(&new_job(9, 10, 2));
    owner.done(vec![start(plain, 1)]).await;
    let ended = end(store, first, JobState::Succeeded, Some(r#"{"rows":[1,2]}"#)).await;
    owner.done(vec![ended, succeed(plain, 1)]).await;
    assert_eq!(statuses(store, 1).await, [NodeStatus::Succeeded, NodeStatus::Active, NodeStatus::Waiting]);
    assert_eq!(node_of(store, first).await.node, 0, "in history, too");
    let second = job_of(store, 1, 1).await;
    let Some(JobRecord::Hot { input, .. }) = store.job(second.id).await.unwrap() else { panic!("it waits") };
    assert_eq!(input, Some(text(r#"{"rows":[1,2]}"#)));
    owner.done(vec![start(second, 1)]).await;
    owner.done(vec![end(store, second, JobState::Failed, None).await]).await;
    assert_eq!(statuses(store, 1).await, [NodeStatus::Succeeded, NodeStatus::Failed, NodeStatus::NotRun]);
    assert_eq!(read(store, 1).await.status, RunStatus::Failed);
}

/// The owner takes in what the answer names, and reads nothing: it has to be what a load shows.
pub(super) async fn the_answer_to_a_batch_names_what_followed_in_runs(store: &dyn Store) {
    let mut owner = owner_of(store, &[new_job(9, 10, 2)]).await;
    with_workflow(store, CHAIN).await;
    let mut firsts = Vec::new();
    for n in 1..=3 {
        let job = (n == 2).then(|| RunJob { job: new_job(8, 10, 2).id, attempt: 1, is_reported: false });
        let row = new_run(n, CHAIN);
        started(store, RunRow { state: RunState { job, ..row.state.clone() }, ..row }).await;
        firsts.push(job_of(store, n, 0).await);
    }
    let plain = original(&new_job(9, 10, 2));
    let starts = firsts.iter().chain([&plain]).map(|key| start(*key, 1)).collect();
    assert_eq!(owner.stepped(starts).await, RunSteps::default());
    let rows = Some(r#"{"rows":[1,2]}"#);
    let ends = vec![
        end(store, firsts[0], JobState::Succeeded, rows).await,
        end(store, firsts[1], JobState::Failed, None).await,
        succeed(plain, 1),
        end(store, firsts[2], JobState::Succeeded, rows).await,
    ];
    let RunSteps { mut released, ended, batches: _ } = owner.stepped(ends).await;
    assert_eq!(ended, [run_id(2, 2)], "of those, only this one has a job that waits for its end");
    let mut stored = Vec::new();
    for n in [1, 3] {
        let FoundRow::Hot(row) = store.find(job_of(store, n, 1).await.id).await.unwrap() else { panic!("it waits") };
        stored.push(row);
    }
    released.sort_by_key(|row| row.key);
    stored.sort_by_key(|row| row.key);
    assert_eq!(released, stored);
    assert_eq!(released[0].input, Input::Inline(text(r#"{"rows":[1,2]}"#)));
    let due = store.due_runs(at(0), None, 10).await.unwrap();
    assert_eq!(due, [DueRun { at: at(0), id: run_id(2, 2), has_ended: true }]);
    assert_eq!(store.due_runs(at(0), due.last().copied(), 10).await.unwrap(), []);
}

/// More runs than are stepped together, each of which reads what was kept before.
pub(super) async fn the_ends_of_jobs_of_many_runs_are_one_batch(store: &dyn Store) {
    const MANY: u64 = 300;
    let mut owner = owner_of(store, &[]).await;
    let late = r#"{"nodes":[{"name":"a","task":"t"},{"name":"b","task":"t","needs":["a"]},
        {"name":"c","task":"t","needs":["b"],"input":{"n":{"from":"a.n"}}}]}"#;
    with_workflow(store, late).await;
    for n in 1..=MANY {
        started(store, new_run(n, late)).await;
    }
    for node in 0..2 {
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for n in 1..=MANY {
            let key = job_of(store, n, node).await;
            let output = (node == 0).then(|| format!(r#"{{"n":{n}}}"#));
            starts.push(start(key, 1));
            ends.push(end(store, key, JobState::Succeeded, output.as_deref()).await);
        }
        owner.done(starts).await;
        assert_eq!(owner.stepped(ends).await.released.len(), MANY as usize);
    }
    for n in 1..=MANY {
        let Some(JobRecord::Hot { input, .. }) = store.job(job_of(store, n, 2).await.id).await.unwrap() else {
            panic!()
        };
        assert_eq!(input, Some(text(&format!(r#"{{"n":{n}}}"#))), "its own output");
    }
}

pub(super) async fn a_fenced_owner_releases_nothing(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    with_workflow(store, CHAIN).await;
    started(store, new_run(1, CHAIN)).await;
    let first = job_of(store, 1, 0).await;
    owner.done(vec![start(first, 1)]).await;
    let ended = end(store, first, JobState::Succeeded, None).await;
    let mut batch = owner.batch(vec![ended]);
    batch.fences = vec![(ShardId(2), Epoch(owner.epoch(2).0 + 1))];
    let applied = store.apply(SharedBatch::new(batch)).await.unwrap();
    assert_eq!(applied, Applied::Fenced(vec![ShardId(2)]));
    assert_eq!(statuses(store, 1).await, [NodeStatus::Active, NodeStatus::Waiting, NodeStatus::Waiting]);
}

pub(super) async fn an_end_that_is_void_changes_no_run(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    with_workflow(store, CHAIN).await;
    started(store, new_run(1, CHAIN)).await;
    let first = job_of(store, 1, 0).await;
    owner.done(vec![start(first, 1)]).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(first, 1, at(20))))]).await;
    // It is not there any more, but where the retry put it.
    let node = Some(Box::new(node_of(store, first).await));
    let Write::Job(JobWrite::Settle(deleted)) = ended(first, JobState::Deleted, at(3)) else { panic!() };
    owner.void(vec![Write::Job(JobWrite::Settle(Settle { node, ..deleted }))], first.id).await;
    assert_eq!(statuses(store, 1).await[0], NodeStatus::Active);
}

pub(super) async fn ends_in_one_batch_are_applied_in_their_order(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    with_workflow(store, LIST).await;
    let row = RunRow { input: Some(text(r#"["x","y","z"]"#)), ..new_run(1, LIST) };
    let jobs = started(store, row).await;
    assert_eq!(jobs.iter().map(|job| job.input.clone().unwrap()).collect::<Vec<_>>(), [text("\"x\""), text("\"y\"")]);
    let (x, y) = (JobKey::original(jobs[0].id), JobKey::original(jobs[1].id));
    owner.done(vec![start(x, 1), start(y, 1)]).await;
    let both =
        vec![end(store, y, JobState::Succeeded, Some("2")).await, end(store, x, JobState::Succeeded, Some("1")).await];
    owner.done(both).await;
    let fan = read(store, 1).await.state.nodes[0].fan.clone().unwrap();
    let z = JobKey::original(fan.active[&2]);
    owner.done(vec![start(z, 1)]).await;
    owner.done(vec![end(store, z, JobState::Succeeded, Some("3")).await]).await;
    let join = job_of(store, 1, 1).await;
    let Some(JobRecord::Hot { input, .. }) = store.job(join.id).await.unwrap() else { panic!("it waits") };
    assert_eq!(input, Some(text(r#"{"all":[1,2,3]}"#)), "outputs of several batches, in order");
}

pub(super) async fn a_gate_is_decided_once(store: &dyn Store) {
    with_task(store).await;
    with_workflow(store, GATE).await;
    assert_eq!(started(store, new_run(1, GATE)).await, []);
    let decide = |verdict| RunEvent::Decide { node: 0, verdict, by: "ann".to_owned() };
    let id = run_id(1, 2);
    let changed = store.change_run(id, decide(GateVerdict::Approved), at(60)).await.unwrap().unwrap();
    assert_eq!((changed.jobs.len(), changed.refused), (1, None));
    assert_eq!(changed.row, read(store, 1).await);
    let again = store.change_run(id, decide(GateVerdict::Rejected), at(61)).await.unwrap().unwrap();
    assert_eq!((again.refused, again.jobs), (Some(Refusal::NotOpen), vec![]));
    assert_eq!(statuses(store, 1).await, [NodeStatus::Succeeded, NodeStatus::Active]);
    assert_eq!(store.change_run(run_id(9, 2), RunEvent::Tick, at(60)).await.unwrap(), None);
}

pub(super) async fn runs_are_due_when_their_time_has_come(store: &dyn Store) {
    with_task(store).await;
    with_workflow(store, GATE).await;
    started(store, new_run(1, GATE)).await;
    let due = async |at: Timestamp| {
        store.due_runs(at, None, 10).await.unwrap().into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(due(at(3599)).await, []);
    assert_eq!(due(at(3600)).await, [run_id(1, 2)]);
    store.change_run(run_id(1, 2), RunEvent::Tick, at(3600)).await.unwrap();
    assert_eq!(statuses(store, 1).await, [NodeStatus::Failed, NodeStatus::NotRun]);
    assert_eq!(due(at(0) + Span::from_secs(100 * 86_400)).await, [], "it has ended");
}

pub(super) async fn runs_are_listed_the_latest_first(store: &dyn Store) {
    with_task(store).await;
    with_workflow(store, GATE).await;
    assert_eq!(store.put_workflow(version("other", GATE)).await.unwrap(), WorkflowStored::New(1));
    for n in 1..=3 {
        let workflow = if n == 2 { "other" } else { "flow" }.to_owned();
        started(store, RunRow { workflow, ..new_run(n, GATE) }).await;
    }
    let list = async |workflow: Option<&str>, before: Option<u64>, limit| {
        let filter = RunFilter {
            namespace: NamespaceId::DEFAULT,
            workflow: workflow.map(str::to_owned),
            before: before.map(|n| run_id(n, 2)),
            limit,
        };
        store.list_runs(filter).await.unwrap().into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None, 10).await, [run_id(3, 2), run_id(2, 2), run_id(1, 2)]);
    assert_eq!(list(None, Some(3), 1).await, [run_id(2, 2)]);
    assert_eq!(list(Some("flow"), None, 10).await, [run_id(3, 2), run_id(1, 2)]);
    assert_eq!(list(Some("flow"), Some(3), 10).await, [run_id(1, 2)]);
    let elsewhere = RunFilter { namespace: NamespaceId(7), workflow: None, before: None, limit: 10 };
    assert_eq!(store.list_runs(elsewhere).await.unwrap(), []);
}

/// The job that the end of `first` releases, as it will be stored.
async fn next_job(store: &dyn Store, n: u64, first: JobKey, spec: &str) -> NewJob {
    let open = OpenRun::of_spec(read(store, n).await, spec).unwrap();
    let node = node_of(store, first).await;
    let output = Some(text(r#"{"rows":1}"#));
    let mut open = open;
    open.known.read(0);
    let ended = RunEvent::Ended { node, state: JobState::Succeeded, output };
    open.step(&[ended], at(0)).expect("nothing is missing").jobs.remove(0)
}

pub(super) async fn a_step_that_cannot_be_stored_ends_its_run_and_nothing_else(store: &dyn Store) {
    let mut owner = owner_of(store, &[new_job(9, 10, 2)]).await;
    with_workflow(store, CHAIN).await;
    started(store, new_run(1, CHAIN)).await;
    started(store, new_run(2, CHAIN)).await;
    let (first, other, plain) = (job_of(store, 1, 0).await, job_of(store, 2, 0).await, original(&new_job(9, 10, 2)));
    // Something else has the id of the job that it releases, so that it cannot be stored.
    let taken = NewJob { node: None, tracing_id: None, ..next_job(store, 1, first, CHAIN).await };
    submit(store, vec![taken.clone()]).await.unwrap();
    owner.done(vec![start(first, 1), start(other, 1), start(plain, 1)]).await;
    let output = Some(r#"{"rows":1}"#);
    let ends = vec![
        end(store, first, JobState::Succeeded, output).await,
        end(store, other, JobState::Succeeded, output).await,
        succeed(plain, 1),
    ];
    owner.done(ends).await;
    for job in [first, other, plain] {
        assert!(matches!(store.find(job.id).await.unwrap(), FoundRow::Finished { .. }), "{} has ended", job.id);
    }
    let broken = read(store, 1).await;
    assert_eq!(statuses(store, 1).await, [NodeStatus::Failed, NodeStatus::NotRun, NodeStatus::NotRun]);
    assert_eq!((broken.status, broken.state.broken.is_some()), (RunStatus::Failed, true));
    assert_eq!(statuses(store, 2).await, [NodeStatus::Succeeded, NodeStatus::Active, NodeStatus::Waiting]);
    assert!(matches!(store.find(taken.id).await.unwrap(), FoundRow::Hot(_)), "the other job is as it was");
    // The shard goes on, and so does the run if somebody resumes it.
    owner.done(vec![start(job_of(store, 2, 1).await, 1)]).await;
    let resumed = store.change_run(run_id(1, 2), RunEvent::Resume { skip: vec![] }, at(5)).await.unwrap().unwrap();
    assert_eq!((resumed.refused, resumed.jobs.len(), resumed.row.state.broken), (None, 1, None));
}

pub(super) async fn a_request_that_cannot_be_stored_ends_its_run(store: &dyn Store) {
    with_task(store).await;
    with_workflow(store, GATE).await;
    started(store, new_run(1, GATE)).await;
    let decide = RunEvent::Decide { node: 0, verdict: GateVerdict::Approved, by: "ann".to_owned() };
    let open = OpenRun::of_spec(read(store, 1).await, GATE).unwrap();
    let released = open.step(std::slice::from_ref(&decide), at(60)).expect("nothing is missing").jobs.remove(0);
    // It is of this id, and its due time is that of the step.
    submit(store, vec![NewJob { node: None, tracing_id: None, ..released }]).await.unwrap();
    let changed = store.change_run(run_id(1, 2), decide, at(60)).await.unwrap().unwrap();
    assert_eq!((changed.row.status, changed.jobs), (RunStatus::Failed, vec![]));
    assert_eq!(changed.row, read(store, 1).await);
    assert_eq!(statuses(store, 1).await, [NodeStatus::Cancelled, NodeStatus::NotRun]);
    assert_eq!(store.due_runs(at(0) + Span::from_secs(100 * 86_400), None, 10).await.unwrap(), []);
}

pub(super) async fn a_node_fails_whose_task_is_gone(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    store.intern_tasks(vec![nameless_task(2)]).await.unwrap();
    with_workflow(store, CHAIN).await;
    let row = new_run(1, CHAIN);
    let other: TaskId = task_id(2);
    let tasks = vec![row.tasks[0], Some((other, priority(0))), row.tasks[2]];
    started(store, RunRow { tasks, ..row }).await;
    let first = job_of(store, 1, 0).await;
    owner.done(vec![start(first, 1)]).await;
    // Long after the run should have ended, retention does not keep its tasks any more.
    for days in [60, 61] {
        store.prune(at(days * 86_400), at(days * 86_400), 10).await.unwrap();
    }
    assert_eq!(store.tasks_by_id(vec![other]).await.unwrap(), []);
    owner.done(vec![end(store, first, JobState::Succeeded, Some(r#"{"rows":1}"#)).await]).await;
    assert_eq!(statuses(store, 1).await, [NodeStatus::Succeeded, NodeStatus::Failed, NodeStatus::NotRun]);
    let run = read(store, 1).await;
    assert_eq!((run.status, run.state.broken), (RunStatus::Failed, None));
    assert_eq!(run.state.nodes[1].reason.as_deref(), Some("its task is not there any more"));
}
