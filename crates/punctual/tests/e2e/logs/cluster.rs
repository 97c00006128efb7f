//! Several servers on one PostgreSQL: one of them archives, and all of them read.

use std::time::Duration;

use punctual_client::{Logs, Waited};
use punctual_core::JobId;
use serde_json::json;

use super::{log, path};
use crate::cluster::Cluster;
use crate::harness::{Server, eventually};

async fn printed(server: &Server, what: &str) -> JobId {
    let request = json!({ "inline": { "run": { "probe": { "output": what } } } });
    let id = server.client().submit(&request).await.expect("the job is accepted").id;
    let waited = server.client().wait_finished(id, Some(Duration::from_secs(30))).await.expect("an answer");
    assert!(matches!(waited, Waited::Finished(_)));
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn any_server_reads_what_one_of_them_archived() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let _worker = cluster.home.worker(&servers[0], &[]);
    let mut jobs = Vec::new();
    for n in 0..4 {
        jobs.push((printed(&servers[n % 2], &format!("hello {n}")).await, format!("hello {n}\n")));
    }
    for (id, expected) in &jobs {
        eventually("it is archived", || async { path(&servers[1], *id, 1).await.is_some() }).await;
        for server in &servers {
            assert_eq!(&log(server, *id, None).await, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_share_no_storage_leave_logs_where_all_can_read_them() {
    let cluster = Cluster::new();
    let folders = ["one", "two"].map(|name| cluster.home.file(name).to_str().expect("UTF-8").to_owned());
    let start = |folder: &str| {
        let flags = ["--storage", folder];
        cluster.home.server_with("127.0.0.1:0", &flags, &[("PUNCTUAL_DATABASE", &cluster.database)])
    };
    let servers = [start(&folders[0]), start(&folders[1])];
    for server in &servers {
        eventually("they know each other", || async {
            server.client().servers().await.is_ok_and(|list| list.servers.len() == 2)
        })
        .await;
    }
    let _worker = cluster.home.worker(&servers[0], &[]);
    let id = printed(&servers[0], "hello").await;
    // Each server has left its marker in its own storage and misses that of the other, so neither archives.
    for folder in &folders {
        let markers = std::path::Path::new(folder).join("servers");
        let count = || std::fs::read_dir(&markers).map_or(0, |files| files.count());
        eventually("a server leaves its marker", || async { count() == 1 }).await;
    }
    for server in &servers {
        let chunk = server.client().logs(id, Logs::default()).await.expect("the log can be read");
        assert_eq!(chunk.text, "hello\n");
    }
}
