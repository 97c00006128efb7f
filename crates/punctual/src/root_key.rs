//! Where a server's root keys are: in a file, in a credential of systemd, in a variable, or printed by a command.
//!
//! The first server that uses a database makes the file if there is none. Nothing else is ever written, but for rotations.

use std::any::Any;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use punctual_app::{Entropy, NoRandomness, RootKeySource, RootKeys, UnlockError};
use zeroize::Zeroizing;

use crate::exit::{conflict, failed};
use crate::folders::make_private;
use crate::input::io_reason;
use crate::random;
use crate::view::quoted;

/// In the data folder.
pub(crate) const ROOT_KEY_FILE: &str = "root.key";
/// A credential of this name is used without a setting, if systemd passes it.
const CREDENTIAL: &str = "punctual-root-key";
/// More are no keys, but the wrong file.
const BYTES_MAX: u64 = 16 << 10;
/// A command that needs longer waits for somebody, and the server with it.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(30);

/// The setting `root_key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RootKeyPlace {
    File(PathBuf),
    Credential(String),
    Variable(String),
    Command(String),
}

impl RootKeyPlace {
    /// `file:PATH` or a path, `credential:NAME`, `env:NAME` or `command:LINE`. The error does not repeat the text, which may be
    /// a key that belongs somewhere else.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        let rest = rest.trim();
        let place = match kind {
            "file" => Self::File(rest.into()),
            "credential" => Self::Credential(rest.to_owned()),
            "env" => Self::Variable(rest.to_owned()),
            "command" => Self::Command(rest.to_owned()),
            "" if rest.contains(['/', '.']) && RootKeys::read(rest).is_err() => Self::File(rest.into()),
            _ => {
                return Err(
                    "it must say where the key is, as file:PATH, credential:NAME, env:NAME or command:LINE; it is \
                            not the key itself"
                        .to_owned(),
                );
            }
        };
        if rest.is_empty() {
            return Err(format!("nothing follows {kind}:"));
        }
        if kind == "credential" && rest.contains('/') {
            return Err("the name of a credential has no slash".to_owned());
        }
        Ok(place)
    }

    /// What holds without the setting: the credential, if there is one, or the file in the data folder.
    pub(crate) fn usual(data_dir: &Path) -> Self {
        match credential(CREDENTIAL) {
            Some(path) if path.exists() => Self::Credential(CREDENTIAL.to_owned()),
            _ => Self::File(data_dir.join(ROOT_KEY_FILE)),
        }
    }
}

fn credential(name: &str) -> Option<PathBuf> {
    std::env::var_os("CREDENTIALS_DIRECTORY").map(|folder| Path::new(&folder).join(name))
}

impl RootKeySource for RootKeyPlace {
    fn place(&self) -> String {
        match self {
            Self::File(path) => std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string(),
            Self::Credential(name) => format!("the systemd credential {name}"),
            Self::Variable(name) => format!("the variable {name}"),
            Self::Command(_) => "the command of the setting root_key".to_owned(),
        }
    }

    fn read(&self) -> Result<Option<RootKeys>, String> {
        let text = match self {
            Self::File(path) => match read_file(path, 0o077) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                read => read.map_err(|error| reason(&error))?,
            },
            // systemd protects the folder, and root may own the file.
            Self::Credential(name) => {
                let path =
                    credential(name).ok_or("systemd passes no credentials: there is no CREDENTIALS_DIRECTORY")?;
                read_file(&path, 0o007).map_err(|error| reason(&error))?
            }
            Self::Variable(name) => Zeroizing::new(std::env::var(name).map_err(|_| "the variable is not set")?),
            Self::Command(line) => printed(line)?,
        };
        RootKeys::read(&text).map(Some)
    }

    fn hold(&self) -> Result<Box<dyn Any + Send>, String> {
        let Self::File(path) = self else { return Ok(Box::new(())) };
        let path = path.with_added_extension("lock");
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(|error| format!("cannot lock {}: {}", path.display(), io_reason(&error)))?;
        file.try_lock().map_err(|_| "another server is rotating it".to_owned())?;
        Ok(Box::new(file))
    }

    fn replace(&self, keys: &RootKeys, former: Option<&RootKeys>) -> Result<Option<RootKeys>, String> {
        let Self::File(path) = self else { return Ok(None) };
        if former.is_none() {
            make_folder(path)?;
        }
        write_file(path, &keys.to_text(), former.is_some())
            .map_err(|error| format!("cannot write {}: {}", path.display(), io_reason(&error)))?;
        if former.is_none() {
            let place = self.place();
            tracing::info!(file = place, "made a root key. Keep a copy: without it the database's secrets are lost");
        }
        // Of two servers that start at once, one has made it.
        self.read()
    }
}

/// Only the embedded database has made the data folder by now.
fn make_folder(path: &Path) -> Result<(), String> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            make_private(folder, "--root-key").map_err(|error| error.to_string())
        }
        Some(_) | None => Ok(()),
    }
}

fn reason(error: &io::Error) -> String {
    // What we say ourselves of a file is no error of the system.
    if error.raw_os_error().is_some() { io_reason(error) } else { error.to_string() }
}

/// `others` are the permissions that nobody else may have.
fn read_file(path: &Path, others: u32) -> io::Result<Zeroizing<String>> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let owner = found.uid();
    if owner != rustix::process::geteuid().as_raw() && owner != 0 {
        return Err(io::Error::other(format!("it belongs to uid {owner}, who could replace it")));
    }
    if found.mode() & others != 0 {
        let mode = found.mode() & 0o7777;
        return Err(io::Error::other(format!(
            "others can read or change it (mode {mode:04o}); close it with chmod 600 {}",
            quoted(&path.display().to_string())
        )));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("it is too large for a file of keys"));
    }
    Ok(text)
}

/// Durable before it returns: what is sealed with a key that is lost cannot be opened. Never half-written. A first key never
/// takes the place of one that is there.
fn write_file(path: &Path, text: &str, is_replaced: bool) -> io::Result<()> {
    let draft = path.with_added_extension(format!("{}.new", std::process::id()));
    let _ = std::fs::remove_file(&draft);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| match is_replaced {
        true => std::fs::rename(&draft, path),
        false => match std::fs::hard_link(&draft, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        },
    });
    let _ = std::fs::remove_file(&draft);
    written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// What the command prints. Its errors go to the server's log; what it printed does not.
fn printed(line: &str) -> Result<Zeroizing<String>, String> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("it cannot be started: {}", io_reason(&error)))?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Zeroizing::new(String::new());
        let read = stdout.take(BYTES_MAX + 1).read_to_string(&mut text).map(|_| text);
        let _ = sender.send(read);
    });
    let Ok(read) = receiver.recv_timeout(COMMAND_TIME_MAX) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("it printed no key within {} s", COMMAND_TIME_MAX.as_secs()));
    };
    // It has closed its output, or nobody reads what it still prints.
    let ended = child.wait().map_err(|error| io_reason(&error))?;
    if !ended.success() {
        return Err(format!("it ended with {ended}"));
    }
    match read {
        Ok(text) if text.len() as u64 <= BYTES_MAX => Ok(text),
        Ok(_) => Err("it printed too much for keys".to_owned()),
        Err(_) => Err("it printed no text".to_owned()),
    }
}

/// 256 bits of the operating system at a time.
pub(crate) fn entropy() -> anyhow::Result<Entropy> {
    // A system that has none says so at the start.
    random::secret()?;
    Ok(Arc::new(|| random::secret().map_err(|_| NoRandomness)))
}

/// Why a server does not start, with what to do about it.
pub(crate) fn not_unlocked(error: UnlockError) -> anyhow::Error {
    let message = error.to_string();
    match error {
        UnlockError::Store(error) => anyhow::Error::new(error).context("cannot read the keys of the database"),
        UnlockError::Source { .. } => {
            failed(message, "correct it, or name another place with --root-key (`root_key`); see docs/secrets.md")
        }
        UnlockError::Mismatch { wanted, .. } => conflict(
            message,
            format!(
                "copy the file {ROOT_KEY_FILE} from the data_dir of a server that uses this database, or name the place of \
                 root key {wanted} with --root-key (`root_key`). All servers of a database need the same root key. Nothing \
                 was changed; see docs/secrets.md"
            ),
        ),
        UnlockError::NoRandomness(_) => failed(message, "look at the operating system: it cannot make keys"),
        UnlockError::Damaged { .. } => {
            conflict(message, "restore the database from a backup. Nothing was changed; see docs/secrets.md")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use punctual_app::RootKey;

    use super::*;

    #[test]
    fn the_setting_says_where_the_key_is_and_is_not_the_key() {
        let parse = |text: &str| RootKeyPlace::parse(text);
        assert_eq!(parse("file:root.key"), Ok(RootKeyPlace::File("root.key".into())));
        assert_eq!(parse("/etc/punctual/root.key"), Ok(RootKeyPlace::File("/etc/punctual/root.key".into())));
        assert_eq!(parse("credential:root"), Ok(RootKeyPlace::Credential("root".to_owned())));
        assert_eq!(parse("env:ROOT_KEY"), Ok(RootKeyPlace::Variable("ROOT_KEY".to_owned())));
        assert_eq!(
            parse("command:vault read -field=x y"),
            Ok(RootKeyPlace::Command("vault read -field=x y".to_owned()))
        );
        for bad in ["ab".repeat(32).as_str(), "file:", "credential:../x", "other:thing", "root"] {
            let refused = parse(bad).unwrap_err();
            assert!(!refused.contains("abab"), "{refused}");
        }
    }

    #[test]
    fn a_file_is_made_once_and_read_only_if_nobody_else_can() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(ROOT_KEY_FILE);
        let place = RootKeyPlace::File(path.clone());
        assert!(place.read().unwrap().is_none());
        let [first, second] = [1, 2].map(|byte| RootKeys::with_new(RootKey::new([byte; 32]), None));
        for keys in [&first, &second] {
            let kept = place.replace(keys, None).unwrap().unwrap();
            assert_eq!(kept.first().id(), first.first().id(), "the first stays");
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let both = RootKeys::with_new(second.first().clone(), Some(&first));
        let kept = place.replace(&both, Some(&first)).unwrap().unwrap();
        assert_eq!(kept.ids(), both.ids());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(place.read().unwrap_err().contains("chmod 600"));
    }

    #[test]
    fn one_rotation_holds_the_file_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let place = RootKeyPlace::File(folder.path().join(ROOT_KEY_FILE));
        let held = place.hold().unwrap();
        assert!(place.hold().is_err());
        drop(held);
        assert!(place.hold().is_ok());
    }

    #[test]
    fn a_command_prints_the_key() {
        let key = "cd".repeat(32);
        let place = |line: String| RootKeyPlace::Command(line);
        let keys = place(format!("echo {key}")).read().unwrap().unwrap();
        assert_eq!(keys.first().id(), RootKey::new([0xcd; 32]).id());
        for line in [format!("echo {key}; exit 3"), format!("echo x{key}"), "true".to_owned(), "yes".to_owned()] {
            let refused = place(line).read().unwrap_err();
            assert!(!refused.contains("cdcd"), "{refused}");
        }
    }
}
