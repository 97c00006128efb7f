//! Containers against an engine that a test tells what to answer. The real one is met in the tests
//! of the whole program.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use punctual_agent::{
    AgentEnd, AgentStart, ContainerEngine, ContainerEngineError, ContainerSettings, Containers, Environments, HostId,
    SpawnError, Workplace,
};
use punctual_core::attempt::AttemptNo;
use punctual_core::id::JobId;
use punctual_core::run::Limits;
use punctual_core::{ShardId, Timestamp};
use serde_json::{Value, json};

#[derive(Default)]
struct Script {
    create: Option<(u16, &'static str)>,
    /// The engine ends the connection instead of an answer to this.
    breaks_at: Option<&'static str>,
    /// So many removals are refused, and so many find nothing.
    stuck: u32,
    absent: u32,
    listed: Value,
    asked: Vec<String>,
}

type Shared = Arc<Mutex<Script>>;

/// Answers as Docker does, and keeps what it was asked.
async fn answer(State(script): State<Shared>, request: Request) -> (StatusCode, Vec<u8>) {
    let breaks_at = script.lock().unwrap().breaks_at;
    assert!(!breaks_at.is_some_and(|end| request.uri().path().ends_with(end)), "so the connection ends");
    let mut script = script.lock().unwrap();
    let path = request.uri().path().strip_prefix("/v1.41").expect("a version").to_owned();
    script.asked.push(format!("{} {path}", request.method()));
    let ok = |body: Value| (StatusCode::OK, body.to_string().into_bytes());
    match path.rsplit('/').next().unwrap() {
        "_ping" => (StatusCode::OK, b"OK".to_vec()),
        "version" => ok(json!({ "Components": [{ "Name": "Engine" }] })),
        "json" if path.starts_with("/images/") && !path.contains("missing") => ok(json!({})),
        "json" if path == "/containers/json" => ok(script.listed.clone()),
        "create" => match script.create {
            Some((status, body)) => (StatusCode::from_u16(status).unwrap(), body.as_bytes().to_vec()),
            None => (StatusCode::CREATED, json!({ "Id": "1" }).to_string().into_bytes()),
        },
        "start" => (StatusCode::NO_CONTENT, Vec::new()),
        "wait" => ok(json!({ "StatusCode": 3 })),
        "logs" => (StatusCode::OK, b"\x02\0\0\0\0\0\0\x0berror: lost".to_vec()),
        _ if request.method() == "DELETE" && script.stuck > 0 => {
            script.stuck -= 1;
            (StatusCode::INTERNAL_SERVER_ERROR, Vec::new())
        }
        _ if request.method() == "DELETE" && script.absent > 0 => {
            script.absent -= 1;
            (StatusCode::NOT_FOUND, Vec::new())
        }
        _ if request.method() == "DELETE" => (StatusCode::NO_CONTENT, Vec::new()),
        _ => (StatusCode::NOT_FOUND, json!({ "message": "no such thing" }).to_string().into_bytes()),
    }
}

struct World {
    engine: ContainerEngine,
    script: Shared,
    workplace: Arc<Workplace>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let script = Shared::default();
        let routes = Router::new().fallback(answer).with_state(script.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        let workplace = Arc::new(Workplace::open(&folder.path().join("agents")).unwrap());
        Self { engine: ContainerEngine::new(socket), script, workplace, _folder: folder }
    }

    async fn containers(&self, image: &str) -> Result<Containers, ContainerEngineError> {
        let settings =
            ContainerSettings { image: image.to_owned(), network: "host".to_owned(), worker: "w".to_owned() };
        Containers::open(self.engine.clone(), settings, self.workplace.clone()).await
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.script.lock().unwrap().asked)
    }
}

fn agent() -> AgentStart {
    AgentStart {
        host: HostId::parse("h").unwrap(),
        job: JobId::new(Timestamp::EPOCH, ShardId(0), 1),
        attempt: AttemptNo(1),
        variables: Vec::new(),
        limits: Limits::default(),
        program_bytes: 1,
    }
}

#[tokio::test]
async fn a_container_is_made_started_awaited_and_removed() {
    let world = World::new();
    let containers = world.containers("image").await.unwrap();
    world.asked();
    let mut environment = containers.start(agent()).await.ok().expect("it starts");
    let end = environment.ended().await;
    assert_eq!(end, AgentEnd { exit_code: Some(3), signal: None, last_words: "error: lost".to_owned() });
    environment.end().await;
    let container = "/containers/punctual-h";
    assert_eq!(
        world.asked(),
        [
            "POST /containers/create".to_owned(),
            format!("POST {container}/start"),
            format!("POST {container}/wait"),
            format!("GET {container}/logs"),
            format!("DELETE {container}"),
        ]
    );
}

#[tokio::test]
async fn what_could_not_be_started_leaves_nothing_and_says_why() {
    let world = World::new();
    let containers = world.containers("image").await.unwrap();
    world.asked();
    world.script.lock().unwrap().create = Some((500, r#"{"message":"no space left on device"}"#));
    let Err(unstarted) = containers.start(agent()).await else { panic!("it was refused") };
    let error = unstarted.error.to_string();
    assert_eq!(error, "cannot start an agent: the container engine refused: no space left on device");
    unstarted.remains.expect("it is looked at once").end().await;
    assert_eq!(world.asked(), ["POST /containers/create", "DELETE /containers/punctual-h"]);
    let missing = world.containers("missing").await.err().unwrap();
    assert_eq!(missing.to_string(), "there is no such thing: the image missing");
}

#[tokio::test]
async fn an_engine_that_does_not_answer_may_have_started_a_container_and_may_still_make_one() {
    let world = World::new();
    let containers = world.containers("image").await.unwrap();
    world.script.lock().unwrap().breaks_at = Some("start");
    let Err(unstarted) = containers.start(agent()).await else { panic!("there was no answer") };
    assert!(matches!(unstarted.error, SpawnError::InDoubt(_)), "{}", unstarted.error);
    unstarted.remains.expect("what may run").end().await;

    world.script.lock().unwrap().breaks_at = Some("create");
    world.script.lock().unwrap().absent = 1;
    let Err(unstarted) = containers.start(agent()).await else { panic!("there was no answer") };
    assert!(matches!(unstarted.error, SpawnError::NotStarted(_)), "{}", unstarted.error);
    world.asked();
    unstarted.remains.expect("what may come to be").end().await;
    let container = "DELETE /containers/punctual-h";
    assert_eq!(world.asked(), [container, container], "it is removed when it appears");
}

#[tokio::test]
async fn a_container_is_removed_as_soon_as_the_engine_can() {
    let world = World::new();
    let environment = world.containers("image").await.unwrap().start(agent()).await.ok().unwrap();
    world.script.lock().unwrap().stuck = 2;
    world.asked();
    environment.end().await;
    assert_eq!(world.asked(), ["DELETE /containers/punctual-h"; 3]);
}

#[tokio::test]
async fn only_what_belongs_to_nobody_is_swept() {
    let world = World::new();
    let living = Workplace::open(world.workplace.all()).unwrap();
    let dead = HostId::random().unwrap().to_string();
    let place = world.workplace.id().to_owned();
    let left =
        |id: &str, run: &str| json!({ "Id": id, "Labels": { "punctual.run": run, "punctual.workplace": place } });
    world.script.lock().unwrap().listed = json!([
        left("own", world.workplace.run()),
        left("neighbours", living.run()),
        left("orphan", &dead),
        { "Id": "strange", "Labels": { "punctual.workplace": place } },
        { "Id": "elsewhere", "Labels": { "punctual.run": dead, "punctual.workplace": "another" } },
    ]);
    let containers = world.containers("image").await.unwrap();
    assert_eq!(containers.sweep().await, Ok(1));
    let removed: Vec<String> = world.asked().into_iter().filter(|asked| asked.starts_with("DELETE")).collect();
    assert_eq!(removed, ["DELETE /containers/orphan"]);
}
