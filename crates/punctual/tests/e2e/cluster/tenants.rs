//! Two tenants of a cluster: a command that another server forwards to the owner of a job is one that its sender may give.

use punctual_api::{ErrorKind, KeyRequest, NamespaceRequest, SecretText};
use punctual_client::{Client, ClientError};
use punctual_core::JobId;

use super::{Cluster, far_ahead, own_shards, submit};
use crate::harness::{Server, eventually};

/// Clients of the administrator of a namespace, one for each server.
pub(super) async fn tenant(servers: &[Server; 2], name: &str) -> [Client; 2] {
    let admin = servers[0].client();
    let request = NamespaceRequest { name: name.to_owned(), ..NamespaceRequest::default() };
    admin.create_namespace(&request).await.expect("a namespace");
    let (role, namespace) = (Some("admin".to_owned()), Some(name.to_owned()));
    let request = KeyRequest { name: "admin".to_owned(), role, namespace, ..KeyRequest::default() };
    let SecretText(token) = admin.create_key(&request).await.expect("a key").secret;
    let clients = servers.each_ref().map(|server| {
        let token = token.clone();
        server.client().with_tokens(move |_| Some(token.clone()))
    });
    for client in &clients {
        eventually("each server knows the namespace and the key", || async { client.whoami().await.is_ok() }).await;
    }
    clients
}

/// What is asked about a job, and whether it got an answer that was not a refusal.
async fn each_command(client: &Client, id: JobId) -> Vec<(&'static str, Result<(), ClientError>)> {
    vec![
        ("read", client.job(id).await.map(drop)),
        ("run now", client.run_now(id).await.map(drop)),
        ("cancel", client.cancel(id).await.map(drop)),
        ("delete", client.delete_job(id).await.map(drop)),
        ("retry", client.retry(id).await.map(drop)),
    ]
}

#[tokio::test]
async fn a_command_of_a_tenant_reaches_no_job_of_another_at_any_server() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let (own, others) = (tenant(&servers, "team-a").await, tenant(&servers, "team-b").await);
    for owner in [0, 1] {
        // New jobs stay where they were taken, so that one of the two servers has to forward what is asked.
        let theirs = submit(&others[owner], &far_ahead()).await;
        let list = servers[owner].client().servers().await.expect("the servers");
        assert!(own_shards(&list).contains(&theirs.shard().0), "the server that took it owns it");
        let before = others[owner].job(theirs).await.expect("the job");
        for asked in [0, 1] {
            for (what, refused) in each_command(&own[asked], theirs).await {
                let error = refused.expect_err(what);
                assert_eq!(error.kind(), Some(ErrorKind::JobNotFound), "{what} by server {asked}, owned by {owner}");
            }
            let now = others[asked].job(theirs).await.expect("the job");
            assert_eq!((now.state, now.due_at), (before.state.clone(), before.due_at), "nothing was changed");
        }
        // The tenant itself may, at the server that forwards it, too.
        let gone = others[1 - owner].delete_job(theirs).await.expect("its own job");
        assert_eq!(gone.state, "deleted");
        assert_eq!(others[owner].job(theirs).await.expect("the job").state, "deleted");
    }
}
