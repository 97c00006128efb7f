//! Quotas of a namespace whose jobs are accepted by two servers.

use std::time::Duration;

use punctual_api::{ErrorKind, NamespaceEdit, QuotasEdit};
use punctual_client::{Client, IfMatch};
use tokio::time::Instant;

use super::tenants::tenant;
use super::{Cluster, far_ahead, submit};
use crate::harness::{Server, eventually};

/// Sets quotas, and waits until both servers know them.
pub(super) async fn set(servers: &[Server; 2], name: &str, quotas: QuotasEdit) {
    let edit = NamespaceEdit { quotas, ..NamespaceEdit::default() };
    let edited = servers[0].client().edit_namespace(name, &edit, IfMatch::Any).await.expect("new quotas");
    for server in servers {
        // Whoever is asked looks first whether anything has changed.
        let known = server.client().namespace(name).await.expect("the namespace");
        assert_eq!((known.revision, known.quotas), (edited.revision, edited.quotas));
    }
}

async fn stored(client: &Client, name: &str) -> u64 {
    client.namespace(name).await.expect("the namespace").usage.expect("what it uses").stored_jobs
}

#[tokio::test]
async fn no_server_of_a_cluster_accepts_jobs_above_the_quota_once_it_has_counted() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let clients = tenant(&servers, "team-a").await;
    set(&servers, "team-a", QuotasEdit { stored_jobs: Some(Some(20)), ..QuotasEdit::default() }).await;
    let mut ids = Vec::new();
    for _ in 0..15 {
        ids.push(submit(&clients[0], &far_ahead()).await);
    }
    // The other server counts what the first one has accepted.
    for _ in 0..5 {
        ids.push(submit(&clients[1], &far_ahead()).await);
    }
    let full = "namespace team-a stores 20 of 20 jobs (quota stored_jobs)";
    let refused = clients[1].submit(&far_ahead()).await.expect_err("it is full");
    assert_eq!(refused.kind(), Some(ErrorKind::QuotaExceeded));
    assert!(refused.to_string().contains(full), "{refused}");
    // What the second accepted is news to the first one for a second at most.
    eventually("the first server has counted again", || async {
        match clients[0].submit(&far_ahead()).await {
            Ok(_) => false,
            Err(refused) => refused.to_string().contains(full),
        }
    })
    .await;
    let over = stored(&clients[0], "team-a").await;
    assert!((20..=35).contains(&over), "{over}: no more than one server accepts in a second");
    for id in ids {
        clients[1].delete_job(id).await.expect("it waits");
    }
    for client in &clients {
        eventually("there is room again", || async { client.submit(&far_ahead()).await.is_ok() }).await;
    }
}

#[tokio::test]
async fn the_rate_of_submissions_is_that_of_the_cluster() {
    const RATE: u64 = 40;
    const TIME: Duration = Duration::from_secs(3);
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let clients = tenant(&servers, "team-a").await;
    set(&servers, "team-a", QuotasEdit { submissions_per_second: Some(Some(RATE)), ..QuotasEdit::default() }).await;
    let begun = Instant::now();
    let flood = async |client: &Client| {
        let (mut accepted, mut refused) = (0_u64, 0_u64);
        while begun.elapsed() < TIME {
            match client.submit(&far_ahead()).await {
                Ok(_) => accepted += 1,
                Err(error) => {
                    assert_eq!(error.kind(), Some(ErrorKind::RateQuotaExceeded), "{error}");
                    refused += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        (accepted, refused)
    };
    let (one, other) = tokio::join!(flood(&clients[0]), flood(&clients[1]));
    let accepted = one.0 + other.0;
    // A second's worth at once, and what each server may have paid for in advance.
    let most = RATE as f64 * (begun.elapsed().as_secs_f64() + 1.0) + 2.0 * (RATE / 10) as f64;
    assert!(accepted as f64 <= most, "{accepted} of {most}");
    assert!(accepted >= RATE * TIME.as_secs() / 2, "{accepted}");
    assert!(one.1 > 0 && other.1 > 0, "both refuse some");
    assert_eq!(stored(&clients[0], "team-a").await, accepted);
}
