//! Every call of the protocols between servers, workers and peers, from the descriptors that they are compiled from.

use punctual_proto::CALLS;

use super::*;

/// Whose a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// Whoever may serve jobs: a worker by its certificate, and programs on this machine.
    Worker,
    /// Whoever has a join token, which is in the message.
    Newcomer,
    /// Another server of the cluster, by a proof of the secret.
    Peer,
}

const TABLE: &[(&str, Caller)] = &[
    ("/punctual.worker.v1.Worker/Work", Caller::Worker),
    ("/punctual.worker.v1.Worker/Heartbeat", Caller::Worker),
    ("/punctual.worker.v1.Worker/Download", Caller::Worker),
    ("/punctual.worker.v1.Worker/Admit", Caller::Worker),
    ("/punctual.worker.v1.Enrolment/Join", Caller::Newcomer),
    ("/punctual.worker.v1.Enrolment/Renew", Caller::Worker),
    ("/punctual.peer.v1.Peer/Ask", Caller::Peer),
    ("/punctual.peer.v1.Peer/Hint", Caller::Peer),
    ("/punctual.peer.v1.Peer/Running", Caller::Peer),
    ("/punctual.peer.v1.Peer/Await", Caller::Peer),
    ("/punctual.peer.v1.Peer/Watch", Caller::Peer),
    ("/punctual.peer.v1.Peer/TaskChanged", Caller::Peer),
    ("/punctual.peer.v1.Peer/QueuesChanged", Caller::Peer),
    ("/punctual.peer.v1.Peer/QueueLoads", Caller::Peer),
    ("/punctual.peer.v1.Peer/Workers", Caller::Peer),
    ("/punctual.peer.v1.Peer/InviteWorkers", Caller::Peer),
    ("/punctual.peer.v1.Peer/Stats", Caller::Peer),
    ("/punctual.peer.v1.Peer/Leaving", Caller::Peer),
];

fn caller(path: &str) -> Caller {
    let found = TABLE.iter().find(|(known, _)| *known == path);
    found.unwrap_or_else(|| panic!("{path} is not in the table: say who may call it")).1
}

#[test]
fn every_call_is_in_the_table_once() {
    let mut left: BTreeMap<&str, Caller> = TABLE.iter().copied().collect();
    assert_eq!(left.len(), TABLE.len(), "one is there twice");
    for path in CALLS {
        let caller = caller(path);
        // As the router knows it.
        let route = if caller == Caller::Peer { "/punctual.peer.v1.Peer/{method}" } else { *path };
        let is_open = access::is_open(&http::Method::POST, route);
        assert_eq!(is_open, caller != Caller::Worker, "{path}: `access` says otherwise");
        left.remove(path);
    }
    assert!(left.is_empty(), "there are no such calls: {left:?}");
}

const UNAUTHENTICATED: Option<&str> = Some("16");
const PERMISSION_DENIED: Option<&str> = Some("7");

/// The code of the refusal of one empty message, if it is refused at once.
async fn status(router: &Router, sender: &Sender, path: &str) -> Option<String> {
    let mut request = request(sender, "POST", path, None);
    request.headers_mut().insert(header::CONTENT_TYPE, "application/grpc".parse().expect("ASCII"));
    *request.body_mut() = Body::from(vec![0; 5]);
    let response = send(router, request).await;
    let status = response.headers().get("grpc-status").and_then(|status| status.to_str().ok());
    status.map(str::to_owned)
}

/// Everybody by role, for the cluster and in a namespace, and those who have all rights but that of workers.
async fn everybody_else(world: &World) -> Vec<Sender> {
    let only = Rights::of(&[Right::ServeJobs]);
    let tenant = namespace_of(world, TENANT).await;
    let in_tenant = |rights: Rights| Sender::Somebody(Principal::made_up_in(tenant.clone(), "key:team-a/test", rights));
    let roles = Role::ALL.into_iter();
    let by_role =
        roles.flat_map(|role| [with_rights(role.rights().without(only)), in_tenant(role.rights_in_namespace())]);
    by_role.chain([with_rights(Rights::all().without(only)), in_tenant(Rights::all().without(only))]).collect()
}

#[tokio::test]
async fn calls_of_workers_are_closed_to_everybody_who_is_none() {
    let world = World::new().await;
    let router = router(&world);
    let others = everybody_else(&world).await;
    for path in CALLS.iter().filter(|path| caller(path) == Caller::Worker) {
        for sender in [Sender::Nobody, Sender::Malformed] {
            assert_eq!(status(&router, &sender, path).await.as_deref(), UNAUTHENTICATED, "{path} by {sender:?}");
        }
        for sender in &others {
            assert_eq!(status(&router, sender, path).await.as_deref(), PERMISSION_DENIED, "{path} by {sender:?}");
        }
        let worker = with_rights(Rights::of(&[Right::ServeJobs]));
        let answered = status(&router, &worker, path).await;
        let is_renewal = path.ends_with("/Renew");
        assert!(answered.as_deref() != PERMISSION_DENIED || is_renewal, "{path} by a worker: {answered:?}");
    }
}

#[tokio::test]
async fn calls_of_servers_are_closed_to_everybody_without_a_proof() {
    let world = World::new().await;
    let router = router(&world);
    let mut senders = everybody_else(&world).await;
    senders.extend([Sender::Nobody, Sender::Malformed, local(), with_rights(Rights::of(&[Right::ServeJobs]))]);
    for path in CALLS.iter().filter(|path| caller(path) == Caller::Peer) {
        for sender in &senders {
            assert_eq!(status(&router, sender, path).await.as_deref(), UNAUTHENTICATED, "{path} by {sender:?}");
        }
    }
}

#[tokio::test]
async fn no_credential_stands_in_for_a_join_token() {
    let world = World::new().await;
    let router = router(&world);
    let mut senders = everybody_else(&world).await;
    senders.extend([Sender::Nobody, Sender::Malformed, local(), with_rights(Rights::of(&[Right::ServeJobs]))]);
    for path in CALLS.iter().filter(|path| caller(path) == Caller::Newcomer) {
        for sender in &senders {
            let answered = status(&router, sender, path).await;
            assert!(answered.as_deref().is_some_and(|code| code != "0"), "{path} by {sender:?}: {answered:?}");
        }
    }
}
