//! Only servers of the same cluster are answered.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use punctual_app::{ClusterKeys, Peer, Peers};
use punctual_core::{ServerId, Timestamp};
use punctual_peers::GrpcPeers;
use punctual_store::ClusterSecret;

use super::Cluster;
use crate::checked::plain_http;

#[expect(clippy::disallowed_methods, reason = "servers judge proofs by the real clock")]
fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later");
    Timestamp::from_micros(since.as_micros() as i64).expect("a time")
}

#[tokio::test]
async fn whoever_does_not_know_the_secret_is_refused() {
    let cluster = Cluster::new();
    let server = cluster.server(&[]);
    let id = server.client().server().await.expect("the server").id;
    let peer = Peer { id, address: server.url.clone() };
    let stranger = ServerId::new(Timestamp::EPOCH, 1);
    let wrong = GrpcPeers::new(ClusterKeys::new(ClusterSecret([7; 32])), Arc::new(wall), stranger, None);
    let refused = wrong.pulse(&peer).await.expect_err("a stranger");
    assert!(refused.reason.contains("same cluster"), "{refused}");
    assert!(wrong.watch(&peer).await.is_err());

    let http = plain_http();
    for header in [None, Some(""), Some("0"), Some(&*"0".repeat(192))] {
        let mut request = http
            .post(format!("{}/punctual.peer.v1.Peer/Stats", server.url))
            .header("content-type", "application/grpc")
            .body(vec![0; 5]);
        if let Some(header) = header {
            request = request.header("punctual-peer", header);
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.headers().get("grpc-status").expect("a status").to_str().expect("a number");
        assert_eq!(status, "16", "unauthenticated");
    }
    // The rules for web pages hold here, too.
    let page = http
        .post(format!("{}/punctual.peer.v1.Peer/Stats", server.url))
        .header("content-type", "application/grpc")
        .header("origin", "http://evil.example")
        .send();
    assert_eq!(page.await.expect("an answer").status(), 403);
}
