//! SIGKILL of the server while a batch starts, stops and is undone. A witness inside the tasks writes down what begins.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::{create, ended, member, members, read};
use crate::checked::Checked;
use crate::harness::{Home, eventually};

/// How often each job began.
fn begins(witness: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(witness).unwrap_or_default();
    let mut begins = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let (Some(job), Some("begin")) = (words.next(), words.nth(1)) {
            *begins.entry(job.to_owned()).or_default() += 1;
        }
    }
    begins
}

#[tokio::test(flavor = "multi_thread")]
async fn what_had_succeeded_is_undone_once_however_often_the_server_is_killed() {
    let home = Home::new();
    let witness = home.file("witness");
    let path = witness.to_str().expect("the path is UTF-8");
    let mut server = home.server();
    let address = server.address();
    let _worker = home.worker(&server, &["--slots", "30"]);
    let api = Checked::new(&server).await;
    let mut all = vec![member(json!({ "witness": path })); 8];
    all.extend(vec![member(json!({ "sleep": "1h" })); 8]);
    all.push(member(json!({ "sleep": "1500ms", "fail_times": 9 })));
    let undo = json!({ "inline": { "run": { "probe": { "sleep": "1s", "witness": path } } } });
    let batch = json!({ "start": "together", "outcome": "all_or_nothing", "compensation": undo, "members": all });
    let id = create(&api, batch).await;
    eventually("eight have succeeded", || async { read(&api, &id).await["counts"]["succeeded"] == 8 }).await;
    // While it runs, while it stops and while it is undone.
    for _ in 0..4 {
        server.kill();
        server = home.server_at(&address, &[]);
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    let api = Checked::new(&server).await;
    let done = ended(&api, &id).await;
    assert_eq!(done["counts"], json!({ "compensated": 8, "cancelled": 8, "failed": 1 }), "{done:#}");
    let begun = begins(&witness);
    for member in &members(&api, &id).await[..8] {
        for job in ["job", "compensation"].map(|field| member[field].as_str().expect("an id")) {
            assert_eq!(begun.get(job), Some(&1), "{member}");
        }
    }
    assert_eq!(begun.len(), 16, "nothing else was undone");
}
