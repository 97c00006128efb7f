//! `punctual batch …`, as docs/batches.md shows it.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Home, PUNCTUAL, Server};

fn punctual(server: &Server, arguments: &[&str]) -> (i32, String, String) {
    let run = Command::new(PUNCTUAL).args(["--server", &server.url, "batch"]).args(arguments).output();
    let run = run.expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is UTF-8");
    (run.status.code().expect("it ends by itself"), text(run.stdout), text(run.stderr))
}

fn printed(server: &Server, arguments: &[&str]) -> String {
    let (code, out, said) = punctual(server, arguments);
    assert_eq!(code, 0, "{arguments:?}: {said}");
    out
}

/// The block of YAML of the page.
fn example() -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/batches.md"));
    let page = page.expect("the page is there");
    let rest = page.split("```yaml\n").nth(1).expect("there is an example");
    rest.split("```").next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_batch_of_the_docs_runs() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let file = home.file("transfer.yaml");
    let client = server.client();
    crate::harness::eventually("the worker is there", || async {
        client.workers().await.is_ok_and(|list| !list.workers.is_empty())
    })
    .await;
    std::fs::write(&file, example()).expect("the file is written");
    let path = file.to_str().expect("the path is UTF-8");
    let id = printed(&server, &["create", path, "-o", "name", "--idempotency-key", "once"]).trim().to_owned();
    assert_eq!(printed(&server, &["create", path, "-o", "name", "--idempotency-key", "once"]).trim(), id);
    let shown = printed(&server, &["wait", &id]);
    assert!(shown.starts_with(&format!("{id}  succeeded\n")) && shown.contains("2 succeeded"), "{shown}");
    assert_eq!(printed(&server, &["explain", &id]), "All 2 members succeeded.\n");
    assert!(printed(&server, &["get", &id]).contains("transfer"));
    let members: Value = serde_json::from_str(&printed(&server, &["members", &id, "-o", "json"])).expect("JSON");
    assert_eq!(members["members"].as_array().map(Vec::len), Some(2));
    assert!(printed(&server, &["list", "--state", "succeeded"]).contains(&id));
    let (code, _, said) = punctual(&server, &["cancel", &id]);
    assert!(code == 6 && said.contains("ended"), "{code}: {said}");

    let broken = example().replace("probe: { output: '\"deposited\"' }", "probe: { fail_times: 9 }");
    std::fs::write(
        &file,
        broken.replace("inline: { run: { probe: { fail", "inline: { retry: { max: 0 }, run: { probe: { fail"),
    )
    .expect("the file is written");
    let (code, shown, said) = punctual(&server, &["create", path, "--wait"]);
    assert_eq!(code, 3, "{said}");
    assert!(shown.contains("1 compensated") && shown.contains("1 failed"), "{shown}");
    std::fs::write(&file, "members: [").expect("the file is written");
    let (code, _, said) = punctual(&server, &["create", path]);
    assert!(code == 2 && said.contains("transfer.yaml"), "{code}: {said}");
    assert_eq!(punctual(&server, &["get", "batch_01m7et433kee4803yssgvaf2fh"]).0, 5);
}
