//! Holds the direction of dependencies: each room may use only the rooms below it.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::shell::cargo;

/// Which of our crates each crate may use. A new arrow needs a record in docs/adr.
const ARROWS: &[(&str, &[&str])] = &[
    ("recurrence", &[]),
    ("core", &["recurrence"]),
    ("blobs", &["core"]),
    ("store", &["core"]),
    ("store-postgres", &["core", "store"]),
    ("store-sqlite", &["core", "store"]),
    ("store-tests", &["core", "store"]),
    ("engine", &["core", "store"]),
    ("api", &["core"]),
    ("app", &["api", "blobs", "core", "engine", "store"]),
    ("proto", &["core"]),
    ("peers", &["app", "core", "engine", "proto"]),
    ("server", &["api", "app", "blobs", "core", "engine", "proto", "store"]),
    ("sandbox", &[]),
    ("exec", &["core", "sandbox"]),
    ("worker", &["core", "exec", "proto"]),
    ("agent", &["core", "exec", "proto", "sandbox"]),
    ("client", &["api", "core"]),
    ("model", &[]),
    ("sim", &["core", "store", "store-tests"]),
    (
        "punctual",
        &[
            "agent",
            "api",
            "app",
            "blobs",
            "client",
            "core",
            "engine",
            "exec",
            "peers",
            "sandbox",
            "server",
            "store",
            "store-postgres",
            "store-sqlite",
            "worker",
        ],
    ),
    ("local-postgres", &[]),
    ("local-s3", &[]),
    ("verify", &["api", "client", "core", "local-postgres", "worker"]),
    ("peers-bench", &["local-postgres"]),
    ("xtask", &["local-postgres"]),
];

pub(crate) fn check() -> anyhow::Result<()> {
    eprintln!("\nchecking the direction of dependencies");
    let output =
        cargo(["metadata", "--format-version", "1", "--no-deps"]).output().context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let wrong = wrong_arrows(&metadata);
    if !wrong.is_empty() {
        bail!("these dependencies point the wrong way:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

fn short(name: &str) -> &str {
    name.strip_prefix("punctual-").unwrap_or(name)
}

fn wrong_arrows(metadata: &Value) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = short(package["name"].as_str().unwrap_or_default());
        let Some(may_use) = allowed.get(name) else {
            wrong.push(format!("{name} is not on the map in xtask/src/layers.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let is_ours = dependency.get("path").is_some_and(|path| !path.is_null());
            // Tests may use anything.
            let is_dev = dependency["kind"].as_str() == Some("dev");
            if is_ours && !is_dev && !may_use.contains(&short(used)) {
                wrong.push(format!("{name} → {}", short(used)));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, uses: &str, kind: Value) -> Value {
        let dependency = serde_json::json!({ "name": uses, "path": "somewhere", "kind": kind });
        serde_json::json!({ "packages": [{ "name": name, "dependencies": [dependency] }] })
    }

    #[test]
    fn an_arrow_against_the_direction_is_found() {
        assert_eq!(wrong_arrows(&package("punctual-core", "punctual-store", Value::Null)), ["core → store"]);
        assert_eq!(wrong_arrows(&package("punctual-worker", "punctual-store", Value::Null)), ["worker → store"]);
        assert!(wrong_arrows(&package("punctual-store", "punctual-core", Value::Null)).is_empty());
        assert!(wrong_arrows(&package("punctual-store-sqlite", "punctual-store-tests", "dev".into())).is_empty());
        assert_eq!(wrong_arrows(&package("attic", "punctual-core", Value::Null)).len(), 1);
    }

    #[test]
    fn this_workspace_keeps_to_the_map() {
        check().unwrap();
    }
}
