//! Holds the licences, bans, sources and duplicates of `deny.toml` over `cargo metadata`, so that they hold where `cargo deny`
//! is not installed. A rule of that file that is not known here fails the check, instead of being left out. Advisories need the
//! network and are left to `cargo deny check advisories`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use toml::Table;

use crate::shell::{cargo, root};

pub(crate) fn check() -> anyhow::Result<()> {
    eprintln!("\nchecking dependencies against deny.toml (advisories are left to `cargo deny check advisories`)");
    let text = std::fs::read_to_string(root().join("deny.toml")).context("cannot read deny.toml")?;
    let rules = Rules::read(&text)?;
    let mut wrong = BTreeSet::new();
    for target in &rules.targets {
        let args = ["metadata", "--locked", "--format-version", "1", "--all-features", "--filter-platform", target];
        let output = cargo(args).output().context("cannot run cargo metadata")?;
        ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
        wrong.extend(rules.broken_by(&serde_json::from_slice(&output.stdout)?));
    }
    if !wrong.is_empty() {
        bail!("deny.toml refuses these dependencies:\n  {}", wrong.into_iter().collect::<Vec<_>>().join("\n  "));
    }
    Ok(())
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// What `deny.toml` says.
#[derive(Debug)]
struct Rules {
    targets: Vec<String>,
    licences: BTreeSet<String>,
    denied: BTreeMap<String, String>,
    duplicates: Level,
    registries: BTreeSet<String>,
    git: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Allow,
    Deny,
}

impl Rules {
    fn read(text: &str) -> anyhow::Result<Self> {
        let mut file: Table = text.parse().context("deny.toml is no TOML")?;
        let mut section = |name: &str| match file.remove(name) {
            Some(toml::Value::Table(table)) => Ok(table),
            Some(_) => bail!("deny.toml: {name} is no table"),
            None => Ok(Table::new()),
        };
        let [mut graph, advisories, mut bans, mut licences, mut sources] =
            [section("graph")?, section("advisories")?, section("bans")?, section("licenses")?, section("sources")?];
        // Only what the network tells.
        drop(advisories);
        let targets = texts(&mut graph, "graph.targets")?;
        let duplicates = level(&mut bans, "bans.multiple-versions")?;
        let wildcards = level(&mut bans, "bans.wildcards")?;
        ensure!(wildcards == Level::Allow, "deny.toml: bans.wildcards is not known to this check");
        let denied = denied(bans.remove("deny"))?;
        let allowed = texts(&mut licences, "licenses.allow")?;
        let private: Option<BTreeMap<String, bool>> =
            licences.remove("private").map(toml::Value::try_into).transpose().unwrap_or_default();
        ensure!(
            private == Some(BTreeMap::from([("ignore".to_owned(), true)])),
            "deny.toml: licenses.private must be {{ ignore = true }}"
        );
        for rule in ["unknown-registry", "unknown-git"] {
            let level = level(&mut sources, &format!("sources.{rule}"))?;
            ensure!(level == Level::Deny, "deny.toml: sources.{rule} must be \"deny\"");
        }
        let registries = texts(&mut sources, "sources.allow-registry")?;
        let git = texts(&mut sources, "sources.allow-git")?;
        let left: Vec<String> =
            [("graph", graph), ("bans", bans), ("licenses", licences), ("sources", sources), ("", file)]
                .into_iter()
                .flat_map(|(section, rest)| rest.into_iter().map(move |(key, _)| format!("{section}.{key}")))
                .collect();
        ensure!(
            left.is_empty(),
            "deny.toml has rules that xtask/src/dependencies.rs does not know: {}",
            left.join(", ")
        );
        ensure!(!targets.is_empty(), "deny.toml: graph.targets names no platform");
        let set = |texts: Vec<String>| texts.into_iter().collect::<BTreeSet<_>>();
        Ok(Self { targets, licences: set(allowed), denied, duplicates, registries: set(registries), git: set(git) })
    }

    /// What is wrong with the packages of one platform.
    fn broken_by(&self, metadata: &Value) -> Vec<String> {
        let ours: BTreeSet<&str> = strings(&metadata["workspace_members"]).collect();
        // Packages of other platforms are listed, and not resolved.
        let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
        let used: BTreeSet<&str> = nodes.filter_map(|node| node["id"].as_str()).collect();
        let mut wrong = Vec::new();
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let id = package["id"].as_str().unwrap_or_default();
            if !used.contains(id) {
                continue;
            }
            let (name, version) = (package["name"].as_str().unwrap_or("?"), package["version"].as_str().unwrap_or("?"));
            versions.entry(name).or_default().insert(version);
            if let Some(reason) = self.denied.get(name) {
                wrong.push(format!("{name} {version} is banned: {reason}"));
            }
            if let Some(reason) = self.wrong_source(package) {
                wrong.push(format!("{name} {version} {reason}"));
            }
            let is_private = ours.contains(id) && package["publish"].as_array().is_some_and(Vec::is_empty);
            if is_private {
                continue;
            }
            match package["license"].as_str().map(|expression| (expression, self.permits(expression))) {
                Some((_, Ok(true))) => {}
                Some((expression, Ok(false))) => wrong.push(format!("{name} {version} has the licence {expression}")),
                Some((expression, Err(error))) => wrong.push(format!("{name} {version}: {expression}: {error}")),
                None => wrong.push(format!("{name} {version} names no licence")),
            }
        }
        if self.duplicates == Level::Deny {
            let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
            wrong.extend(several.map(|(name, versions)| format!("{name} is used in several versions: {versions:?}")));
        }
        wrong
    }

    fn wrong_source(&self, package: &Value) -> Option<String> {
        // A path of this repository.
        let source = package["source"].as_str()?;
        let is_known = match source.split_once('+') {
            Some(("registry" | "sparse", registry)) => self.registries.contains(registry),
            Some(("git", url)) => self.git.contains(url.split(['?', '#']).next().unwrap_or(url)),
            _ => false,
        };
        (!is_known).then(|| format!("is from {source}"))
    }

    /// Whether an SPDX expression can be met with the licences that are allowed.
    fn permits(&self, expression: &str) -> anyhow::Result<bool> {
        let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let mut words = spaced.split_whitespace().peekable();
        let permitted = self.either(&mut words)?;
        ensure!(words.next().is_none(), "it is no SPDX expression");
        Ok(permitted)
    }

    fn either(&self, words: &mut Words<'_>) -> anyhow::Result<bool> {
        let mut permitted = self.both(words)?;
        while words.next_if_eq(&"OR").is_some() {
            permitted |= self.both(words)?;
        }
        Ok(permitted)
    }

    fn both(&self, words: &mut Words<'_>) -> anyhow::Result<bool> {
        let mut permitted = self.one(words)?;
        while words.next_if_eq(&"AND").is_some() {
            permitted &= self.one(words)?;
        }
        Ok(permitted)
    }

    fn one(&self, words: &mut Words<'_>) -> anyhow::Result<bool> {
        let word = words.next().context("it ends too early")?;
        if word == "(" {
            let permitted = self.either(words)?;
            ensure!(words.next() == Some(")"), "a parenthesis is not closed");
            return Ok(permitted);
        }
        ensure!(![")", "AND", "OR", "WITH"].contains(&word), "{word} stands where a licence should");
        if words.next_if_eq(&"WITH").is_none() {
            return Ok(self.licences.contains(word));
        }
        let exception = words.next().context("it ends too early")?;
        // An exception permits more, never less.
        Ok(self.licences.contains(word) || self.licences.contains(&format!("{word} WITH {exception}")))
    }
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// A list of texts; empty if it is not there.
fn texts(table: &mut Table, path: &str) -> anyhow::Result<Vec<String>> {
    let key = path.rsplit('.').next().unwrap_or(path);
    let Some(list) = table.remove(key) else { return Ok(Vec::new()) };
    list.try_into().with_context(|| format!("deny.toml: {path} is no list of texts"))
}

fn level(table: &mut Table, path: &str) -> anyhow::Result<Level> {
    let key = path.rsplit('.').next().unwrap_or(path);
    match table.remove(key).as_ref().map(|level| level.as_str()) {
        Some(Some("allow")) => Ok(Level::Allow),
        Some(Some("deny")) => Ok(Level::Deny),
        other => bail!("deny.toml: {path} must be \"allow\" or \"deny\", not {other:?}"),
    }
}

/// Each banned crate and why.
fn denied(list: Option<toml::Value>) -> anyhow::Result<BTreeMap<String, String>> {
    let list: Vec<BTreeMap<String, String>> = match list {
        Some(list) => list.try_into().context("deny.toml: bans.deny is no list of { crate, reason }")?,
        None => Vec::new(),
    };
    let mut denied = BTreeMap::new();
    for mut entry in list {
        let (name, reason) = (entry.remove("crate"), entry.remove("reason").unwrap_or_default());
        let name = name.context("deny.toml: an entry of bans.deny names no crate")?;
        ensure!(entry.is_empty() && !name.contains(['@', ':']), "deny.toml: bans.deny of {name} has more than a name");
        denied.insert(name, reason);
    }
    Ok(denied)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = r#"
        [graph]
        targets = ["x86_64-unknown-linux-gnu"]
        [advisories]
        yanked = "deny"
        [bans]
        multiple-versions = "allow"
        wildcards = "allow"
        deny = [{ crate = "native-tls", reason = "TLS is rustls" }]
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        private = { ignore = true }
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
        allow-registry = ["https://github.com/rust-lang/crates.io-index"]
    "#;

    fn rules() -> Rules {
        Rules::read(FILE).unwrap()
    }

    #[test]
    fn the_file_of_this_repository_has_only_rules_that_are_known() {
        let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
        assert!(Rules::read(&text).unwrap().licences.contains("MIT"));
        for unknown in ["[bans]\nskip = []", "[licenses]\nexceptions = []", "[output]\nfeature-depth = 1"] {
            let (section, rule) = unknown.split_once('\n').unwrap();
            let changed = match FILE.contains(section) {
                true => FILE.replace(section, &format!("{section}\n{rule}")),
                false => format!("{FILE}\n{unknown}"),
            };
            assert!(Rules::read(&changed).unwrap_err().to_string().contains("does not know"), "{unknown}");
        }
        assert!(Rules::read(&FILE.replace("unknown-git = \"deny\"", "unknown-git = \"warn\"")).is_err());
    }

    #[test]
    fn expressions_are_met_by_the_licences_that_are_allowed() {
        let rules = rules();
        for met in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "(GPL-3.0 OR MIT) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(rules.permits(met).unwrap(), "{met}");
        }
        for broken in ["GPL-3.0", "MIT AND GPL-3.0", "MIT AND (GPL-3.0 OR ISC)", "mit"] {
            assert!(!rules.permits(broken).unwrap(), "{broken}");
        }
        for nonsense in ["", "MIT OR", "(MIT", "MIT MIT", "AND MIT"] {
            assert!(rules.permits(nonsense).is_err(), "{nonsense}");
        }
    }

    fn metadata(packages: &[Value]) -> Value {
        let nodes: Vec<Value> = packages.iter().map(|package| json!({ "id": package["id"] })).collect();
        json!({ "packages": packages, "workspace_members": ["ours"], "resolve": { "nodes": nodes } })
    }

    #[test]
    fn what_the_file_refuses_is_found() {
        let crates_io = "registry+https://github.com/rust-lang/crates.io-index";
        let package = |name: &str, licence: Value, source: Value| json!({ "id": name, "name": name, "version": "1.0.0", "license": licence, "source": source });
        let ours = json!({ "id": "ours", "name": "ours", "version": "0.1.0", "license": "BUSL-1.1", "publish": [] });
        let good = package("good", json!("MIT"), json!(crates_io));
        let check = |more: Value| rules().broken_by(&metadata(&[ours.clone(), good.clone(), more]));
        assert_eq!(check(package("fine", json!("MIT OR GPL-3.0"), json!(crates_io))), Vec::<String>::new());
        for (package, said) in [
            (package("viral", json!("GPL-3.0"), json!(crates_io)), "has the licence GPL-3.0"),
            (package("bare", Value::Null, json!(crates_io)), "names no licence"),
            (package("native-tls", json!("MIT"), json!(crates_io)), "is banned: TLS is rustls"),
            (package("fork", json!("MIT"), json!("git+https://example.com/fork?rev=1#1")), "is from git+"),
            (package("other", json!("MIT"), json!("registry+https://example.com/index")), "is from registry+"),
        ] {
            let wrong = check(package);
            assert!(wrong.len() == 1 && wrong[0].contains(said), "{said}: {wrong:?}");
        }
        let second =
            json!({ "id": "good2", "name": "good", "version": "2.0.0", "license": "MIT", "source": crates_io });
        assert!(check(second.clone()).is_empty(), "the file allows several versions");
        let strict =
            Rules::read(&FILE.replace("multiple-versions = \"allow\"", "multiple-versions = \"deny\"")).unwrap();
        assert_eq!(strict.broken_by(&metadata(&[good.clone(), second])).len(), 1);
        // A package of another platform is not used.
        let mut unused = metadata(&[good]);
        unused["packages"].as_array_mut().unwrap().push(package("viral", json!("GPL-3.0"), json!(crates_io)));
        assert!(rules().broken_by(&unused).is_empty());
    }
}
