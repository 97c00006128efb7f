//! Which settings are followed, and whom commands and workers speak to.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::{punctual, stderr, stdout};

#[test]
fn a_file_in_this_folder_does_not_say_who_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("punctual.toml");
    for setting in [
        "server = \"http://127.0.0.1:1\"",
        "allow_commands = true",
        "smtp_url = \"smtp://evil.example\"",
        "public_url = \"https://evil.example\"",
        "request_rate = 0",
        "retention = \"1m\"",
    ] {
        std::fs::write(&file, format!("slots = 7\n{setting}\n")).unwrap();
        let key = setting.split(' ').next().unwrap();
        let roles = [&["worker", "--exit-with-stdin"][..], &["server", "--exit-with-stdin"], &["dev"], &["doctor"]];
        let clients = [&["ps"][..], &["server", "list"]].into_iter().filter(|_| key == "server");
        for command in roles.into_iter().chain(clients) {
            let output = punctual(dir.path(), command).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{command:?}");
            let said = stderr(&output);
            let refusal = format!("./punctual.toml, line 2: `{key}` cannot be set by a file in the current folder");
            assert!(said.contains(&refusal), "{said}");
            assert!(said.contains("--config"), "{said}");
        }
        // Whoever names it has seen it.
        let output =
            punctual(dir.path(), &["config", key, "-o", "jsonl", "--config", "punctual.toml"]).output().unwrap();
        assert!(stdout(&output).contains("file punctual.toml"), "{}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn what_a_command_does_not_use_does_not_stop_it_and_is_not_obeyed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("punctual.toml"), "slots = 7\nserver = \"http://127.0.0.1:1\"\n").unwrap();
    for command in [&["completions", "bash"][..], &["exit-codes"], &["--version"], &["--help"]] {
        let output = punctual(dir.path(), command).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{command:?}");
    }
    let config = |key: &str| punctual(dir.path(), &["config", key, "-o", "jsonl"]).output().unwrap();
    let output = config("slots");
    assert!(stdout(&output).contains("\"value\":\"7\""), "the rest of the file counts: {}", stdout(&output));
    let warning = "./punctual.toml, line 2: `server` is not read: a file in the current folder cannot set it";
    assert!(stderr(&output).contains(warning), "{}", stderr(&output));
    assert!(stdout(&config("server")).contains("\"origin\":\"default\""), "{}", stdout(&config("server")));
    // Who names another server does not go by the file.
    let elsewhere = punctual(dir.path(), &["ps", "--server", "http://127.0.0.1:2"]).output().unwrap();
    assert_eq!(elsewhere.status.code(), Some(7), "{}", stderr(&elsewhere));
    assert!(stderr(&elsewhere).contains("cannot reach http://127.0.0.1:2"), "{}", stderr(&elsewhere));
    std::fs::write(dir.path().join("punctual.toml"), "smtp_url = \"smtp://evil.example\"\n").unwrap();
    let output = punctual(dir.path(), &["ps", "--server", "http://127.0.0.1:2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(stderr(&output).contains("line 1: `smtp_url` is not read"), "{}", stderr(&output));
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
fn a_link_of_another_user_in_this_folder_is_not_read() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("only root can give a link to another user");
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("real.toml"), "slots = 7\n").unwrap();
    let link = dir.path().join("punctual.toml");
    std::os::unix::fs::symlink("real.toml", &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
    let output = punctual(dir.path(), &["config", "slots", "-o", "jsonl"]).output().unwrap();
    assert!(stdout(&output).contains("\"value\":\"64\""), "{}", stdout(&output));
    assert!(stderr(&output).contains("it is a link that belongs to uid 65534"), "{}", stderr(&output));
}

#[test]
fn a_file_that_was_named_and_that_others_can_write_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let file = home.join("punctual/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "slots = 7\nallow_commands = true\n").unwrap();
    let path = file.to_str().unwrap();
    let check = |reason: &str| {
        let named = punctual(dir.path(), &["config", "slots", "--config", path]).output().unwrap();
        assert_eq!(named.status.code(), Some(2), "{}", stderr(&named));
        assert!(stderr(&named).contains(reason), "{}", stderr(&named));
        let usual = |arguments: &[&str]| {
            punctual(dir.path(), arguments)
                .env("XDG_CONFIG_HOME", &home)
                .env_remove("PUNCTUAL_CONFIG")
                .output()
                .unwrap()
        };
        let ignored = usual(&["config", "slots", "-o", "jsonl"]);
        assert!(stdout(&ignored).contains("\"value\":\"64\""), "{}", stdout(&ignored));
        assert!(stderr(&ignored).contains(reason), "{}", stderr(&ignored));
        let refused = usual(&["worker", "--exit-with-stdin"]);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    };
    std::fs::set_permissions(&file, Permissions::from_mode(0o646)).unwrap();
    check("others can write to it (mode 0646)");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        check("it belongs to uid 65534");
    }
}

#[test]
fn a_file_in_this_folder_names_no_folder_outside_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let victim = tempfile::tempdir().unwrap();
    std::fs::set_permissions(victim.path(), Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(victim.path(), dir.path().join("link")).unwrap();
    let inside = dir.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    for key in ["data_dir", "spool_dir", "cache_dir"] {
        for folder in [victim.path().to_str().unwrap(), "link", "link/below", "../x"] {
            std::fs::write(dir.path().join("punctual.toml"), format!("{key} = '{folder}'\n")).unwrap();
            for role in [&["worker", "--exit-with-stdin"][..], &["server", "--exit-with-stdin"], &["dev"]] {
                let output = punctual(dir.path(), role).output().unwrap();
                assert_eq!(output.status.code(), Some(2), "{role:?}: {}", stderr(&output));
                let refusal = format!("`{key}` cannot be set to a folder outside the current one");
                assert!(stderr(&output).contains(&refusal), "{}", stderr(&output));
            }
        }
        std::fs::write(dir.path().join("punctual.toml"), format!("{key} = 'inside'\n")).unwrap();
        let output = punctual(dir.path(), &["config", key, "-o", "jsonl"]).output().unwrap();
        assert!(stdout(&output).contains("\"value\":\"inside\""), "{}", stdout(&output));
    }
    assert_eq!(victim.path().metadata().unwrap().permissions().mode() & 0o7777, 0o755);
}

#[test]
fn a_file_of_headers_that_others_can_read_causes_a_warning() {
    let url = crate::fake::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my headers");
    std::fs::write(&file, "Authorization: Bearer s3cret\n").unwrap();
    let arguments =
        ["task", "apply", "x", "--http", "https://example.com/", "-H", "@my headers", "--server", url.as_str()];
    let said = |mode: u32| {
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        stderr(&punctual(dir.path(), &arguments).output().unwrap())
    };
    let warning = "warning: my headers: others can read or change it (mode 0644); close it with chmod 600 'my headers'";
    assert!(said(0o644).contains(warning), "{}", said(0o644));
    assert!(!said(0o600).contains("warning"), "{}", said(0o600));
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
