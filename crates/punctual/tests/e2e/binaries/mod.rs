//! Uploaded binaries, as a new user runs them: `punctual run ./tool`.

pub(crate) mod ends;
mod first_run;
mod namespaces;
mod walls;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::{Home, PUNCTUAL, Server};

/// A static binary made from C.
pub(crate) fn compile_c(home: &Home, name: &str, source: &str) -> PathBuf {
    let (code, program) = (home.file(&format!("{name}.c")), home.file(name));
    std::fs::write(&code, source).expect("the source can be written");
    let status = Command::new("cc").args(["-static", "-O1", "-o"]).arg(&program).arg(&code).status();
    assert!(status.expect("there is a C compiler").success(), "{name}.c does not compile");
    program
}

/// And from Rust.
fn compile_rust(home: &Home, name: &str, source: &str) -> PathBuf {
    let (code, program) = (home.file(&format!("{name}.rs")), home.file(name));
    std::fs::write(&code, source).expect("the source can be written");
    let status =
        Command::new("rustc").args(["-C", "target-feature=+crt-static", "-o"]).arg(&program).arg(&code).status();
    assert!(status.expect("there is a Rust compiler").success(), "{name}.rs does not compile");
    program
}

/// `punctual run PROGRAM …`, until it ends.
pub(crate) fn run(home: &Home, server: &Server, program: &Path, flags: &[&str]) -> Output {
    Command::new(PUNCTUAL)
        .args(["run", "--server", &server.url])
        .arg(program)
        .args(flags)
        .current_dir(home.path())
        .output()
        .expect("the program starts")
}

#[track_caller]
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
