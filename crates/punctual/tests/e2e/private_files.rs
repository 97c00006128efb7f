//! Nobody else can read what servers and workers keep, whatever the umask and whatever was there before.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use punctual_api::JobRequest;
use punctual_core::run;
use punctual_core::task::{Run, TaskSpec};

use crate::cluster::{finished, submit};
use crate::harness::{Home, PUNCTUAL, Process, eventually};

/// All files and folders below one, and itself, that somebody else may read, write or enter.
fn open_to_others(folder: &Path) -> Vec<(PathBuf, u32)> {
    let found = folder.symlink_metadata().expect("it is there");
    let mut open = Vec::new();
    if !found.is_symlink() && found.mode() & 0o077 != 0 {
        open.push((folder.to_owned(), found.mode() & 0o7777));
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name() != "programs" {
            open.extend(open_to_others(&entry.path()));
        }
    }
    open
}

/// A program with another umask than ours.
fn with_umask(umask: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"umask "$1"; shift; exec "$@""#, "sh", umask, PUNCTUAL]);
    command
}

#[tokio::test]
async fn a_folder_that_others_could_enter_is_closed() {
    let home = Home::new();
    let (data, storage) = (home.file("data"), home.file("storage"));
    for folder in [&data, &storage] {
        std::fs::create_dir(folder).expect("a folder");
        std::fs::set_permissions(folder, Permissions::from_mode(0o777)).expect("it is open to all");
    }
    let flags = ["--storage", storage.to_str().expect("a path")];
    let server = home.server_at("127.0.0.1:0", &flags);
    assert_eq!(open_to_others(&data), []);
    server.process.stop();
    // As an earlier version left it.
    for entry in std::fs::read_dir(&data).expect("the folder").flatten().filter(|entry| entry.path().is_file()) {
        std::fs::set_permissions(entry.path(), Permissions::from_mode(0o644)).expect("it is open to all");
    }
    std::fs::set_permissions(&data, Permissions::from_mode(0o755)).expect("it is open to all");
    let server = home.server_at("127.0.0.1:0", &flags);
    let open: Vec<_> = open_to_others(&data).into_iter().filter(|(path, _)| !path.ends_with(".gitignore")).collect();
    assert_eq!(open, []);
    assert_eq!(open_to_others(&storage), []);
    server.process.stop();
}

#[test]
fn a_folder_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can give a folder to another user");
    }
    let home = Home::new();
    let folder = home.file("theirs");
    std::fs::create_dir(&folder).expect("a folder");
    std::os::unix::fs::chown(&folder, Some(65534), Some(65534)).expect("root gives folders away");
    for arguments in [
        &["server", "--listen", "127.0.0.1:0", "--data-dir"][..],
        &["dev", "--listen", "127.0.0.1:0", "--data-dir"],
        &["worker", "--server", "http://127.0.0.1:1", "--spool-dir"],
        &["server", "--listen", "127.0.0.1:0", "--storage"],
    ] {
        let output = Command::new(PUNCTUAL)
            .args(arguments)
            .arg(&folder)
            .current_dir(home.path())
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("belongs to uid 65534") && said.contains("chown"), "{said}");
    }
}

#[test]
fn a_folder_with_another_use_is_refused_and_left_as_it_was() {
    let home = Home::new();
    for (name, mode) in [("shared", 0o1777), ("used", 0o755)] {
        let folder = home.file(name);
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("of-somebody"), "").expect("a file");
        std::fs::set_permissions(&folder, Permissions::from_mode(mode)).expect("it is open to all");
        for arguments in [
            &["server", "--listen", "127.0.0.1:0", "--data-dir"][..],
            &["dev", "--listen", "127.0.0.1:0", "--data-dir"],
            &["worker", "--server", "http://127.0.0.1:1", "--spool-dir"],
            &["worker", "--server", "http://127.0.0.1:1", "--cache-dir"],
            &["server", "--listen", "127.0.0.1:0", "--storage"],
        ] {
            let mut command = Command::new(PUNCTUAL);
            command.args(arguments).arg(&folder).current_dir(home.path()).stdin(Stdio::null());
            let output = command.output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
            assert!(said.contains("use a new folder inside it"), "{said}");
            assert_eq!(folder.metadata().expect("it is there").mode() & 0o7777, mode, "{arguments:?}");
        }
    }
}

#[tokio::test]
async fn nothing_is_readable_by_others_whatever_the_umask() {
    let home = Home::new();
    let tmp = home.file("tmp");
    std::fs::create_dir(&tmp).expect("a folder");
    let mut dev = with_umask("000");
    dev.args(["dev", "--ephemeral", "--listen", "127.0.0.1:0", "-o", "json", "--allow-commands"]);
    dev.env("TMPDIR", &tmp).env("XDG_RUNTIME_DIR", home.file("run")).current_dir(home.path()).process_group(0);
    let mut child = dev.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("it says where it listens");
    let _dev = Process::from(child);
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let client = punctual_client::Client::new(ready["url"].as_str().expect("a URL")).expect("a URL");
    eventually("the worker is connected", || async { !client.workers().await.expect("it answers").workers.is_empty() })
        .await;

    // Commands keep the umask that the worker was started with.
    let line = format!("umask; touch {}", home.file("made").display());
    let run = Run::Command(run::Command::new(line));
    let job = submit(&client, &JobRequest { inline: Some(TaskSpec::new(run)), ..JobRequest::default() }).await;
    let job = finished(&client, job).await;
    assert_eq!(job.state, "succeeded", "{job:#?}");
    assert_eq!(home.file("made").metadata().expect("the command made it").mode() & 0o777, 0o666);

    let folders: Vec<_> = std::fs::read_dir(&tmp).expect("the folder").flatten().map(|entry| entry.path()).collect();
    assert!(folders.iter().any(|folder| folder.join("punctual.db").exists()), "{folders:?}");
    for folder in folders {
        assert_eq!(open_to_others(&folder), []);
    }
    assert_eq!(open_to_others(&home.file("run")), []);
}
