//! `cargo xtask test`: everything that must hold before a change lands.

use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use punctual_local_postgres::{Settings, TEST_SERVER};

use crate::shell::{cargo, run as run_command};
use crate::{browser, containers, dependencies, layers, links, requirements, words};

pub(crate) fn run() -> anyhow::Result<()> {
    let began = Instant::now();
    lint()?;
    tests()?;
    // nextest leaves out the examples in doc comments.
    run_command(&mut cargo(["test", "--doc", "--package", "punctual-worker", "--package", "punctual-recurrence"]))?;
    eprintln!("\ncargo xtask test: everything passed in {} s", began.elapsed().as_secs());
    Ok(())
}

pub(crate) fn lint() -> anyhow::Result<()> {
    run_command(&mut cargo(["fmt", "--all", "--check"]))?;
    layers::check()?;
    dependencies::check()?;
    links::check()?;
    requirements::check()?;
    words::check()?;
    run_command(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn tests() -> anyhow::Result<()> {
    // One server for all: each test runs in a process of its own and would start another.
    let postgres = Settings::test().start().context("the tests need PostgreSQL")?;
    eprintln!("\nstarted PostgreSQL for the tests on port {}", postgres.port());
    browser::prepare().context("the tests of the dashboard need a browser")?;
    let has_containers = containers::prepare().inspect_err(|error| {
        eprintln!("\nskipped: tests of agents in containers, because {error:#}");
    });
    let with_parts = |command: &mut Command| {
        if has_containers.is_ok() {
            command.env(containers::CONTAINERS, "1");
        }
        run_command(command.env(TEST_SERVER, postgres.url()))
    };
    if answers(["nextest", "--version"]) {
        return with_parts(&mut cargo(["nextest", "run", "--workspace", "--no-fail-fast"]));
    }
    eprintln!("\ncargo-nextest is not installed; cargo test does the same, more slowly (cargo install cargo-nextest)");
    with_parts(&mut cargo(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]))
}

fn answers<const N: usize>(args: [&str; N]) -> bool {
    cargo(args).output().is_ok_and(|output| output.status.success())
}
