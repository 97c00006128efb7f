//! Every file of `examples/workflows` runs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::commands::{blocks, printed};
use super::{ended, node, read, states};
use crate::checked::Checked;
use crate::harness::{Home, eventually};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/workflows"))
}

/// The input that each example is run with.
fn examples() -> Vec<(&'static str, Value)> {
    let files: Vec<String> = (0..1000).map(|n| format!("{n}.csv")).collect();
    vec![
        ("build", json!({ "branch": "main" })),
        ("etl", json!({})),
        ("map", json!({ "files": files })),
        ("nightly", json!({})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_runs_to_its_end() {
    let names = std::fs::read_dir(folder()).expect("the examples are there").map(|file| file.expect("a file").path());
    let names: BTreeSet<String> = names
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, examples().iter().map(|(name, _)| (*name).to_owned()).collect());
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &["--slots", "50"]);
    let api = Checked::new(&server).await;
    for (name, input) in examples() {
        let file = folder().join(format!("{name}.yaml"));
        printed(&server, &["apply", name, file.to_str().expect("UTF-8")]);
        if name == "build" {
            assert_eq!(
                printed(&server, &["graph", name, "--as", "mermaid"]),
                blocks("mermaid")[1],
                "the picture on the page"
            );
        }
        let body = json!({ "input": input });
        let run = api.post(&format!("/v1/workflows/{name}/runs"), body).await.expect(201).str("/id").to_owned();
        if name == "nightly" {
            eventually("the gate is open", || async { node(&read(&api, &run).await, "approve")["state"] == "open" })
                .await;
            printed(&server, &["approve", &run, "approve"]);
        }
        let done = ended(&api, &run).await;
        assert_eq!(done["state"], "succeeded", "{name}: {done:#}");
        match name {
            "build" => {
                assert_eq!(node(&done, "why")["state"], "skipped");
                assert_eq!(node(&done, "clean-up")["state"], "succeeded");
            }
            "etl" => assert_eq!(
                done["output"],
                json!({ "tables": ["customers", "orders", "items"], "published": "published" })
            ),
            "map" => {
                assert_eq!(node(&done, "convert")["items"]["succeeded"], 1000);
                assert_eq!(done["output"]["converted"].as_array().map(Vec::len), Some(1000));
            }
            _ => assert_eq!(states(&done)[..4], ["succeeded"; 4]),
        }
    }
}
