//! Everything that proves who somebody is, or seals what is stored, is replaced on two servers while jobs are submitted and run,
//! and while attempts, agents and signed URLs from before are in use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use punctual_api::{
    ClusterSecretStage, DataKeyQuery, JobRequest, KeyRequest, RotateAuthority, RotateClusterSecret, RotateRequest,
};
use punctual_client::Client;
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{JobId, Span};
use punctual_pki::{ClientTls, LeafKey, Trust};
use punctual_proto::worker as wire;
use punctual_proto::worker::enrolment_client::EnrolmentClient;

use super::guest::{channel, join, own, read_token};
use super::held::Holder;
use super::{Stage, finished};
use crate::agent_tokens::{path, succeeded};
use crate::artifacts::{binary, declaration, program};
use crate::cluster::{Cluster, balanced};
use crate::harness::eventually;
use crate::tls::renewal::{Files, serial_shown};

/// What the clients share: the credential changes under them.
#[derive(Clone)]
struct Load {
    /// One for each server.
    clients: Arc<RwLock<[Client; 2]>>,
    jobs: Arc<Mutex<Vec<JobId>>>,
    answers: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Load {
    fn clients(&self) -> [Client; 2] {
        self.clients.read().expect("no panic").clone()
    }

    /// Submits at one server and reads from another until it is told to stop. A request that fails is not repeated, and fails the
    /// test.
    async fn run(self, request: JobRequest, from: usize, to: usize) {
        while !self.stop.load(Ordering::Relaxed) {
            let clients = self.clients();
            let id = clients[from].submit(&request).await.expect("no submission fails").id;
            clients[to].job(id).await.expect("no request fails");
            self.jobs.lock().expect("no panic").push(id);
            self.answers.fetch_add(1, Ordering::Relaxed);
            // Some two hundred jobs a second: more would only measure this machine.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until work went on after what was just done.
    async fn goes_on(&self, what: &str) {
        let before = self.answers.load(Ordering::Relaxed);
        eventually(what, || async { self.answers.load(Ordering::Relaxed) >= before + 20 }).await;
    }
}

fn with_key(url: &str, trust: &Trust, key: &str) -> Client {
    let tls = ClientTls::new(trust, None, &[b"http/1.1"]).expect("a configuration");
    let client = Client::new(url).expect("the address is a URL");
    let key = key.to_owned();
    let client = client.with_tls((*tls.config()).clone()).expect("it can be used");
    client.with_tokens(move |_| Some(key.clone())).with_repeat_budget(Duration::ZERO)
}

/// A worker that gets another certificate again and again, each over the one before.
async fn renews(url: String, trust: Trust, mut certificate: punctual_pki::OwnCertificate, load: Load) -> usize {
    let mut renewed = 0;
    while !load.stop.load(Ordering::Relaxed) {
        let tls = ClientTls::new(&trust, Some(certificate), &[b"h2"]).expect("a configuration");
        let mut client = EnrolmentClient::new(channel(&url, tls).await.expect("the certificate counts"));
        let key = LeafKey::generate().expect("a key");
        let request = wire::RenewRequest { public_key: key.public_key().into() };
        let issued = client.renew(request).await.expect("no renewal fails").into_inner();
        certificate = own(&issued, &key);
        renewed += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    renewed
}

/// A client without a credential, for agents and signed URLs.
fn plain(trust: &Trust) -> reqwest::Client {
    let tls = ClientTls::new(trust, None, &[b"http/1.1"]).expect("a configuration");
    let client = reqwest::Client::builder().no_proxy().tls_backend_preconfigured((*tls.config()).clone());
    client.build().expect("a client")
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
async fn every_key_and_certificate_is_replaced_under_load_and_nothing_fails() {
    let files = Files::new();
    let cluster = Cluster::new();
    let file = |name: &str| files.home.file(name).to_str().expect("UTF-8").to_owned();
    let (cert, key_file) = (file("cert"), file("key"));
    let flags = ["--tls", "files", "--tls-cert", &cert, "--tls-key", &key_file];
    let (server, other) = (cluster.server(&flags), cluster.server(&flags));
    let urls = [server.url.clone(), other.url.clone()];
    let files_trust = files.trust();
    let stage = Stage { home: cluster.home, server };
    let token = std::fs::read_to_string(stage.home.file("data/token")).expect("the access token");
    let by_token = with_key(&urls[0], &files_trust, token.trim());
    let key_of = async |name: &str| {
        let request = KeyRequest { name: name.to_owned(), role: Some("admin".to_owned()), ..KeyRequest::default() };
        by_token.create_key(&request).await.expect("a key").secret.0
    };
    let admin_key = key_of("admin").await;
    let admins = [0, 1].map(|place: usize| with_key(&urls[place], &files_trust, &admin_key));
    let admin = &admins[0];
    balanced(admin, 2).await;
    admin.put_secret("planted", b"a planted value".to_vec()).await.expect("a secret");
    let key = key_of("load").await;

    // One worker is the real program; another one only renews its certificate, and two hold attempts.
    let token_for = async |queue: &str, kinds: &[&str]| {
        let request = punctual_api::WorkerTokenRequest {
            queues: vec![queue.to_owned()],
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            uses: Some(2),
            ..Default::default()
        };
        admin.create_worker_token(&request).await.expect("a token").token
    };
    let token_file = stage.home.file("join.token");
    super::write_private(&token_file, token_for("q", &["probe"]).await.as_bytes());
    let _worker = stage.worker("w1", &token_file, &["--slots", "32"]);
    let token = read_token(&token_file);
    let leaf = LeafKey::generate().expect("a key");
    let issued = join(&urls[0], &token, &leaf).await.expect("it joins");

    let held_token = token_for("held", &["probe", "binary"]).await.parse().expect("a join token");
    let plain = plain(&files_trust);
    let upload = async |url: &str, bytes: Vec<u8>| {
        let answer = plain.put(url).body(bytes).send().await.expect("no request fails");
        assert_eq!(answer.status().as_u16(), 200, "{url}");
    };
    let declare = async |salt: u8| {
        let bytes = program(5_000, salt);
        let request = serde_json::from_value(declaration(&bytes)).expect("a request");
        (admin.create_artifact(&request).await.expect("an artifact"), bytes)
    };
    let url_of =
        |artifact: &punctual_api::ArtifactView| artifact.upload.as_ref().expect("it is to be uploaded").url.clone();
    let (artifact, bytes) = declare(1).await;
    upload(&url_of(&artifact), bytes).await;
    let uploads = [declare(2).await, declare(3).await].map(|(artifact, bytes)| (url_of(&artifact), bytes));
    let (mut holders, mut held, mut agents) = (Vec::new(), Vec::new(), Vec::new());
    for (url, admin) in urls.iter().zip(&admins) {
        let mut holder = Holder::join(url, &held_token, "held").await;
        let mut probe = TaskSpec::new(Run::Probe(Probe::default()));
        probe.queue = "held".to_owned();
        admin.submit(&JobRequest { inline: Some(probe), ..JobRequest::default() }).await.expect("a job");
        held.extend(holder.assigned(1).await);
        let mut spec = binary(&artifact.id.to_string());
        spec["queue"] = "held".into();
        admin.submit(&serde_json::json!({ "inline": spec })).await.expect("a job");
        let attempt = holder.assigned(1).await.remove(0);
        let token = holder.admit(&attempt, &artifact.id.to_bytes()).await;
        agents.push((attempt.job, token));
        holders.push(holder);
    }
    let alive = async || {
        for (place, (job, token)) in agents.iter().enumerate() {
            // At the server that does not own the job.
            let url = format!("{}{}", urls[1 - place], path(*job, 1, "/heartbeat"));
            let answer = plain.post(url).bearer_auth(token).send().await.expect("no request fails");
            assert_eq!(answer.status().as_u16(), 200);
        }
    };

    let witness = stage.home.file("witness");
    let probe = Probe {
        output: Some("{{ secret.planted }}".to_owned()),
        witness: Some(witness.to_str().expect("UTF-8").to_owned()),
        ..Probe::default()
    };
    let mut spec = TaskSpec::new(Run::Probe(probe));
    spec.queue = "q".to_owned();
    let request = JobRequest { inline: Some(spec), ..JobRequest::default() };
    let with_load_key = |key: &str| [0, 1].map(|place: usize| with_key(&urls[place], &files_trust, key));
    let load = Load {
        clients: Arc::new(RwLock::new(with_load_key(&key))),
        jobs: Arc::default(),
        answers: Arc::default(),
        stop: Arc::default(),
    };
    let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
    let clients: Vec<_> =
        places.iter().map(|(from, to)| tokio::spawn(load.clone().run(request.clone(), *from, *to))).collect();
    let trust = Trust::Pinned(token.authority());
    let renewing = tokio::spawn(renews(urls[0].clone(), trust, own(&issued, &leaf), load.clone()));
    load.goes_on("jobs are submitted").await;

    for _ in 0..2 {
        let serial = files.renew();
        for server in [&stage.server, &other] {
            eventually("the new certificate is shown", async || serial_shown(server, &files_trust).await == serial)
                .await;
        }
        load.goes_on("after the certificate's files").await;
        alive().await;
    }
    let overlap = RotateAuthority { overlap: Some(Span::from_secs(7200)) };
    let authorities = admin.rotate_authority(&overlap).await.expect("the authority is rotated").authorities;
    assert_eq!(authorities.len(), 2);
    eventually("the server trusts both", || async {
        let pem = std::fs::read_to_string(stage.home.file("data/ca.pem")).expect("ca.pem");
        pem.matches("BEGIN CERTIFICATE").count() == 2
    })
    .await;
    load.goes_on("after the authority").await;
    let former = admin.rotate_root_key().await.expect("the root key is rotated").former;
    load.goes_on("after the root key").await;
    let rotated = admin.rotate_data_key(&DataKeyQuery::default()).await.expect("the data key is rotated");
    assert_eq!(rotated.resealed, 1);
    load.goes_on("after the data key").await;
    alive().await;

    // The cluster's secret, and the root key while that is under way.
    let before = admin.cluster_secret().await.expect("it is shown").id;
    let at_once = RotateClusterSecret { overlap: Some(Span::ZERO) };
    let next = admin.rotate_cluster_secret(&at_once).await.expect("it is rotated").next.expect("the next one").id;
    assert_ne!(admins[1].rotate_root_key().await.expect("the root key is rotated again").former, former);
    for admin in &admins {
        eventually("all sign with the new secret", || async {
            admin.cluster_secret().await.is_ok_and(|view| view.stage == ClusterSecretStage::Signing)
        })
        .await;
    }
    load.goes_on("after the cluster's secret").await;
    alive().await;
    let again = admin.rotate_data_key(&DataKeyQuery::default()).await.expect_err("it was a moment ago");
    assert!(again.to_string().contains("less than"), "{again}");
    let new = admin
        .rotate_key("load", &RotateRequest { overlap: Some(Span::from_secs(60)), ..RotateRequest::default() })
        .await
        .expect("the key is rotated");
    load.goes_on("with the former key").await;
    *load.clients.write().expect("no panic") = with_load_key(&new.secret.0);
    load.goes_on("with the new key").await;

    // What was made before any of it still counts.
    for (place, (url, bytes)) in uploads.iter().enumerate() {
        upload(&url.replace(&urls[0], &urls[place]), bytes.clone()).await;
    }
    for (place, (job, token)) in agents.iter().enumerate() {
        let url = format!("{}{}", urls[1 - place], path(*job, 1, "/outcome"));
        let answer = plain.post(url).bearer_auth(token).body(succeeded(*job, 1)).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 204, "an agent's outcome");
    }
    let view = admin.cluster_secret().await.expect("it is shown");
    assert_eq!(view.former.map(|former| former.id), Some(before), "attempts from before hold it");
    for (holder, held) in holders.iter_mut().zip(&held) {
        holder.succeed(held).await;
    }
    for admin in &admins {
        eventually("the former secret is dropped", || async {
            admin.cluster_secret().await.is_ok_and(|view| view.stage == ClusterSecretStage::Settled && view.id == next)
        })
        .await;
    }
    load.goes_on("without the former secret").await;
    let renewed = admin.authority().await.expect("the authorities are shown").authorities;
    assert_eq!(renewed, authorities, "their keys are sealed anew, and they are the same");

    load.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no request failed");
    }
    assert!(renewing.await.expect("no renewal failed") >= 5);
    let jobs = std::mem::take(&mut *load.jobs.lock().expect("no panic"));
    for id in &jobs {
        let job = finished(admin, *id).await;
        assert_eq!((job.state.as_str(), job.attempts.len()), ("succeeded", 1), "{job:?}");
        let output = job.output.as_ref().map(|output| output.get());
        assert_eq!(output, Some("\"[secret planted]\""), "{job:?}");
    }
    for id in held.iter().map(|held| held.job).chain(agents.iter().map(|(job, _)| *job)) {
        let job = finished(admin, id).await;
        assert_eq!((job.state.as_str(), job.attempts.len()), ("succeeded", 1), "{job:?}");
    }
    let begun = begun(&witness);
    assert_eq!(begun.len(), jobs.len(), "no job is lost");
    assert!(begun.values().all(|count| *count == 1), "no job ran twice: {begun:?}");
}
