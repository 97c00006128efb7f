//! The cluster's secret is replaced while servers run.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_api::{ClusterSecretStage, ClusterSecretView, JobRequest, RotateClusterSecret};
use punctual_client::Client;
use punctual_core::task::Probe;
use punctual_core::{JobId, Span};
use reqwest::Method;
use serde_json::json;

use crate::agent_tokens::{self, ask, path, succeeded};
use crate::artifacts::{binary, declaration, program};
use crate::checked::{Checked, plain_http};
use crate::cluster::{Cluster, balanced, finished, probe, submit};
use crate::harness::{Home, PUNCTUAL, Server, eventually};

/// The former secret goes as soon as no attempt needs it.
const AT_ONCE: RotateClusterSecret = RotateClusterSecret { overlap: Some(Span::ZERO) };

async fn view(client: &Client) -> ClusterSecretView {
    client.cluster_secret().await.expect("the cluster's secret is shown")
}

async fn reaches(client: &Client, stage: ClusterSecretStage) {
    eventually("the rotation goes on", || async { view(client).await.stage == stage }).await;
}

fn token(home: &Home) -> String {
    std::fs::read_to_string(home.file("data/token")).expect("the access token").trim().to_owned()
}

fn command(home: &Home, server: &Server, args: &[&str]) -> Output {
    let mut command = Command::new(PUNCTUAL);
    command.args(args).args(["--server", &server.url]).current_dir(home.path()).output().expect("the command runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The answer to a request with an access token.
async fn with_token(server: &Server, token: &str) -> u16 {
    let request = plain_http().get(format!("{}/v1/whoami", server.url)).bearer_auth(token);
    request.send().await.expect("an answer").status().as_u16()
}

async fn upload(url: &str, bytes: Vec<u8>) -> u16 {
    plain_http().put(url).body(bytes).send().await.expect("an answer").status().as_u16()
}

/// Clients that submit and read until they are told to stop. A request that fails is not repeated, and fails the test.
struct Load {
    jobs: Arc<Mutex<Vec<JobId>>>,
    answers: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(servers: &[Server], request: &JobRequest) -> Self {
        let (jobs, answers, stop) = (Arc::<Mutex<Vec<JobId>>>::default(), Arc::default(), Arc::default());
        let mut load = Self { jobs, answers, stop, clients: Vec::new() };
        for (from, to) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
            // What one server stores is read from the other.
            let [from, to] = [from, to].map(|place: usize| servers[place].client().with_repeat_budget(Duration::ZERO));
            let (jobs, answers, stop) = (Arc::clone(&load.jobs), Arc::clone(&load.answers), Arc::clone(&load.stop));
            let request = request.clone();
            load.clients.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let id = from.submit(&request).await.expect("no submission fails").id;
                    to.job(id).await.expect("no request fails");
                    jobs.lock().expect("no panic").push(id);
                    answers.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }));
        }
        load
    }

    async fn goes_on(&self, what: &str) {
        let before = self.answers.load(Ordering::Relaxed);
        eventually(what, || async { self.answers.load(Ordering::Relaxed) >= before + 20 }).await;
    }

    async fn end(self) -> Vec<JobId> {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.expect("no request failed");
        }
        std::mem::take(&mut *self.jobs.lock().expect("no panic"))
    }
}

/// How often each job began, by the witness that the jobs write themselves.
fn begun(witness: &std::path::Path) -> BTreeMap<String, usize> {
    let mut begun = BTreeMap::new();
    for line in std::fs::read_to_string(witness).expect("the witness").lines().filter(|line| line.contains("begin")) {
        let job = line.split_whitespace().find(|word| word.starts_with("job_")).expect("the line names a job");
        *begun.entry(job.to_owned()).or_default() += 1;
    }
    begun
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_secret_is_replaced_under_load_and_what_the_former_one_signed_counts_until_its_attempts_end() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let home = &cluster.home;
    let client = servers[0].client();
    let (first, first_token) = (view(&client).await, token(home));
    assert_eq!((first.stage, &first.next, &first.former), (ClusterSecretStage::Settled, &None, &None));
    let verified = said(&command(home, &servers[0], &["audit", "verify", "-o", "json"]));
    let audit_key = verified.split('"').find(|word| word.len() == 64).map(str::to_owned);

    // Agents that were admitted before, on jobs of both servers.
    let api = Checked::new(&servers[0]).await;
    let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
    let (mut admitted, _agents) = agent_tokens::worker(&api, &urls).await;
    let bytes = program(5_000, 1);
    let declared = api.post("/v1/artifacts", declaration(&bytes)).await.expect(201);
    assert_eq!(upload(declared.str("/upload/url"), bytes).await, 200);
    let mut agents = Vec::new();
    for server in &servers {
        Checked::new(server).await.submit(json!({ "inline": binary(declared.str("/id")) })).await;
        agents.push(admitted.recv().await.expect("it is given out"));
    }
    // Uploads that were permitted before, one of which comes too late.
    let mut uploads = Vec::new();
    for salt in 2..5 {
        let bytes = program(5_000, salt);
        let declared = api.post("/v1/artifacts", declaration(&bytes)).await.expect(201);
        uploads.push((declared.str("/upload/url").to_owned(), bytes));
    }
    // Attempts that run over the whole rotation, and short ones.
    let _worker = home.worker(&servers[0], &["--slots", "32"]);
    let witness = home.file("witness");
    let witnessed = |sleep| {
        let witness = Some(witness.to_str().expect("UTF-8").to_owned());
        probe(Probe { sleep, witness, ..Probe::default() })
    };
    let mut jobs = Vec::new();
    for server in &servers {
        for _ in 0..2 {
            jobs.push(submit(&server.client(), &witnessed(Span::from_secs(30))).await);
        }
    }
    eventually("they run", || async {
        let mut running = 0;
        for job in &jobs {
            running += usize::from(client.job(*job).await.is_ok_and(|job| job.state == "running"));
        }
        running == jobs.len()
    })
    .await;
    let load = Load::start(&servers, &witnessed(Span::ZERO));
    load.goes_on("jobs are submitted").await;

    let announced = client.rotate_cluster_secret(&AT_ONCE).await.expect("the rotation begins");
    assert_eq!((announced.stage, &announced.id), (ClusterSecretStage::Announced, &first.id));
    let next = announced.next.expect("the next secret").id;
    let again = servers[1].client().rotate_cluster_secret(&AT_ONCE).await.expect_err("one is under way");
    assert_eq!(again.kind().map(|kind| kind.code()), Some("cluster_secret_refused"));
    for server in &servers {
        reaches(&server.client(), ClusterSecretStage::Signing).await;
    }
    load.goes_on("all servers sign with the new secret").await;
    let signing = view(&servers[1].client()).await;
    assert_eq!((&signing.id, signing.former.map(|former| former.id)), (&next, Some(first.id.clone())));
    let doctor = said(&command(home, &servers[0], &["doctor"]));
    assert!(doctor.contains("a rotation is in progress"), "{doctor}");

    eventually("the access token is written anew", || async { token(home) != first_token }).await;
    for server in &servers {
        assert_eq!((with_token(server, &first_token).await, with_token(server, &token(home)).await), (200, 200));
    }
    for (place, (url, bytes)) in uploads.iter().take(2).enumerate() {
        // At the server that signed it, and at the other.
        let url = url.replace(&servers[0].url, &servers[place].url);
        assert_eq!(upload(&url, bytes.clone()).await, 200, "the URL was signed before");
    }
    for (place, agent) in agents.iter_mut().enumerate() {
        let (job, bearer) = (agent.job, Some(agent.admitted.token.as_str()));
        let url = &servers[1 - place].url;
        ask(url, Method::POST, &path(job, 1, "/heartbeat"), bearer, vec![]).await.expect(200);
        ask(url, Method::POST, &path(job, 1, "/logs?offset=0"), bearer, b"hi".to_vec()).await.expect(204);
        ask(url, Method::POST, &path(job, 1, "/outcome"), bearer, succeeded(job, 1)).await.expect(204);
        assert!(agent.held.recv().await.is_none());
        assert_eq!(api.finished(&job.to_string()).await.str("/state"), "succeeded");
    }
    let held = client.job(jobs[0]).await.expect("it is there");
    assert_eq!(held.state, "running", "it holds the former secret");
    assert_eq!(view(&client).await.stage, ClusterSecretStage::Signing);

    // Their outcomes come with tokens of the former secret.
    for job in &jobs {
        let job = finished(&client, *job).await;
        assert_eq!((job.state.as_str(), job.attempts.len()), ("succeeded", 1), "{job:?}");
    }
    for server in &servers {
        reaches(&server.client(), ClusterSecretStage::Settled).await;
        let settled = view(&server.client()).await;
        assert_eq!((&settled.id, settled.former, settled.next), (&next, None, None));
        assert_eq!((with_token(server, &first_token).await, with_token(server, &token(home)).await), (401, 200));
    }
    load.goes_on("the former secret is gone").await;
    let (late, bytes) = &uploads[2];
    assert_eq!(upload(late, bytes.clone()).await, 403, "its signature is that of the former secret");

    jobs.extend(load.end().await);
    for id in &jobs {
        let job = finished(&client, *id).await;
        assert_eq!((job.state.as_str(), job.attempts.len()), ("succeeded", 1), "{job:?}");
    }
    let begun = begun(&witness);
    assert_eq!(begun.len(), jobs.len(), "no job is lost");
    assert!(begun.values().all(|count| *count == 1), "no job ran twice: {begun:?}");

    let key = audit_key.expect("the key that was noted before");
    let verified = command(home, &servers[0], &["audit", "verify", "--key", &key]);
    assert!(
        verified.status.success(),
        "the lines lead from the key that was noted to the new one: {}",
        said(&verified)
    );
    let lines = said(&command(home, &servers[0], &["audit", "list", "-o", "json"]));
    for action in ["rotate_cluster_secret", "rotate_audit_key", "sign_with_cluster_secret", "drop_cluster_secret"] {
        assert!(lines.contains(action), "{action}: {lines}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_that_are_killed_or_start_in_any_stage_change_nothing() {
    let cluster = Cluster::new();
    let [first, second] = cluster.pair().await;
    let _worker = cluster.worker(&first);
    let client = first.client();
    let slow = submit(&client, &probe(Probe { sleep: Span::from_secs(20), ..Probe::default() })).await;
    eventually("it runs", || async { client.job(slow).await.is_ok_and(|job| job.state == "running") }).await;
    let before = view(&client).await.id;

    // Killed before it could confirm, more often than not.
    let next = client.rotate_cluster_secret(&AT_ONCE).await.expect("it begins").next.expect("the next secret").id;
    second.kill();
    let third = cluster.server(&[]);
    assert_eq!(finished(&client, submit(&third.client(), &probe(Probe::default())).await).await.state, "succeeded");
    reaches(&third.client(), ClusterSecretStage::Signing).await;
    // The one that began it goes, and may have been the one that moves it on.
    drop(client);
    first.kill();
    let fourth = cluster.server(&[]);
    balanced(&third.client(), 2).await;
    let signing = view(&fourth.client()).await;
    assert_eq!((signing.id, signing.former.map(|former| former.id)), (next.clone(), Some(before)));
    assert_eq!(
        finished(&third.client(), submit(&fourth.client(), &probe(Probe::default())).await).await.state,
        "succeeded"
    );

    let slow = finished(&fourth.client(), slow).await;
    assert_eq!((slow.state.as_str(), slow.attempts.len()), ("succeeded", 1), "{slow:?}");
    for server in [&third, &fourth] {
        reaches(&server.client(), ClusterSecretStage::Settled).await;
        assert_eq!(view(&server.client()).await.id, next);
    }
    // One that starts now has never known the former secret.
    let fifth = cluster.server(&[]);
    balanced(&fifth.client(), 3).await;
    assert_eq!(
        finished(&third.client(), submit(&fifth.client(), &probe(Probe::default())).await).await.state,
        "succeeded"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_former_secret_is_dropped_on_command() {
    let home = Home::new();
    let server = home.server();
    let first_token = token(&home);
    let early = command(&home, &server, &["cluster-secret", "retire"]);
    assert!(!early.status.success() && said(&early).contains("there is no former secret"), "{}", said(&early));
    let begun = command(&home, &server, &["cluster-secret", "rotate", "--overlap", "7d"]);
    assert!(begun.status.success(), "{}", said(&begun));
    let client = server.client();
    reaches(&client, ClusterSecretStage::Signing).await;
    let shown = said(&command(&home, &server, &["cluster-secret", "show"]));
    assert!(shown.contains("stage  signing") && shown.contains("accepted until"), "{shown}");
    assert!(!shown.contains(&first_token["punctual_".len()..]) && !shown.contains(&token(&home)["punctual_".len()..]));
    assert_eq!(with_token(&server, &first_token).await, 200);
    let retired = command(&home, &server, &["cluster-secret", "retire"]);
    assert!(retired.status.success() && said(&retired).contains("settled"), "{}", said(&retired));
    assert_eq!(with_token(&server, &first_token).await, 401);
    let address = server.address();
    server.process.stop();
    let server = home.server_at(&address, &[]);
    assert_eq!(with_token(&server, &token(&home)).await, 200);
}
