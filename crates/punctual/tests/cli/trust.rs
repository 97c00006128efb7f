//! Which settings are followed, and whom commands and workers speak to.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::{punctual, stderr, stdout};

#[test]
fn a_file_in_this_folder_does_not_say_who_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("punctual.toml");
    for setting in ["server = \"http://127.0.0.1:1\"", "allow_commands = true", "smtp_url = \"smtp://evil.example\""] {
        std::fs::write(&file, setting).unwrap();
        let key = setting.split(' ').next().unwrap();
        for command in [&["ps"][..], &["worker", "--exit-with-stdin"], &["server", "--exit-with-stdin"], &["dev"]] {
            let output = punctual(dir.path(), command).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{command:?}");
            let said = stderr(&output);
            assert!(said.contains(&format!("`{key}` cannot be set by a file in the current folder")), "{said}");
            assert!(said.contains("--config"), "{said}");
        }
        // Whoever names it has seen it.
        let output =
            punctual(dir.path(), &["config", key, "-o", "jsonl", "--config", "punctual.toml"]).output().unwrap();
        assert!(stdout(&output).contains("file punctual.toml"), "{}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn a_file_in_this_folder_that_others_can_write_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("punctual.toml");
    std::fs::write(&file, "slots = 7\n").unwrap();
    let check = |reason: &str| {
        let output = punctual(dir.path(), &["config", "slots", "-o", "jsonl"]).output().unwrap();
        assert!(stdout(&output).contains("\"value\":\"64\""), "{}", stdout(&output));
        assert!(stderr(&output).contains("warning: ./punctual.toml is not read"), "{}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
        for role in [&["worker", "--exit-with-stdin"][..], &["server", "--exit-with-stdin"]] {
            let output = punctual(dir.path(), role).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{role:?}: {}", stderr(&output));
            assert!(stderr(&output).contains(reason) && stderr(&output).contains("--config"), "{}", stderr(&output));
        }
    };
    std::fs::set_permissions(&file, Permissions::from_mode(0o646)).unwrap();
    check("others can write to it (mode 0646)");
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    if !rustix::process::geteuid().is_root() {
        return eprintln!("only root can give a file to another user");
    }
    std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
    check("it belongs to uid 65534");
}

#[test]
fn unknown_variables_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let output = punctual(dir.path(), &["config", "slots"]).env("PUNCTUAL_SLOT", "7").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("did you mean PUNCTUAL_SLOTS?"), "{}", stderr(&output));
    for role in [&["worker", "--exit-with-stdin"][..], &["server", "--exit-with-stdin"], &["dev"]] {
        let output = punctual(dir.path(), role).env("PUNCTUAL_SLOT", "7").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{role:?}");
        assert!(stderr(&output).contains("did you mean PUNCTUAL_SLOTS?"), "{}", stderr(&output));
    }
}

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
