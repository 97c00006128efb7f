//! `cargo xtask test`: everything that must hold before a change lands.

use std::time::Instant;

use crate::shell::{cargo, run as run_command};
use crate::{layers, links};

pub(crate) fn run() -> anyhow::Result<()> {
    let began = Instant::now();
    lint()?;
    tests()?;
    // nextest leaves out the examples in doc comments.
    run_command(&mut cargo(["test", "--doc", "--package", "punctual-worker"]))?;
    eprintln!("\ncargo xtask test: everything passed in {} s", began.elapsed().as_secs());
    Ok(())
}

pub(crate) fn lint() -> anyhow::Result<()> {
    run_command(&mut cargo(["fmt", "--all", "--check"]))?;
    layers::check()?;
    links::check()?;
    run_command(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    if !answers(["deny", "--version"]) {
        eprintln!("\nskipped: cargo deny check, because cargo-deny is not installed (cargo install cargo-deny)");
        return Ok(());
    }
    run_command(&mut cargo(["deny", "check", "bans", "licenses", "sources"]))
}

fn tests() -> anyhow::Result<()> {
    if answers(["nextest", "--version"]) {
        return run_command(&mut cargo(["nextest", "run", "--workspace", "--no-fail-fast"]));
    }
    eprintln!("\ncargo-nextest is not installed; cargo test does the same, more slowly (cargo install cargo-nextest)");
    run_command(&mut cargo(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]))
}

fn answers<const N: usize>(args: [&str; N]) -> bool {
    cargo(args).output().is_ok_and(|output| output.status.success())
}
