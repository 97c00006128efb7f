//! What the tests of agents in containers need: Podman that works here.
//!
//! Where that cannot be had, those tests say that they are skipped. Nothing else depends on it.

use std::process::Command;

use anyhow::bail;

use crate::packages;
use crate::shell::root;

/// Tells the tests that they can start containers.
pub(crate) const CONTAINERS: &str = "PUNCTUAL_TEST_CONTAINERS";

/// What Debian calls what is needed.
const PACKAGES: [&str; 2] = ["podman", "runc"];

/// A container of this file is all that Podman has to start to show that it works.
const PROBE: &str = "int main(void) { return 7; }";

/// Or why there are none.
pub(crate) fn prepare() -> anyhow::Result<()> {
    if !is_there("podman") || !is_there("runc") {
        packages::install("Podman and runc", &PACKAGES)?;
    }
    try_container()
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Many machines have Podman and do not let it start anything.
fn try_container() -> anyhow::Result<()> {
    let folder = root().join("target/podman-probe");
    std::fs::create_dir_all(&folder)?;
    let at = |name: &str| folder.join(name);
    std::fs::write(at("probe.c"), PROBE)?;
    let shell = "cc -static -o probe probe.c && tar -cf probe.tar probe && \
                 podman --root \"$PWD/root\" --runroot \"$PWD/run\" --tmpdir \"$PWD/tmp\" --runtime runc import -q probe.tar probe && \
                 podman --root \"$PWD/root\" --runroot \"$PWD/run\" --tmpdir \"$PWD/tmp\" --runtime runc \
                 run --rm --network=host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 probe /probe; \
                 code=$?; umount --lazy root/overlay 2>/dev/null; exit $code";
    let output = Command::new("sh").args(["-c", shell]).current_dir(&folder).output()?;
    let _ = std::fs::remove_dir_all(&folder);
    match output.status.code() {
        Some(7) => Ok(()),
        _ => bail!("Podman cannot start a container here: {}", last_line(&output.stderr)),
    }
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_an_error_is_what_is_told() {
        assert_eq!(last_line(b"one\ntwo\n\n"), "two");
        assert_eq!(last_line(b""), "it said nothing");
    }
}
