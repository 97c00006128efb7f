//! Holds the glossary: a word of docs/glossary.md is the name of at most one public type.
//!
//! Reads the source as text, so that it needs no build. Does not look at private types, which nobody meets outside
//! their file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::shell::root;

/// Crates that are not shipped and describe the product once more, for proof: in them `Worker` or `Epoch` is what they
/// say about the real one.
const MIRRORS: &[&str] =
    &["comparison", "local-postgres", "local-s3", "model", "promises", "sim", "store-tests", "verify"];

/// Second types that are wanted, each with its reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("Command", "the task kind of the REST interface; core::shard::event has the command to a job"),
    ("Rerun", "what the REST interface shows of a rerun; core::shard::write has the write that makes it"),
];

/// A public type: its name and the file that declares it.
type PublicType = (String, PathBuf);

pub(crate) fn check() -> anyhow::Result<()> {
    eprintln!("\nchecking that each word of the glossary names one type");
    let glossary = root().join("docs/glossary.md");
    let glossary = std::fs::read_to_string(&glossary).with_context(|| format!("cannot read {}", glossary.display()))?;
    let mut types = Vec::new();
    for folder in std::fs::read_dir(root().join("crates"))? {
        let folder = folder?.path();
        let is_mirror = folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| MIRRORS.contains(&name));
        if !is_mirror {
            types_below(&folder.join("src"), &mut types)?;
        }
    }
    let wrong = second_types(&words(&glossary), &types);
    if !wrong.is_empty() {
        bail!(
            "these words of docs/glossary.md name more than one public type; rename all but one, or add a reason to \
             xtask/src/words.rs:\n  {}",
            wrong.join("\n  ")
        );
    }
    Ok(())
}

/// The words of the glossary as types are written: `planned time` is `PlannedTime`.
fn words(glossary: &str) -> BTreeSet<String> {
    let bold = glossary.lines().filter_map(|line| line.strip_prefix("| **")?.split("**").next());
    bold.map(camel_case).collect()
}

fn camel_case(word: &str) -> String {
    let capitalized =
        |part: &str| part.chars().take(1).flat_map(char::to_uppercase).chain(part.chars().skip(1)).collect();
    word.split([' ', '-']).map(capitalized).collect::<Vec<String>>().concat()
}

fn types_below(folder: &Path, types: &mut Vec<PublicType>) -> anyhow::Result<()> {
    let Ok(files) = std::fs::read_dir(folder) else { return Ok(()) };
    for file in files {
        let path = file?.path();
        if path.is_dir() {
            types_below(&path, types)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            let shown = path.strip_prefix(root()).unwrap_or(&path);
            types.extend(public_types(&text).map(|name| (name.to_owned(), shown.to_owned())));
        }
    }
    Ok(())
}

/// The names after `pub struct`, `pub enum`, `pub trait` and `pub type`.
fn public_types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (kind, rest) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
        let is_type = matches!(kind, "struct" | "enum" | "trait" | "type");
        is_type.then(|| rest.split(|letter: char| !letter.is_alphanumeric()).next()).flatten()
    })
}

fn second_types(words: &BTreeSet<String>, types: &[PublicType]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, path) in types {
        let is_excepted = EXCEPTIONS.iter().any(|(excepted, _)| excepted == name);
        if words.contains(name) && !is_excepted {
            places.entry(name).or_default().push(path.display().to_string());
        }
    }
    let several = places.into_iter().filter(|(_, places)| places.len() > 1);
    several.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str =
        "| **job** | One instance. |\n| **planned time** | An instant. |\n| **command** (a kind) | A line. |";

    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let types = sources.iter().flat_map(|(path, text)| {
            public_types(text).map(|name| (name.to_owned(), PathBuf::from(path))).collect::<Vec<_>>()
        });
        second_types(&words(GLOSSARY), &types.collect::<Vec<_>>())
    }

    #[test]
    fn a_second_public_type_for_a_word_is_found() {
        let sources = [("a.rs", "pub struct Job {"), ("b.rs", "    pub enum Job {\n")];
        assert_eq!(found(&sources), ["Job: a.rs, b.rs"]);
        let sources = [("a.rs", "pub type PlannedTime = u64;"), ("b.rs", "pub trait PlannedTime: Sized {")];
        assert_eq!(found(&sources), ["PlannedTime: a.rs, b.rs"]);
    }

    #[test]
    fn private_types_other_words_and_exceptions_are_left_alone() {
        let none: &[&str] = &[];
        assert_eq!(found(&[("a.rs", "pub struct Job;"), ("b.rs", "struct Job;\npub(crate) struct Job;")]), none);
        assert_eq!(found(&[("a.rs", "pub struct Parser;"), ("b.rs", "pub struct Parser;\npub struct JobId;")]), none);
        assert_eq!(found(&[("a.rs", "pub struct Command;"), ("b.rs", "pub enum Command {")]), none);
    }

    #[test]
    fn the_source_keeps_to_the_glossary() {
        check().unwrap();
    }
}
