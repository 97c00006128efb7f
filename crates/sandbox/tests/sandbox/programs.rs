//! Compiles the programs, once for each change of their text.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use punctual_sandbox::{Machine, check_elf, seal_program};

pub(crate) fn path(name: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let source = sources.join(name).with_extension("c");
    let mut hasher = DefaultHasher::new();
    for file in [&source, &sources.join("attack.h")] {
        fs::read(file).expect("the program's text is there").hash(&mut hasher);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let compiled = folder.join(format!("{name}-{:016x}", hasher.finish()));
    if !compiled.exists() {
        // Tests run side by side; the rename makes it appear at once and whole.
        let fresh = tempfile::NamedTempFile::new_in(folder).unwrap().into_temp_path();
        let done = Command::new("cc")
            .args(["-static", "-O1", "-w", "-pthread", "-o"])
            .arg(&fresh)
            .arg(&source)
            .output()
            .expect("a C compiler is installed");
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        fresh.persist(&compiled).unwrap();
    }
    compiled
}

pub(crate) fn sealed(name: &str) -> OwnedFd {
    let mut file = File::open(path(name)).unwrap();
    let here = Machine::here().expect("the sandbox is built for this machine");
    check_elf(&mut file, here).expect("the compiler made a static program");
    std::io::Seek::rewind(&mut file).unwrap();
    seal_program(&mut file).unwrap()
}
