//! A worker asks its servers where the file of an attempt is, and to admit agents.

mod far_side;

use std::sync::Arc;

use far_side::*;
use punctual_core::attempt::AttemptNo;
use punctual_core::{ArtifactId, Timestamp};
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;
use punctual_worker::{Admission, AdmissionGrant, AdmitError, DownloadError, Downloads, Worker};
use tonic::Status;

fn artifact() -> ArtifactId {
    ArtifactId::new(Timestamp::EPOCH, 9)
}

fn ask(downloads: &Arc<dyn Downloads>) -> tokio::task::JoinHandle<Result<punctual_worker::Download, DownloadError>> {
    let downloads = downloads.clone();
    tokio::spawn(async move { downloads.locate(job(1), AttemptNo(3), artifact()).await })
}

fn reply(digest: usize) -> wire::DownloadReply {
    wire::DownloadReply { url: "http://127.0.0.1:1/file".to_owned(), size: 7, sha256: vec![5; digest].into() }
}

async fn question(server: &mut FarServer) -> Question {
    within("a question", server.downloads.recv()).await.expect("the server runs")
}

#[tokio::test]
async fn a_worker_names_itself_and_its_attempt_and_gets_the_address() {
    let mut server = FarServer::start().await;
    let worker = Worker::connect(server.url()).standard_executors();
    let downloads = worker.downloads();
    let early = within("an answer", ask(&downloads)).await.unwrap();
    assert_eq!(early, Err(DownloadError::Unavailable("the worker does not run yet".to_owned())));
    let _worker = run(worker);
    let stream = server.welcome().await;
    let asked = ask(&downloads);
    let (request, answer) = question(&mut server).await;
    assert_eq!(request.worker_id, stream.hello.worker_id);
    assert_eq!(request.job_id, id_bytes(job(1).to_bytes()));
    assert_eq!((request.attempt, &request.artifact_id), (3, &id_bytes(artifact().to_bytes())));
    answer.send(Ok(reply(32))).unwrap();
    let download = within("an answer", asked).await.unwrap().unwrap();
    assert_eq!((download.url.as_str(), download.size, download.sha256), ("http://127.0.0.1:1/file", 7, [5; 32]));
    assert!(!format!("{download:?}").contains("127.0.0.1"), "the address opens the file");
}

#[tokio::test]
async fn a_server_that_cannot_say_is_passed_over_and_one_that_refuses_is_not() {
    let mut servers = [FarServer::start().await, FarServer::start().await];
    let worker = Worker::connect_any(servers.iter().map(FarServer::url)).standard_executors();
    let downloads = worker.downloads();
    let _worker = run(worker);
    let mut streams = Vec::new();
    for server in &mut servers {
        streams.push(server.welcome().await);
    }
    let asked = ask(&downloads);
    question(&mut servers[0]).await.1.send(Err(Status::unavailable("the shard moves"))).unwrap();
    question(&mut servers[1]).await.1.send(Ok(reply(32))).unwrap();
    assert!(within("an answer", asked).await.unwrap().is_ok());

    let asked = ask(&downloads);
    question(&mut servers[0]).await.1.send(Err(Status::permission_denied("not yours"))).unwrap();
    let refused = within("an answer", asked).await.unwrap();
    assert_eq!(refused, Err(DownloadError::Refused("not yours".to_owned())));

    let asked = ask(&downloads);
    for server in &mut servers {
        question(server).await.1.send(Err(Status::unavailable("the shard moves"))).unwrap();
    }
    let nobody = within("an answer", asked).await.unwrap().unwrap_err();
    assert!(matches!(&nobody, DownloadError::Unavailable(text) if text.contains("the shard moves")), "{nobody}");

    let asked = ask(&downloads);
    question(&mut servers[0]).await.1.send(Ok(reply(31))).unwrap();
    assert!(matches!(within("an answer", asked).await.unwrap(), Err(DownloadError::Refused(_))));
}

#[tokio::test]
async fn an_agent_is_admitted_by_the_first_server_that_can() {
    let mut servers = [FarServer::start().await, FarServer::start().await];
    let worker = Worker::connect_any(servers.iter().map(FarServer::url)).standard_executors();
    let admissions = worker.admissions();
    let _worker = run(worker);
    let mut streams = Vec::new();
    for server in &mut servers {
        streams.push(server.welcome().await);
    }
    let admission = Admission {
        job: job(1),
        attempt: AttemptNo(3),
        artifact: artifact(),
        host_id: "host".to_owned(),
        pod: "pod".to_owned(),
    };
    let ask = || {
        let (admissions, admission) = (admissions.clone(), admission.clone());
        tokio::spawn(async move { admissions.admit(admission).await })
    };
    let asked = ask();
    let (_, answer) = within("a wish", servers[0].admissions.recv()).await.unwrap();
    answer.send(Err(Status::unavailable("the shard moves"))).unwrap();
    let (request, answer) = within("a wish", servers[1].admissions.recv()).await.unwrap();
    assert_eq!(request.worker_id, streams[1].hello.worker_id);
    assert_eq!((request.job_id, request.attempt), (id_bytes(job(1).to_bytes()), 3));
    assert_eq!((request.host_id.as_str(), request.pod.as_str()), ("host", "pod"));
    answer.send(Ok(wire::AdmitReply { token: "t0ken".to_owned(), download: Some(reply(32)) })).unwrap();
    let admitted: AdmissionGrant = within("an answer", asked).await.unwrap().unwrap();
    assert_eq!((admitted.token.as_str(), admitted.download.size), ("t0ken", 7));
    assert_eq!((&admitted.server, &admitted.others[..]), (&servers[1].url(), &[servers[0].url()][..]));
    assert!(!format!("{admitted:?}").contains("t0ken"), "{admitted:?}");

    for (answer, said) in [
        (Err(Status::invalid_argument("no host")), "no host"),
        (Ok(wire::AdmitReply { token: String::new(), download: Some(reply(32)) }), "the server sent no token"),
        (Ok(wire::AdmitReply { token: "t0ken".to_owned(), download: None }), "the server did not say where"),
    ] {
        let asked = ask();
        within("a wish", servers[0].admissions.recv()).await.unwrap().1.send(answer).unwrap();
        let refused = within("an answer", asked).await.unwrap().unwrap_err();
        assert!(matches!(&refused, AdmitError::Refused(reason) if reason.contains(said)), "{refused}");
    }

    // Whoever says that may be behind, so the job is not failed for good by it.
    let asked = ask();
    let stale = Err(Status::permission_denied("not yours"));
    within("a wish", servers[0].admissions.recv()).await.unwrap().1.send(stale).unwrap();
    let refused = within("an answer", asked).await.unwrap().unwrap_err();
    assert_eq!(refused, AdmitError::Unavailable("not yours".to_owned()));
}
