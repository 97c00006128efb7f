//! Everything that proves who somebody is, or seals what is stored, is replaced while jobs are submitted and run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use punctual_api::{DataKeyQuery, JobRequest, KeyRequest, RotateAuthority, RotateRequest};
use punctual_client::Client;
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{JobId, Span};
use punctual_pki::{ClientTls, LeafKey, Trust};
use punctual_proto::worker as wire;
use punctual_proto::worker::enrolment_client::EnrolmentClient;

use super::guest::{channel, join, own, read_token};
use super::{Stage, finished};
use crate::harness::eventually;
use crate::tls::renewal::{Files, serial_shown};

/// What the clients share: the credential changes under them.
#[derive(Clone)]
struct Load {
    client: Arc<RwLock<Client>>,
    jobs: Arc<Mutex<Vec<JobId>>>,
    answers: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Load {
    fn client(&self) -> Client {
        self.client.read().expect("no panic").clone()
    }

    /// Submits and reads until it is told to stop. A request that fails is not repeated, and fails the test.
    async fn run(self, request: JobRequest) {
        while !self.stop.load(Ordering::Relaxed) {
            let client = self.client();
            let id = client.submit(&request).await.expect("no submission fails").id;
            client.job(id).await.expect("no request fails");
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

fn with_key(stage: &Stage, trust: &Trust, key: &str) -> Client {
    let tls = ClientTls::new(trust, None, &[b"http/1.1"]).expect("a configuration");
    let client = Client::new(&stage.server.url).expect("the address is a URL");
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
    let flags = ["--tls", "files", "--tls-cert", "cert", "--tls-key", "key"];
    let server = files.home.server_at("127.0.0.1:0", &flags);
    let files_trust = files.trust();
    let stage = Stage { home: crate::harness::Home::new(), server };
    let admin = {
        let token = std::fs::read_to_string(files.home.file("data/token")).expect("the access token");
        with_key(&stage, &files_trust, token.trim())
    };
    admin.put_secret("planted", b"a planted value".to_vec()).await.expect("a secret");
    let secret_of = async || {
        admin
            .create_key(&KeyRequest {
                name: "load".to_owned(),
                role: Some("admin".to_owned()),
                ..KeyRequest::default()
            })
            .await
            .expect("a key")
            .secret
            .0
    };
    let key = secret_of().await;

    // One worker is the real program; another one only renews its certificate.
    let token = admin
        .create_worker_token(&punctual_api::WorkerTokenRequest {
            queues: vec!["q".to_owned()],
            kinds: vec!["probe".to_owned()],
            uses: Some(2),
            ..Default::default()
        })
        .await
        .expect("a token");
    let token_file = stage.home.file("join.token");
    super::write_private(&token_file, token.token.as_bytes());
    let _worker = stage.worker("w1", &token_file, &[]);
    let token = read_token(&token_file);
    let leaf = LeafKey::generate().expect("a key");
    let issued = join(&stage.server.url, &token, &leaf).await.expect("it joins");

    let witness = stage.home.file("witness");
    let probe = Probe {
        output: Some("{{ secret.planted }}".to_owned()),
        witness: Some(witness.to_str().expect("UTF-8").to_owned()),
        ..Probe::default()
    };
    let mut spec = TaskSpec::new(Run::Probe(probe));
    spec.queue = "q".to_owned();
    let request = JobRequest { inline: Some(spec), ..JobRequest::default() };
    let load = Load {
        client: Arc::new(RwLock::new(with_key(&stage, &files_trust, &key))),
        jobs: Arc::default(),
        answers: Arc::default(),
        stop: Arc::default(),
    };
    let clients: Vec<_> = (0..4).map(|_| tokio::spawn(load.clone().run(request.clone()))).collect();
    let trust = Trust::Pinned(token.authority());
    let renewing = tokio::spawn(renews(stage.server.url.clone(), trust, own(&issued, &leaf), load.clone()));
    load.goes_on("jobs are submitted").await;

    for _ in 0..2 {
        let serial = files.renew();
        eventually("the new certificate is shown", async || serial_shown(&stage.server, &files_trust).await == serial)
            .await;
        load.goes_on("after the certificate's files").await;
    }
    let overlap = RotateAuthority { overlap: Some(Span::from_secs(7200)) };
    let authorities = admin.rotate_authority(&overlap).await.expect("the authority is rotated").authorities;
    assert_eq!(authorities.len(), 2);
    eventually("the server trusts both", || async {
        let pem = std::fs::read_to_string(files.home.file("data/ca.pem")).expect("ca.pem");
        pem.matches("BEGIN CERTIFICATE").count() == 2
    })
    .await;
    load.goes_on("after the authority").await;
    let former = admin.rotate_root_key().await.expect("the root key is rotated").former;
    load.goes_on("after the root key").await;
    let rotated = admin.rotate_data_key(&DataKeyQuery::default()).await.expect("the data key is rotated");
    assert_eq!(rotated.resealed, 1);
    load.goes_on("after the data key").await;
    let again = admin.rotate_data_key(&DataKeyQuery::default()).await.expect_err("it was a moment ago");
    assert!(again.to_string().contains("less than"), "{again}");
    assert_ne!(admin.rotate_root_key().await.expect("the root key is rotated again").former, former);
    load.goes_on("after the root key with a new data key").await;
    let new = admin
        .rotate_key("load", &RotateRequest { overlap: Some(Span::from_secs(60)), ..RotateRequest::default() })
        .await
        .expect("the key is rotated");
    load.goes_on("with the former key").await;
    *load.client.write().expect("no panic") = with_key(&stage, &files_trust, &new.secret.0);
    load.goes_on("with the new key").await;

    load.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no request failed");
    }
    assert!(renewing.await.expect("no renewal failed") >= 5);
    let jobs = std::mem::take(&mut *load.jobs.lock().expect("no panic"));
    for id in &jobs {
        let job = finished(&admin, *id).await;
        assert_eq!((job.state.as_str(), job.attempts.len()), ("succeeded", 1), "{job:?}");
        let output = job.output.as_ref().map(|output| output.get());
        assert_eq!(output, Some("\"[secret planted]\""), "{job:?}");
    }
    let begun = begun(&witness);
    assert_eq!(begun.len(), jobs.len(), "no job is lost");
    assert!(begun.values().all(|count| *count == 1), "no job ran twice: {begun:?}");
}
