//! Workers that join over TLS with a token, what they may do, and how they are cut off.

mod every_field;
mod false_servers;
pub(crate) mod guest;
pub(crate) mod held;
mod namespaces;
mod rotation;
mod strangers;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use punctual_api::JobRequest;
use punctual_client::Client;
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{JobId, Span};
use punctual_pki::{ClientTls, OwnCertificate, Trust, certificates_from_pem};

use crate::cluster::{Cluster, finished, submit};
use crate::harness::{Home, PUNCTUAL, Process, Server, eventually};

/// A server with TLS and the cluster's own authority.
struct Stage {
    home: Home,
    server: Server,
}

impl Stage {
    fn new() -> Self {
        let home = Home::new();
        let server = home.server_at("127.0.0.1:0", &["--tls", "cluster"]);
        assert!(server.url.starts_with("https://"), "{}", server.url);
        Self { home, server }
    }

    fn authority_file(&self) -> PathBuf {
        self.home.file("data").join("ca.pem")
    }

    fn client(&self) -> Client {
        client(&self.server.url, &self.authority_file(), None)
    }

    /// A command of the server's own user.
    fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(PUNCTUAL);
        command.args(args).args(["--server", &self.server.url, "--ca-file"]).arg(self.authority_file());
        command.current_dir(self.home.path()).output().expect("the command runs")
    }

    /// Makes a join token, in a file.
    fn token(&self, name: &str, flags: &[&str]) -> PathBuf {
        let made = self.command(&[&["worker", "token", "create"], flags].concat());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let file = self.home.file(name);
        write_private(&file, &made.stdout);
        file
    }

    fn worker(&self, name: &str, token: &Path, flags: &[&str]) -> Process {
        self.worker_logging(name, token, flags, Stdio::inherit())
    }

    /// A worker with folders of its own, as on another host.
    fn worker_logging(&self, name: &str, token: &Path, flags: &[&str], log: impl Into<Stdio>) -> Process {
        joining(&self.home, &self.server.url, name, token, flags).stderr(log).spawn().expect("the worker starts").into()
    }

    async fn submit(&self, queue: &str, probe: Probe) -> JobId {
        let mut spec = TaskSpec::new(Run::Probe(probe));
        spec.queue = queue.to_owned();
        submit(&self.client(), &JobRequest { inline: Some(spec), ..JobRequest::default() }).await
    }
}

fn joining(home: &Home, url: &str, name: &str, token: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(PUNCTUAL);
    command.args(["worker", "--exit-with-stdin", "--probe-effects", "--server", url, "--name", name, "--join"]);
    command.arg(token).args(["--spool-dir".as_ref(), home.file(&format!("{name}-spool")).as_os_str()]).args(flags);
    command.env("PUNCTUAL_IDENTITY_DIR", home.file(&format!("{name}-identity")));
    command.env("PUNCTUAL_SANDBOX_REQUIRE", "none").current_dir(home.path()).stdin(Stdio::piped());
    command
}

fn write_private(file: &Path, content: &[u8]) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).expect("a new file");
    file.write_all(content).expect("it is written");
}

/// A client of the REST interface, with a certificate or without.
fn client(url: &str, authority: &Path, own: Option<OwnCertificate>) -> Client {
    let authorities =
        certificates_from_pem(&std::fs::read(authority).expect("the authority's file")).expect("it is PEM");
    let tls = ClientTls::new(&Trust::Roots(authorities), own, &[b"http/1.1"]).expect("a configuration");
    let client = Client::new(url).expect("the address is a URL");
    client.with_tls((*tls.config()).clone()).expect("it can be used")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_joins_over_tls_and_runs_what_its_token_says() {
    let stage = Stage::new();
    let token = stage.token("join.token", &["--queues", "images", "--kinds", "probe", "--labels", "gpu=true"]);
    let worker = stage.worker("w1", &token, &["--queues", "images,default", "--labels", "gpu=false,vault=true"]);
    let client = stage.client();
    eventually("the worker connects", || async { client.stats().await.is_ok_and(|stats| stats.workers == 1) }).await;
    let workers = client.workers().await.expect("workers are listed").workers;
    assert_eq!(workers[0].queues, ["images"], "the token does not permit the other");
    assert_eq!(workers[0].capabilities, ["probe"]);
    assert_eq!(workers[0].labels.iter().collect::<Vec<_>>(), [(&"gpu".to_owned(), &"true".to_owned())]);
    let elsewhere = stage.submit("default", Probe::default()).await;
    let here = stage.submit("images", Probe::default()).await;
    assert_eq!(finished(&client, here).await.state, "succeeded");
    assert_eq!(client.job(elsewhere).await.expect("it is there").state, "scheduled", "nobody may run it");
    let identity = stage.home.file("w1-identity").join("identity.json");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&identity).expect("its identity is kept"));
    assert_eq!(mode & 0o777, 0o600);

    // A later start needs the folder alone: the token is used up.
    worker.stop();
    std::fs::remove_file(&token).expect("it is there");
    let mut later = Command::new(PUNCTUAL);
    later.args(["worker", "--exit-with-stdin", "--probe-effects", "--server", &stage.server.url, "--spool-dir"]);
    later.arg(stage.home.file("w1-spool")).env("PUNCTUAL_IDENTITY_DIR", stage.home.file("w1-identity"));
    later.env("PUNCTUAL_SANDBOX_REQUIRE", "none").current_dir(stage.home.path()).stdin(Stdio::piped());
    let _worker: Process = later.spawn().expect("the worker starts").into();
    let next = stage.submit("images", Probe::default()).await;
    assert_eq!(finished(&client, next).await.state, "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_admits_no_more_workers_than_it_has_uses_and_none_after_its_end() {
    let stage = Stage::new();
    let token = stage.token("join.token", &["--queues", "q", "--kinds", "probe"]);
    let _first = stage.worker("w1", &token, &[]);
    let client = stage.client();
    eventually("the worker connects", || async { client.stats().await.is_ok_and(|stats| stats.workers == 1) }).await;
    let refused = |name: &str, token: &Path| {
        let mut worker = joining(&stage.home, &stage.server.url, name, token, &[]);
        let mut worker = worker.stderr(Stdio::piped()).spawn().expect("the worker starts");
        // Or it would end for want of it.
        let _stdin = worker.stdin.take();
        let output = worker.wait_with_output().expect("the worker ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = refused("w2", &token);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("as many workers as it admits have joined"), "{said}");

    let deleted = stage.token("deleted.token", &["--queues", "q", "--kinds", "probe"]);
    let list = client.worker_tokens().await.expect("tokens are listed").tokens;
    assert_eq!(list.iter().map(|token| token.state.as_str()).collect::<Vec<_>>(), ["used_up", "active"]);
    client.delete_worker_token(list[1].id).await.expect("it is deleted");
    let (code, said) = refused("w3", &deleted);
    assert!(code == Some(4) && said.contains("the join token was deleted"), "{said}");

    // Nothing that is shown or stored has the secret.
    let text = std::fs::read_to_string(&token).expect("the token");
    let secret = text.trim().split('_').nth(3).expect("its secret").to_owned();
    assert_eq!(secret.len(), 64);
    let shown = stage.command(&["worker", "token", "list", "-o", "json"]);
    assert!(shown.status.success() && !String::from_utf8_lossy(&shown.stdout).contains(&secret));
    assert!(!said.contains(&secret));
    let bytes = std::fs::read(stage.home.file("data").join("punctual.db")).expect("the database");
    assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_worker_is_cut_off_within_seconds_and_its_attempts_go_elsewhere() {
    let cluster = Cluster::new();
    let server = cluster.server(&["--tls", "cluster"]);
    let other = cluster.server(&["--tls", "cluster"]);
    let stage = Stage { home: cluster.home, server };
    let client = stage.client();
    crate::cluster::balanced(&client, 2).await;
    let token = stage.token("join.token", &["--queues", "q", "--kinds", "probe", "--uses", "2"]);
    let _first = stage.worker("w1", &token, &[]);
    let witness = stage.home.file("witness").to_str().expect("UTF-8").to_owned();
    // Jobs of shards of both servers.
    let probe = Probe { sleep: Span::from_secs(600), witness: Some(witness), ..Probe::default() };
    let mut jobs = Vec::new();
    for _ in 0..8 {
        jobs.push(stage.submit("q", probe.clone()).await);
    }
    let running = async |attempt: u32| {
        let mut count = 0;
        for job in &jobs {
            let job = client.job(*job).await.expect("it is there");
            count +=
                usize::from(job.state == "running" && job.attempts.last().is_some_and(|last| last.attempt == attempt));
        }
        count
    };
    eventually("all run on the first worker", || async { running(1).await == jobs.len() }).await;
    let _second = stage.worker("w2", &token, &[]);
    let list = async || client.enrolments(&Default::default()).await.expect("they are listed").enrolments;
    eventually("the second worker joins", || async { list().await.len() == 2 }).await;
    let enrolments = list().await;
    let first = enrolments.iter().find(|enrolment| enrolment.name == "w1").expect("it joined");
    // At the other server, so that each of them hears of it once from the database.
    let at_other = crate::enrolment::client(&other.url, &stage.authority_file(), None);
    let revoked_at = Instant::now();
    at_other.revoke_worker(first.id).await.expect("it is revoked");
    eventually("the first worker is not connected", || async {
        let workers = client.workers().await.expect("workers are listed").workers;
        !workers.iter().any(|worker| worker.name == "w1" && !worker.is_gone())
    })
    .await;
    assert!(revoked_at.elapsed() < Duration::from_secs(5), "it took {:?}", revoked_at.elapsed());
    // A retry after the loss of a worker waits about a second.
    eventually("all run on the second worker", || async { running(2).await == jobs.len() }).await;
    assert!(revoked_at.elapsed() < Duration::from_secs(10), "it took {:?}", revoked_at.elapsed());
    let states: Vec<_> = list().await.into_iter().map(|enrolment| (enrolment.name, enrolment.state)).collect();
    assert!(states.contains(&("w1".to_owned(), "revoked".to_owned())), "{states:?}");
    let lost = client.job(jobs[0]).await.expect("it is there");
    let reason = lost.attempts.first().and_then(|first| first.reason.clone()).unwrap_or_default();
    assert_eq!(reason, "the worker was revoked, or its certificate expired");
    // Each worker connected to both servers at once, and joined at one of them.
    let audit = stage.command(&["audit", "list", "-o", "jsonl"]);
    let audit = String::from_utf8_lossy(&audit.stdout);
    assert!(audit.contains("join_worker") && !audit.contains("worker_not_enrolled"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_worker_joins_again_with_another_token() {
    let stage = Stage::new();
    let token = stage.token("join.token", &["--queues", "q", "--kinds", "probe"]);
    let worker = stage.worker("w1", &token, &[]);
    let client = stage.client();
    let connected = async || client.stats().await.is_ok_and(|stats| stats.workers == 1);
    eventually("the worker connects", connected).await;
    let list = async || client.enrolments(&Default::default()).await.expect("they are listed").enrolments;
    client.revoke_worker(list().await[0].id).await.expect("it is revoked");
    eventually("it is cut off", async || client.stats().await.is_ok_and(|stats| stats.workers == 0)).await;
    worker.stop();
    let next = stage.token("next.token", &["--queues", "q", "--kinds", "probe"]);
    let log = stage.home.file("worker.log");
    let worker = stage.worker_logging("w1", &next, &[], std::fs::File::create(&log).expect("a log"));
    eventually("the worker connects again", connected).await;
    let said = std::fs::read_to_string(&log).expect("a log");
    assert!(said.contains("the enrolment has ended; joining with the token"), "{said}");
    assert_eq!(list().await.len(), 2);
    worker.stop();
    // With the same token it is the same worker: a token of one use is not used up by a later start.
    let _worker = stage.worker("w1", &next, &[]);
    eventually("the worker connects once more", connected).await;
    assert_eq!(list().await.len(), 2);
}
