//! Commands on a job that a peer owns, whose answers get lost on the way.

#[path = "world/local.rs"]
mod local;
#[path = "world/peers.rs"]
mod peers;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use punctual_api::ErrorKind;
use punctual_app::{App, ClusterKeys, Parts, Roles, Settings, VaultParts};
use punctual_blobs::{Blobs, UrlKey};
use punctual_core::shard::event::{Command, Refusal, Reply};
use punctual_core::shard::{Answer, Ask, LiveView};
use punctual_core::size::ByteSize;
use punctual_core::{AttemptNo, JobId, JobKey, JobState, ServerId, Span, Timestamp};
use punctual_engine::{Engine, EngineConfig, Runs};
use punctual_store::{ClusterSecret, Leases, Member, MemberStatus, Members, Submission, Submit, Tasks};
use punctual_store_tests::fixture::{at, job_id, named_task, new_job, server, task_id, worker};
use punctual_store_tests::model::ModelStore;

use self::local::by;
use self::peers::{FarSide, Wire};

const LONG: Span = Span::from_secs(3600);

/// The owner at the other end of the wire. `None` is an answer that never arrives.
#[derive(Default)]
struct Owner {
    answers: Mutex<VecDeque<Option<Answer>>>,
    asked: Mutex<Vec<Ask>>,
    runs: Mutex<Runs>,
}

#[async_trait::async_trait]
impl FarSide for Owner {
    async fn ask(&self, asks: Vec<Ask>) -> Option<Vec<Answer>> {
        self.asked.lock().unwrap().extend(asks);
        self.answers.lock().unwrap().pop_front().flatten().map(|answer| vec![answer])
    }

    fn runs(&self) -> Option<Runs> {
        Some(self.runs.lock().unwrap().clone())
    }
}

/// A server without shards, and a job that another one owns.
struct World {
    app: App,
    owner: Arc<Owner>,
    job: JobId,
}

const OWNER: u64 = 2;

async fn world(answers: &[Option<Answer>]) -> World {
    let store = ModelStore::new(4, at(0));
    store.create_task(named_task(1, "t")).await.unwrap();
    let job = new_job(1, 60, 0);
    assert_eq!((job.id, job.task), (job_id(1, 60, 0), task_id(1)));
    let id = job.id;
    store.submit(Submission { jobs: vec![job], idempotency: None, batch: None }).await.unwrap();
    store.beat(member(server(OWNER))).await.unwrap();
    store.acquire(server(OWNER), LONG, 4).await.unwrap();
    let begun = Instant::now();
    let mut config = EngineConfig::new(server(1), Arc::new(|| at(0)), Arc::new(move || begun.elapsed()), 1);
    config.member.roles = vec!["api".to_owned()];
    let store: Arc<dyn punctual_store::Store> = Arc::new(store);
    let engine = Engine::start(Arc::clone(&store), config).await.unwrap();
    let owner = Arc::new(Owner { answers: Mutex::new(answers.iter().cloned().collect()), ..Owner::default() });
    let app = App::new(Parts {
        store,
        engine,
        clock: Arc::new(|| at(0)),
        random: Arc::new(|| 7),
        peers: Arc::new(Wire(Arc::clone(&owner))),
        keys: ClusterKeys::new(ClusterSecret([1; 32])),
        vault: VaultParts::for_tests(),
        blobs: Blobs::folder(&std::env::temp_dir().join("punctual-app-tests"), UrlKey::derive(&[1; 32])).unwrap(),
        settings: Settings {
            heartbeat: Span::from_secs(5),
            worker_dead_after: Span::from_secs(20),
            lease_ttl: LONG,
            roles: Roles { api: true, scheduler: false },
            artifact_max: ByteSize::mib(1),
            retention: LONG,
            audit_retention: Span::from_secs(86_400),
            worker_program: punctual_app::WorkerProgram::Worker,
            public_url: "http://127.0.0.1:8020".to_owned(),
            missed_after: Span::from_secs(60),
            log_limit: ByteSize::mib(1),
            request_rate: 0,
            task_limits: Default::default(),
            token_file: None,
        },
    });
    World { app, owner, job: id }
}

fn member(id: ServerId) -> Member {
    Member {
        id,
        address: "http://127.0.0.1:1".to_owned(),
        version: "1".to_owned(),
        roles: vec!["scheduler".to_owned()],
        started_at: at(0) - LONG,
        status: MemberStatus::default(),
        zone_data: String::new(),
    }
}

fn started(job: JobId, started_at: Timestamp) -> Runs {
    let view = LiveView {
        key: JobKey::original(job),
        attempt: AttemptNo(1),
        worker: worker(1),
        picked_up_at: started_at,
        started_at,
        cancel_requested: false,
        worker_is_connected: true,
    };
    Runs { attempts: vec![view], owned: [job.shard()].into() }
}

const LOST: Option<Answer> = None;
const NOT_OWNER: Option<Answer> = Some(Answer::NotOwner);

fn reply(reply: Reply) -> Option<Answer> {
    Some(Answer::Job(reply))
}

#[tokio::test]
async fn a_delete_whose_answer_was_lost_ends_as_a_success() {
    let world = world(&[LOST, NOT_OWNER, reply(Reply::Done(JobState::Deleted))]).await;
    assert_eq!(world.app.delete_job(&by(&world.app), world.job).await.unwrap().state, "deleted");
    let delete = Ask::Job { id: world.job, command: Command::Delete };
    assert_eq!(*world.owner.asked.lock().unwrap(), [delete.clone(), delete.clone(), delete]);
}

#[tokio::test]
async fn a_run_now_that_worked_is_not_refused_for_having_worked() {
    let refused = || reply(Reply::Refused(JobState::Running, Refusal::AlreadyStarted));
    let again = world(&[LOST, refused()]).await;
    *again.owner.runs.lock().unwrap() = started(again.job, at(1));
    assert_eq!(again.app.run_job_now(&by(&again.app), again.job).await.unwrap().state, "running");
    // It ran before anybody asked.
    let before = world(&[LOST, refused()]).await;
    *before.owner.runs.lock().unwrap() = started(before.job, at(0) - Span::from_secs(1));
    assert_eq!(
        before.app.run_job_now(&by(&before.app), before.job).await.unwrap_err().kind,
        ErrorKind::JobAlreadyStarted
    );
    // Nothing was lost: the owner knows best.
    let first = world(&[refused()]).await;
    *first.owner.runs.lock().unwrap() = started(first.job, at(1));
    assert_eq!(first.app.run_job_now(&by(&first.app), first.job).await.unwrap_err().kind, ErrorKind::JobAlreadyStarted);
}

#[tokio::test]
async fn a_retry_that_worked_is_not_refused_because_the_job_waits_again() {
    let refused = || reply(Reply::Refused(JobState::Scheduled, Refusal::NotFinished));
    let again = world(&[LOST, refused()]).await;
    assert_eq!(again.app.retry_job(&by(&again.app), again.job).await.unwrap().state, "scheduled");
    let first = world(&[refused()]).await;
    assert_eq!(first.app.retry_job(&by(&first.app), first.job).await.unwrap_err().kind, ErrorKind::JobNotFinished);
}

#[tokio::test]
async fn an_owner_that_never_answers_is_given_up_soon() {
    let world = world(&[]).await;
    let begun = Instant::now();
    let error = world.app.cancel_job(&by(&world.app), world.job).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ShardMoving);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let job = world.app.job(&by(&world.app), world.job, None).await.unwrap();
    assert!(job.uncertain && job.explanation.contains("does not answer"), "{}", job.explanation);
}
