//! Batches on two servers with PostgreSQL, whose workers are connected to both.

use serde_json::json;

use super::{compensation, create, ended, member, read, states};
use crate::checked::Checked;
use crate::cluster::{Cluster, balanced};
use crate::harness::eventually;

/// Gangs at two owners, each of which could have half of the slots.
#[tokio::test(flavor = "multi_thread")]
async fn gangs_of_two_owners_never_wait_for_each_other() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let _workers =
        [0, 1].map(|at| cluster.home.worker_with_spool(&servers[at], &format!("spool-{at}"), &["--slots", "4"]));
    let apis = [Checked::new(&servers[0]).await, Checked::new(&servers[1]).await];
    let mut gangs = Vec::new();
    for round in 0..3 {
        for api in &apis {
            let members = vec![member(json!({ "sleep": "300ms" })); 6 + round % 2];
            gangs.push(create(api, json!({ "start": "together", "start_timeout": "50s", "members": members })).await);
        }
    }
    // Ordinary jobs that would take each slot as it becomes free.
    let others = create(&apis[0], json!({ "members": vec![member(json!({ "sleep": "50ms" })); 60] })).await;
    for id in &gangs {
        let done = ended(&apis[1], id).await;
        assert_eq!(done["state"], "succeeded", "{done:#}");
    }
    assert_eq!(ended(&apis[0], &others).await["state"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_ends_as_declared_although_its_owner_is_killed() {
    let cluster = Cluster::new();
    let [first, second] = cluster.pair().await;
    let _worker = cluster.home.worker(&second, &["--slots", "20"]);
    let (here, there) = (Checked::new(&first).await, Checked::new(&second).await);
    let mut all = vec![member(json!({})); 5];
    all.push(member(json!({ "sleep": "1h" })));
    all.push(member(json!({ "sleep": "3s", "fail_times": 9 })));
    let batch = json!({ "outcome": "all_or_nothing", "compensation": compensation(), "members": all });
    // The server that is asked stores it in a shard of its own.
    let id = create(&here, batch).await;
    eventually("five have succeeded", || async { read(&there, &id).await["counts"]["succeeded"] == 5 }).await;
    first.kill();
    let done = ended(&there, &id).await;
    assert_eq!(done["state"], "failed", "{done:#}");
    let mut expected = vec!["compensated"; 5];
    expected.extend(["cancelled", "failed"]);
    assert_eq!(states(&there, &id).await, expected);
    balanced(&second.client(), 1).await;
}
