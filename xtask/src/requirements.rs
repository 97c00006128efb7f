//! Every requirement has a test that exists, or a reason why it has none yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::bail;

use crate::shell::root;

const PAGE: &str = "docs/requirements.md";

/// The families of requirements, and how many each has.
const FAMILIES: [(char, usize); 5] = [('A', 14), ('B', 8), ('C', 9), ('D', 8), ('E', 6)];

pub(crate) fn check() -> anyhow::Result<()> {
    eprintln!("\nchecking that every requirement has a test");
    let page = std::fs::read_to_string(root().join(PAGE))?;
    let mut tests = BTreeSet::new();
    collect(&root().join("crates"), &mut tests);
    collect(&root().join("xtask/src"), &mut tests);
    let wrong = faults(&page, &tests);
    if !wrong.is_empty() {
        bail!("{PAGE} does not fit the tests:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

fn ids() -> impl Iterator<Item = String> {
    FAMILIES.into_iter().flat_map(|(family, count)| (1..=count).map(move |number| format!("{family}{number}")))
}

fn faults(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let (covered, planned) = (rows(page, "## Covered"), rows(page, "## Planned"));
    let mut wrong = Vec::new();
    for id in ids() {
        match (covered.get(&id), planned.get(&id)) {
            (None, None) => wrong.push(format!("{id} is neither covered nor planned")),
            (_, Some(reason)) if reason.is_empty() => wrong.push(format!("{id} is planned without a reason")),
            (Some(named), _) if names(named).next().is_none() => wrong.push(format!("{id} has no test")),
            _ => {}
        }
    }
    let known: BTreeSet<String> = ids().collect();
    wrong.extend(
        covered
            .keys()
            .chain(planned.keys())
            .filter(|id| !known.contains(*id))
            .map(|id| format!("{id} is no requirement")),
    );
    for (id, named) in &covered {
        let missing = names(named).filter(|name| !tests.contains(*name));
        wrong.extend(missing.map(|name| format!("{id}: there is no test `{name}`")));
    }
    wrong
}

/// The last column of the table below a heading, by the first.
fn rows(page: &str, heading: &str) -> BTreeMap<String, String> {
    let below = page.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    let cells = below.filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let row = |line: &str| Some((line.split(" | ").next()?.to_owned(), line.split(" | ").nth(2)?.trim().to_owned()));
    cells.filter_map(row).filter(|(id, _)| id != "id").collect()
}

fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Functions with an attribute of tests, and the cases that every store passes.
fn collect(folder: &Path, tests: &mut BTreeSet<String>) {
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_case = path.components().any(|part| part.as_os_str() == "conformance");
            tests_in(&std::fs::read_to_string(&path).unwrap_or_default(), is_case, tests);
        }
    }
}

fn tests_in(source: &str, is_case: bool, tests: &mut BTreeSet<String>) {
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_test |= ["#[test]", "#[tokio::test"].iter().any(|attribute| line.starts_with(attribute));
        } else if let Some(name) = function(line) {
            if is_test || is_case {
                tests.insert(name.to_owned());
            }
            is_test = false;
        } else if !line.starts_with("//") {
            is_test = false;
        }
    }
}

fn function(line: &str) -> Option<&str> {
    let line = ["pub(super) ", "pub(crate) ", "pub ", "async "]
        .iter()
        .fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(covered: &str, planned: &str) -> String {
        format!("# T\n\n## Covered\n\n| id | r | tests |\n|---|---|---|\n{covered}\n## Planned\n\n{planned}\n")
    }

    #[test]
    fn what_is_forgotten_misnamed_or_without_a_reason_is_found() {
        let mut tests = BTreeSet::new();
        tests_in(
            "#[test]\nfn it_works() {}\nfn helper() {}\n#[tokio::test(flavor = \"x\")]\nasync fn too() {}",
            false,
            &mut tests,
        );
        assert_eq!(tests.iter().map(String::as_str).collect::<Vec<_>>(), ["it_works", "too"]);
        let all = |tests: &str| ids().map(|id| format!("| {id} | text | {tests} |\n")).collect::<String>();
        assert!(faults(&page(&all("`it_works`, `too`"), ""), &tests).is_empty());
        let without_a1 = all("`too`").replacen("| A1 |", "| A99 |", 1);
        assert_eq!(
            faults(&page(&without_a1, ""), &tests),
            ["A1 is neither covered nor planned", "A99 is no requirement"]
        );
        assert!(
            faults(&page(&without_a1.replace("| A99 | text | `too` |\n", ""), "| A1 | all | later |"), &tests)
                .is_empty()
        );
        assert_eq!(faults(&page(&all("nothing"), ""), &tests).len(), ids().count());
        assert_eq!(faults(&page(&all("`helper`"), ""), &tests)[0], "A1: there is no test `helper`");
        assert_eq!(faults(&page("", &all("")), &tests)[0], "A1 is planned without a reason");
    }

    #[test]
    fn every_requirement_of_this_project_has_a_test_or_a_reason() {
        check().unwrap();
    }
}
