//! Holds the direction of dependencies: each room may use only the rooms below it.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::shell::cargo;

/// Which of our crates each crate may use. A new arrow needs a record in docs/adr.
const ARROWS: &[(&str, &[&str])] = &[
    ("recurrence", &[]),
    ("core", &["recurrence"]),
    ("pki", &["core"]),
    ("blobs", &["core"]),
    ("store", &["core"]),
    ("store-postgres", &["core", "store"]),
    ("store-sqlite", &["core", "store"]),
    ("store-tests", &["core", "store"]),
    ("engine", &["core", "store"]),
    ("api", &["core"]),
    ("openid", &["core"]),
    ("app", &["api", "blobs", "core", "engine", "openid", "pki", "store"]),
    ("duties", &["app", "blobs", "core", "engine", "store"]),
    ("proto", &["core"]),
    ("peers", &["app", "core", "engine", "pki", "proto"]),
    ("dashboard", &["api", "core"]),
    ("server", &["api", "app", "blobs", "core", "dashboard", "engine", "peers", "pki", "proto", "store"]),
    ("sandbox", &[]),
    ("exec", &["core", "sandbox"]),
    ("worker", &["core", "exec", "pki", "proto"]),
    ("agent", &["core", "exec", "proto", "sandbox"]),
    ("client", &["api", "core", "pki"]),
    ("model", &[]),
    ("promises", &["core"]),
    ("sim", &["core", "promises", "store", "store-tests"]),
    (
        "punctual",
        &[
            "agent",
            "api",
            "app",
            "blobs",
            "client",
            "core",
            "duties",
            "engine",
            "exec",
            "openid",
            "peers",
            "pki",
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
    ("verify", &["api", "client", "core", "local-postgres", "pki", "promises", "worker"]),
    ("comparison", &["local-postgres"]),
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
    let asking = asking_for_bugs(&metadata);
    if !asking.is_empty() {
        bail!("only {SIMULATOR} may ask for the feature `{PLANTED_BUGS}`, not\n  {}", asking.join("\n  "));
    }
    Ok(())
}

/// The feature of the core that holds the bugs which the simulator must find.
const PLANTED_BUGS: &str = "planted-bugs";
const SIMULATOR: &str = "sim";

/// The crates that ask for planted bugs and are not the simulator. Features are shared by all crates of a build, so one
/// that is shipped, or that one of those uses, would bring the bugs into the binary; a crate that only tests use would
/// bring them into the binary that its tests run.
fn asking_for_bugs(metadata: &Value) -> Vec<String> {
    let mut asking = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = short(package["name"].as_str().unwrap_or_default());
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let of_dependencies = dependencies.flat_map(|dependency| dependency["features"].as_array()).flatten();
        let own = package["features"].as_object().into_iter().flat_map(|features| features.values());
        let of_own = own.flat_map(Value::as_array).flatten();
        let mut asked = of_dependencies.chain(of_own).filter_map(Value::as_str);
        let uses_simulator = package["dependencies"]
            .as_array()
            .is_some_and(|dependencies| dependencies.iter().any(|used| used["name"] == "punctual-sim"));
        if name != SIMULATOR && (uses_simulator || asked.any(|feature| feature.ends_with(PLANTED_BUGS))) {
            asking.push(name.to_owned());
        }
    }
    asking
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
    fn only_the_simulator_asks_for_planted_bugs() {
        let package = |name: &str, used: &str, features: &[&str], own: &[&str]| {
            let dependency = serde_json::json!({ "name": used, "path": "somewhere", "features": features });
            let package =
                serde_json::json!({ "name": name, "dependencies": [dependency], "features": { "default": own } });
            asking_for_bugs(&serde_json::json!({ "packages": [package] }))
        };
        let none: &[&str] = &[];
        assert_eq!(package("punctual-sim", "punctual-core", &["planted-bugs"], &[]), none);
        assert_eq!(package("punctual-engine", "punctual-core", &["schema"], &["schema"]), none);
        assert_eq!(package("punctual-engine", "punctual-core", &["planted-bugs"], &[]), ["engine"]);
        assert_eq!(package("punctual", "punctual-core", &[], &["punctual-core/planted-bugs"]), ["punctual"]);
        assert_eq!(package("punctual", "punctual-sim", &[], &[]), ["punctual"]);
    }

    #[test]
    fn this_workspace_keeps_to_the_map() {
        check().unwrap();
    }
}
