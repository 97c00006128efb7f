//! Two servers on PostgreSQL and a worker, all over TLS.

use punctual_core::Span;
use punctual_core::task::Probe;
use punctual_pki::Trust;

use super::{authorities, authority_file, client, path, punctual, said, trust_of};
use crate::cluster::{Cluster, LEASE, balanced, finished, probe, sleeper, submit};
use crate::harness::{Server, eventually};

impl Cluster {
    fn server_with_tls(&self) -> Server {
        let flags = ["--lease-ttl", LEASE, "--tls", "cluster"];
        self.home.server_with("127.0.0.1:0", &flags, &[("PUNCTUAL_DATABASE", &self.database)])
    }
}

#[tokio::test]
async fn jobs_logs_and_commands_go_through_two_servers_with_tls() {
    let cluster = Cluster::new();
    let servers = [cluster.server_with_tls(), cluster.server_with_tls()];
    assert!(servers.iter().all(|server| server.url.starts_with("https://")));
    let trust = trust_of(&cluster.home);
    let clients = [client(&servers[0], &trust), client(&servers[1], &trust)];
    balanced(&clients[0], 2).await;
    let ca_file = authority_file(&cluster.home);
    // It is told of the other server and connects to it, with TLS as well.
    let _worker = cluster.home.worker(&servers[0], &["--ca-file", path(&ca_file)]);
    for client in [&clients[0], &clients[1], &clients[0], &clients[1]] {
        let text = "hello over TLS".to_owned();
        let id = submit(client, &probe(Probe { output: Some(text), ..Probe::default() })).await;
        assert_eq!(finished(client, id).await.state, "succeeded");
        // Of two servers one is not the owner and has to ask the other.
        for server in &servers {
            let id = id.to_string();
            let output = punctual(&cluster.home, &["--server", &server.url, "logs", "-f", &id]);
            assert!(output.status.success() && said(&output).contains("hello over TLS"), "{}", said(&output));
        }
    }
    for client in &clients {
        let running = submit(client, &sleeper(Span::from_secs(600))).await;
        eventually("the job runs", || async { client.job(running).await.is_ok_and(|job| job.state == "running") })
            .await;
        // At the server that did not take it.
        let other = if client.url() == clients[0].url() { &clients[1] } else { &clients[0] };
        other.cancel(running).await.expect("the owner is asked over TLS");
        assert_eq!(finished(other, running).await.state, "cancelled");
    }
    let list = clients[1].servers().await.expect("the servers");
    assert!(list.servers.iter().all(|server| server.address.starts_with("https://")), "{list:?}");
}

#[tokio::test]
async fn a_worker_that_does_not_trust_the_authority_takes_no_work() {
    let home = crate::harness::Home::new();
    let server = home.server_at("127.0.0.1:0", &["--tls", "cluster"]);
    let client = client(&server, &trust_of(&home));
    let other = home.file("other.pem");
    let cluster = punctual_pki::ClusterName::new("other").unwrap();
    let authority = punctual_pki::Authority::make(cluster, 1, super::renewal::now()).unwrap();
    std::fs::write(&other, punctual_pki::to_pem(authority.certificate())).unwrap();
    let log = home.file("worker.log");
    let _stranger =
        home.worker_logging(&server, "spool", &["--ca-file", path(&other)], &[], std::fs::File::create(&log).unwrap());
    eventually("the worker says why", || async {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("not trusted here") && log.contains("--ca-file"))
    })
    .await;
    assert!(client.workers().await.unwrap().workers.is_empty());
    let output = punctual(&home, &["--server", &server.url, "--ca-file", path(&other), "ps"]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(said(&output).contains("not trusted here") && said(&output).contains("--ca-file"), "{}", said(&output));
    // The server's own user finds the certificate without being told.
    let output = punctual(&home, &["--server", &server.url, "ps"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[tokio::test]
async fn a_new_authority_is_trusted_beside_the_old_one_and_nothing_fails() {
    let home = crate::harness::Home::new();
    let server = home.server_at("127.0.0.1:0", &["--tls", "cluster"]);
    let old = trust_of(&home);
    let client = client(&server, &old);
    let shown = punctual(&home, &["--server", &server.url, "authority", "show"]);
    let fingerprint = punctual_pki::Fingerprint::of(&authorities(&home)[0]).to_string();
    assert!(said(&shown).contains(&fingerprint) && said(&shown).contains("BEGIN CERTIFICATE"), "{}", said(&shown));
    let refused = punctual(&home, &["--server", &server.url, "authority", "rotate", "--overlap", "1s"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let rotated = punctual(&home, &["--server", &server.url, "authority", "rotate", "--overlap", "2h"]);
    assert!(rotated.status.success(), "{}", said(&rotated));
    assert_eq!(said(&rotated).matches("sha256:").count(), 2, "{}", said(&rotated));
    eventually("the server has noticed", || async {
        client.server().await.expect("no request fails meanwhile");
        authorities(&home).len() == 2
    })
    .await;
    client.server().await.expect("who knows the old one alone still trusts the server");
    let new = Trust::Roots(authorities(&home)[1..].to_vec());
    let early = super::client(&server, &new).server().await;
    assert!(early.is_err(), "the new one takes over only when the old one is retired");
}
