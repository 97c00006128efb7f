//! Which settings are followed, and whom commands and workers speak to.

use crate::{punctual, stderr};

#[test]
fn other_machines_are_not_spoken_to_without_tls() {
    let dir = tempfile::tempdir().unwrap();
    for command in [&["ps"][..], &["worker", "--exit-with-stdin"]] {
        for server in ["http://10.255.255.1:1", "http://nohost.invalid", "http://127.0.0.1:1,http://nohost.invalid"] {
            let output = punctual(dir.path(), &[&["--server", server][..], command].concat()).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{command:?}: {}", stderr(&output));
            assert!(stderr(&output).contains("--allow-plain-http"), "{}", stderr(&output));
        }
    }
    let allowed = ["--allow-plain-http", "--server", "http://nohost.invalid", "ps"];
    assert_eq!(punctual(dir.path(), &allowed).output().unwrap().status.code(), Some(7));
}
