//! Tests with real processes in place of agents, and a fake server whose answers each test chooses.

use std::sync::Mutex;
use std::time::Duration;

use punctual_core::attempt::AttemptNo;
use punctual_core::id::{ArtifactId, JobId};
use punctual_core::run::{Limits, Network};
use punctual_core::{NamespaceId, ShardId, Span, Timestamp};
use punctual_exec::{Cancel, LogOutlet, LogSink};

use super::*;

struct Silent;

impl LogOutlet for Silent {
    fn ready(&self, _: LogSink) {
        panic!("the log of an attempt is its agent's");
    }
}

struct Answers(Mutex<Vec<Result<AdmissionGrant, AdmitError>>>);

#[async_trait]
impl Admissions for Answers {
    async fn admit(&self, admission: Admission) -> Result<AdmissionGrant, AdmitError> {
        assert_eq!(admission.pod, format!("process-{}", admission.host_id));
        self.0.lock().unwrap().pop().expect("an agent is admitted once")
    }
}

fn admitted() -> AdmissionGrant {
    let url = "http://127.0.0.1:8020/v1/file".to_owned();
    let download = Download { url, size: 7, sha256: [1; 32] };
    let server = "http://127.0.0.1:8020".to_owned();
    AdmissionGrant { token: "t0ken".to_owned(), download, server, others: Vec::new() }
}

/// Admits this number of agents.
fn admitting(agents: usize) -> Arc<Answers> {
    Arc::new(Answers(Mutex::new((0..agents).map(|_| Ok(admitted())).collect())))
}

fn settings() -> AgentSettings {
    AgentSettings {
        servers: vec!["https://a.example".to_owned()],
        others: OtherServers::None,
        authorities: None,
        network: NetworkPolicy::Refused,
        sandbox_require: Vec::new(),
        users: Arc::new(ProgramUsers::Shared(ProgramUser::Usual)),
    }
}

fn spec() -> Binary {
    Binary {
        artifact: ArtifactId::new(Timestamp::EPOCH, 1),
        args: Vec::new(),
        env: std::collections::BTreeMap::new(),
        files: Vec::new(),
        network: Network::None,
        limits: Limits::default(),
        grace: Span::ZERO,
    }
}

fn call(deadline: Option<Instant>) -> Call {
    let job = JobId::new(Timestamp::EPOCH, ShardId(0), 1);
    Call {
        job,
        attempt: AttemptNo(2),
        namespace: NamespaceId::DEFAULT,
        task: "".into(),
        run: Arc::new(Run::Binary(spec())),
        input: None,
        tracing_id: Some("order 17".to_owned()),
        scheduled_run: None,
        log: LogSink::new(job, AttemptNo(2), 1000, Arc::new(Silent)),
        cancel: Cancel::default(),
        deadline,
    }
}

/// Agents that are a shell script.
fn agents(folder: &std::path::Path, script: &str, answer: Result<AdmissionGrant, AdmitError>) -> Arc<Agents> {
    let workplace = Arc::new(Workplace::open(folder).unwrap());
    let args = vec!["-c".to_owned(), script.to_owned()];
    let processes = Processes::new("/bin/sh".into(), args, workplace).unwrap();
    Arc::new(Agents::new(Arc::new(processes), Arc::new(Answers(Mutex::new(vec![answer]))), settings(), 1))
}

fn failure(ended: &ExecutionEnd) -> &Failure {
    match &ended.outcome {
        Outcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_that_ends_without_a_report_is_a_failure_with_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo first >&2; pwd | wc -c >/dev/null; echo 'error: no luck' >&2; exit 3";
    let agents = agents(folder.path(), script, Ok(admitted()));
    let ended = agents.clone().execute(call(None)).await;
    let failed = failure(&ended);
    assert_eq!(failed.reason, "the agent ended without a report (exit code 3): first; error: no luck");
    assert_eq!((failed.class, failed.ran, failed.last), (FailureClass::Environment, Ran::Unknown, Last::No));
    let details = ended.details.unwrap();
    assert_eq!((details.exit_code, details.host.map(|host| host.len())), (Some(3), Some(36)));
    agents.all_ended().await;
}

#[tokio::test]
async fn an_agent_finds_its_variables_and_an_empty_folder_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let script = "[ -z \"$(ls -A)\" ] && cat /proc/self/environ | tr '\\0' '\\n' | cut -d= -f1 | grep -v PWD | sort | tr '\\n' ' ' >&2
                  echo \"at $PUNCTUAL_AGENT_DOWNLOAD_URL\" >&2";
    let ended = agents(folder.path(), script, Ok(admitted())).execute(call(None)).await;
    let said = failure(&ended).reason.clone();
    let names = "PUNCTUAL_AGENT_ATTEMPT PUNCTUAL_AGENT_DOWNLOAD_URL PUNCTUAL_AGENT_FILE_SHA256 PUNCTUAL_AGENT_FILE_SIZE \
                 PUNCTUAL_AGENT_JOB PUNCTUAL_AGENT_SERVER PUNCTUAL_AGENT_TOKEN PUNCTUAL_HOST_ID PUNCTUAL_TRACING_ID";
    let expected = format!("the agent ended without a report (exit code 0): {names} at https://a.example/v1/file");
    assert_eq!(said, expected);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.len() <= 2, "only the workplace itself and the id are left: {left:?}");
}

#[tokio::test]
async fn what_does_not_end_in_time_is_ended_with_its_environment() {
    const TIME: Duration = Duration::from_millis(500);
    for cancelled in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut agents = agents(folder.path(), "exec sleep 1000", Ok(admitted()));
        Arc::get_mut(&mut agents).unwrap().report_room = TIME;
        let call = call((!cancelled).then(|| Instant::now() + TIME));
        let cancel = call.cancel.clone();
        let begun = Instant::now();
        let execution = tokio::spawn(agents.clone().execute(call));
        if cancelled {
            tokio::time::sleep(TIME).await;
            cancel.cancel();
        }
        let ended = execution.await.unwrap();
        assert!(begun.elapsed() >= 2 * TIME, "{:?}", begun.elapsed());
        if cancelled {
            assert_eq!(ended.outcome, Outcome::Cancelled);
        } else {
            assert_eq!(failure(&ended).class, FailureClass::Timeout);
        }
        agents.all_ended().await;
    }
}

#[tokio::test]
async fn a_dropped_execution_ends_its_agent() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("witness");
    let script = format!("echo $$ > {}; exec sleep 1000", witness.display());
    let agents = agents(&folder.path().join("agents"), &script, Ok(admitted()));
    let execution = tokio::spawn(agents.clone().execute(call(None)));
    let pid = loop {
        match std::fs::read_to_string(&witness) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    execution.abort();
    let _ = execution.await;
    agents.all_ended().await;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    assert!(stat.is_err(), "{stat:?}");
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let unavailable = AdmitError::Unavailable("the shard moves".to_owned());
    let ended = agents(folder.path(), "exit 0", Err(unavailable)).execute(call(None)).await;
    let reason = "no server could admit an agent: the shard moves".to_owned();
    assert_eq!(ended.outcome, Outcome::NotStarted { reason });

    let refused = AdmitError::Refused("not yours".to_owned());
    let ended = agents(folder.path(), "exit 0", Err(refused)).execute(call(None)).await;
    assert_eq!((failure(&ended).last, failure(&ended).ran), (Last::Yes, Ran::No));

    let workplace = Arc::new(Workplace::open(folder.path()).unwrap());
    let nothing = Processes::new("/nowhere/punctual".into(), Vec::new(), workplace).unwrap();
    let ended = Arc::new(Agents::new(Arc::new(nothing), admitting(1), settings(), 1)).execute(call(None)).await;
    let Outcome::NotStarted { reason } = ended.outcome else { panic!("{:?}", ended.outcome) };
    assert!(reason.starts_with("cannot start an agent: its process cannot be started: "), "{reason}");
}

#[test]
fn a_download_is_named_as_agents_reach_it() {
    let at = |url: &str, servers: &[&str]| {
        let download = Download { url: url.to_owned(), ..admitted().download };
        let servers: Vec<String> = servers.iter().map(|server| (*server).to_owned()).collect();
        as_agents_reach_it(download, "http://127.0.0.1:8020", &servers).url
    };
    let own = "http://127.0.0.1:8020/v1/file?sig=1";
    assert_eq!(at(own, &["https://a.example", "https://b.example"]), "https://a.example/v1/file?sig=1");
    assert_eq!(at(own, &["http://127.0.0.1:8020"]), own, "they reach it as the worker does");
    let bucket = "https://s3.example/bucket/file?sig=1";
    assert_eq!(at(bucket, &["https://a.example"]), bucket, "the storage is the same for all");
    let other = "http://127.0.0.1:80201/v1/file";
    assert_eq!(at(other, &["https://a.example"]), other);
}

/// An environment that starts slowly, never ends by itself, and records what was requested.
#[derive(Clone, Default)]
struct Slow {
    notes: Arc<Mutex<Vec<&'static str>>>,
    fails_with: Option<SpawnError>,
}

impl Slow {
    fn note(&self, what: &'static str) {
        self.notes.lock().unwrap().push(what);
    }

    async fn until(&self, what: &'static str) {
        while !self.notes.lock().unwrap().contains(&what) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[async_trait]
impl Environments for Slow {
    fn name(&self, host: &HostId) -> String {
        format!("process-{host}")
    }

    async fn start(&self, _: AgentStart) -> Result<Box<dyn Environment>, StartFailure> {
        self.note("starting");
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.note("started");
        match self.fails_with.clone() {
            Some(error) => Err(StartFailure { error, remains: Some(Box::new(self.clone())) }),
            None => Ok(Box::new(self.clone())),
        }
    }

    async fn sweep(&self) -> Result<usize, SpawnError> {
        Ok(0)
    }
}

#[async_trait]
impl Environment for Slow {
    async fn ended(&mut self) -> AgentEnd {
        std::future::pending().await
    }

    async fn end(self: Box<Self>) {
        self.note("ending");
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.note("ended");
    }
}

#[tokio::test]
async fn an_execution_that_is_dropped_at_any_time_leaves_no_environment() {
    for moment in ["starting", "started"] {
        let slow = Slow::default();
        let agents = Arc::new(Agents::new(Arc::new(slow.clone()), admitting(1), settings(), 1));
        let execution = tokio::spawn(agents.clone().execute(call(None)));
        slow.until(moment).await;
        execution.abort();
        let _ = execution.await;
        agents.all_ended().await;
        assert_eq!(*slow.notes.lock().unwrap(), ["starting", "started", "ending", "ended"], "dropped when {moment}");
    }
}

#[tokio::test]
async fn a_start_without_an_answer_is_not_one_that_did_not_happen() {
    let started = async |error: SpawnError| {
        let slow = Slow { fails_with: Some(error), ..Slow::default() };
        let agents = Arc::new(Agents::new(Arc::new(slow.clone()), admitting(1), settings(), 1));
        let ended = agents.clone().execute(call(None)).await;
        agents.all_ended().await;
        assert_eq!(*slow.notes.lock().unwrap(), ["starting", "started", "ending", "ended"], "what is left is ended");
        ended
    };
    let refused = started(SpawnError::NotStarted("no space".to_owned())).await;
    assert_eq!(refused.outcome, Outcome::NotStarted { reason: "cannot start an agent: no space".to_owned() });
    let in_doubt = started(SpawnError::InDoubt("no answer".to_owned())).await;
    let failed = failure(&in_doubt);
    assert_eq!((failed.class, failed.ran, failed.last), (FailureClass::Environment, Ran::Unknown, Last::No));
}

#[tokio::test]
async fn there_are_never_more_environments_than_slots() {
    let slow = Slow::default();
    let agents = Arc::new(Agents::new(Arc::new(slow.clone()), admitting(2), settings(), 1));
    let first = tokio::spawn(agents.clone().execute(call(None)));
    slow.until("started").await;
    let waiting = call(None);
    let cancel = waiting.cancel.clone();
    let given_up = tokio::spawn(agents.clone().execute(waiting));
    let second = tokio::spawn(agents.clone().execute(call(None)));
    cancel.cancel();
    assert_eq!(given_up.await.unwrap().outcome, Outcome::Cancelled, "who waits can be cancelled");
    // Its slot is free at once, its environment later.
    first.abort();
    while slow.notes.lock().unwrap().len() < 5 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    second.abort();
    let _ = second.await;
    agents.all_ended().await;
    let one = ["starting", "started", "ending", "ended"];
    assert_eq!(*slow.notes.lock().unwrap(), [one, one].concat());
}

#[tokio::test]
async fn an_attempt_that_finds_no_room_has_not_started() {
    let slow = Slow::default();
    let mut agents = Agents::new(Arc::new(slow.clone()), admitting(1), settings(), 1);
    agents.room_limit = Duration::from_millis(50);
    let agents = Arc::new(agents);
    let first = tokio::spawn(agents.clone().execute(call(None)));
    slow.until("started").await;
    let ended = agents.execute(call(None)).await;
    let reason = "all 1 places for environments are taken by some that are not gone yet".to_owned();
    assert_eq!(ended.outcome, Outcome::NotStarted { reason });
    first.abort();
}

#[test]
fn agents_are_told_of_the_servers_that_the_worker_knows() {
    let told = |others, named: &[&str], found: &[&str]| {
        let own = |all: &[&str]| all.iter().map(|server| (*server).to_owned()).collect::<Vec<_>>();
        let settings = AgentSettings { servers: own(named), others, ..settings() };
        settings.for_agent(found[0], &own(&found[1..]))
    };
    let (gone, here, there) = ("http://127.0.0.1:1", "http://127.0.0.1:2", "https://b.example");
    assert_eq!(told(OtherServers::All, &[gone], &[here, there, gone]), [here, there, gone]);
    assert_eq!(told(OtherServers::All, &[gone], &[gone, here]), [gone, here], "none twice");
    assert_eq!(told(OtherServers::All, &[gone], &["http://10.0.0.1:1", here]), [here, gone], "tokens need TLS");
    assert_eq!(told(OtherServers::NotLoopback, &["https://a.example"], &[here, there]), [there, "https://a.example"]);
    assert_eq!(told(OtherServers::None, &["https://a.example"], &[here, there]), ["https://a.example"]);
    let many: Vec<String> = (1..300).map(|port| format!("http://127.0.0.1:{port}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let some = told(OtherServers::All, &[there], &many);
    assert_eq!((some.len(), some.last().map(String::as_str)), (SERVERS_MAX, Some(there)));
}
