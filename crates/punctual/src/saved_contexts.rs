//! Contexts: servers that somebody uses, by name, with what each needs to be used.
//!
//! They are in `$XDG_CONFIG_HOME/punctual/contexts.toml`, which only its owner can read. A token is sent to the server of its
//! own context and to no other. Servers and workers have no part in this: a login is a person's.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::access::{checked, write_whole};
use crate::config::distrust;
use crate::exit::{failed, usage};
use crate::input::io_reason;

/// More is a mistake: each is a server that somebody uses.
pub(crate) const CONTEXTS_MAX: usize = 100;
const FILE_BYTES_MAX: u64 = 256 << 10;
const NAME_CHARS_MAX: usize = 128;
/// What a command that prints a token may take: it may ask a person.
const TOKEN_COMMAND_MAX: Duration = Duration::from_secs(60);
const TOKEN_BYTES_MAX: u64 = 4096;

/// What is needed to use a server.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedContext {
    pub(crate) server: String,
    #[serde(default)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Of a session or a key. A secret.
    #[serde(default)]
    pub(crate) token: Option<String>,
    /// Prints the token, such as a password manager.
    #[serde(default)]
    pub(crate) token_command: Option<String>,
    /// Who logged in.
    #[serde(default)]
    pub(crate) user: Option<String>,
    /// In which commands work.
    #[serde(default)]
    pub(crate) namespace: Option<String>,
}

impl fmt::Debug for SavedContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, ca_file, token, token_command, user, namespace } = self;
        let token = token.as_ref().map(|_| "***");
        let command = token_command.as_ref().map(|_| "***");
        f.debug_tuple("SavedContext").field(&(server, ca_file, token, command, user, namespace)).finish()
    }
}

impl SavedContext {
    /// The token, from where the context says.
    pub(crate) fn token(&self, name: &str) -> anyhow::Result<Option<String>> {
        let token = match (&self.token, &self.token_command) {
            (Some(token), _) => token.clone(),
            (None, Some(command)) => run_token_command(name, command)?,
            (None, None) => return Ok(None),
        };
        let read = checked(&token);
        read.map(Some).map_err(|_| {
            failed(
                format!("context {name}: what it has is not a token"),
                format!("log in again: punctual login --context {name}"),
            )
        })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedContexts {
    /// The one that is used unless another one is named.
    #[serde(default)]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, SavedContext>,
}

impl SavedContexts {
    /// None if there is no file. One that others could have read or written is refused.
    pub(crate) fn read() -> anyhow::Result<Self> {
        match place() {
            Some(path) => Self::read_path(&path),
            None => Ok(Self::default()),
        }
    }

    fn read_path(path: &Path) -> anyhow::Result<Self> {
        let cannot = |error: io::Error| {
            usage(format!("cannot read {}: {}", path.display(), io_reason(&error)), "correct or remove the file")
        };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(cannot(error)),
        };
        if let Some(reason) = distrust(path) {
            return Err(usage(reason, "check what it says, then correct that with chown or chmod"));
        }
        let found = file.metadata().map_err(cannot)?;
        if found.is_file() && found.mode() & 0o077 != 0 {
            let mode = found.mode() & 0o7777;
            return Err(usage(
                format!("{}: others can read it (mode {mode:04o}), and it may hold tokens", path.display()),
                format!("close it: chmod 600 {}; log out and in again if somebody may have read it", path.display()),
            ));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
        let too_large = text.len() as u64 > FILE_BYTES_MAX;
        // What is wrong with it is not quoted: it may be a token.
        let read = toml::from_str(&text).ok().filter(|_| !too_large);
        read.ok_or_else(|| {
            usage(format!("{} is not a file of contexts", path.display()), "correct it, or remove it and log in again")
        })
    }

    /// Reads, changes and writes the file. Of several who do so at once, one comes after the other.
    pub(crate) fn change<T>(change: impl FnOnce(&mut Self) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let path = place().ok_or_else(|| {
            usage("there is no home folder for contexts", "set HOME or XDG_CONFIG_HOME, or use PUNCTUAL_TOKEN")
        })?;
        let folder = path.parent().expect("the file has a folder");
        let cannot = |error: io::Error| {
            failed(format!("cannot write {}: {}", path.display(), io_reason(&error)), "correct that and try again")
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(cannot)?;
        let is_own = |found: Metadata| found.uid() == rustix::process::geteuid().as_raw() || found.uid() == 0;
        if !std::fs::metadata(folder).is_ok_and(is_own) {
            return Err(usage(format!("{} belongs to another user", folder.display()), "set XDG_CONFIG_HOME"));
        }
        let lock = path.with_added_extension("lock");
        let lock = File::options().write(true).create(true).truncate(false).mode(0o600).open(lock).map_err(cannot)?;
        lock.lock().map_err(cannot)?;
        let mut contexts = Self::read_path(&path)?;
        let value = change(&mut contexts)?;
        if contexts.contexts.len() > CONTEXTS_MAX {
            return Err(usage(
                format!("there are {CONTEXTS_MAX} contexts, the most there may be"),
                "delete those that nobody needs: punctual context delete NAME",
            ));
        }
        write_whole(&path, contexts.to_toml().trim_end()).map_err(cannot)?;
        Ok(value)
    }

    fn to_toml(&self) -> String {
        // What JSON escapes, TOML reads; one character more is forbidden there.
        let quoted = |text: &str| serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f");
        let current = self.current.iter().map(|name| format!("current = {}\n", quoted(name)));
        let contexts = self.contexts.iter().map(|(name, context)| {
            let SavedContext { server, ca_file, token, token_command, user, namespace } = context;
            let ca_file = ca_file.as_ref().map(|path| path.display().to_string());
            let fields = [
                ("server", Some(server)),
                ("ca_file", ca_file.as_ref()),
                ("token", token.as_ref()),
                ("token_command", token_command.as_ref()),
                ("user", user.as_ref()),
                ("namespace", namespace.as_ref()),
            ];
            let lines = fields.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}\n", quoted(value?))));
            format!("\n[contexts.{}]\n{}", quoted(name), lines.collect::<String>())
        });
        current.chain(contexts).collect()
    }

    /// The context of this name, or the current one. `None` if there is neither name nor current one.
    pub(crate) fn chosen(&self, name: Option<&str>) -> anyhow::Result<Option<(&str, &SavedContext)>> {
        let Some(name) = name.or(self.current.as_deref()) else { return Ok(None) };
        let found = self.contexts.get_key_value(name);
        let found = found.ok_or_else(|| no_context(name))?;
        Ok(Some((found.0.as_str(), found.1)))
    }
}

pub(crate) fn no_context(name: &str) -> anyhow::Error {
    usage(
        format!("there is no context `{name}`"),
        "see what there is with `punctual context list`; `punctual login` makes one",
    )
}

/// What names a context, on the command line and in the file.
pub(crate) fn context_name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '@');
    if text.is_empty() || text.len() > NAME_CHARS_MAX || !text.chars().all(is_allowed) || text.starts_with('-') {
        return Err(format!("must be 1 to {NAME_CHARS_MAX} letters, digits, dots, dashes, underscores, colons or @"));
    }
    Ok(text.to_owned())
}

/// A name for the context of a server: its host and port.
pub(crate) fn name_of_server(server: &str) -> String {
    let first = server.split(',').next().unwrap_or_default().trim();
    let rest = first.split_once("://").map_or(first, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let is_allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
    let name: String = authority.chars().filter(is_allowed).take(NAME_CHARS_MAX).collect();
    let name = name.trim_start_matches(['-', ':', '.']);
    if name.is_empty() { "default".to_owned() } else { name.to_owned() }
}

/// The file; `None` for somebody without a home.
pub(crate) fn place() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))?;
    Some(config.join("punctual/contexts.toml"))
}

/// The first line that the command prints. It may ask a person, so it has the terminal.
fn run_token_command(name: &str, command: &str) -> anyhow::Result<String> {
    let refused = |reason: String| {
        failed(
            format!("context {name}: its token command {reason}"),
            format!("run it by hand, or change it: punctual context set {name} --token-command …"),
        )
    };
    let started = Command::new("/bin/sh").arg("-c").arg(command).stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| refused(format!("cannot be started: {error}")))?;
    let stdout = child.stdout.take().expect("its output is a pipe");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.take(TOKEN_BYTES_MAX + 1).read_to_string(&mut text).map(|_| text)
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| refused(error.to_string()))? {
            Some(status) => break status,
            None if begun.elapsed() > TOKEN_COMMAND_MAX => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(refused(format!("did not end within {} s", TOKEN_COMMAND_MAX.as_secs())));
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    if !status.success() {
        return Err(refused(format!("failed ({status})")));
    }
    let text = reader.join().ok().and_then(Result::ok).unwrap_or_default();
    if text.len() as u64 > TOKEN_BYTES_MAX {
        return Err(refused("printed more than a token".to_owned()));
    }
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn context(token: Option<&str>) -> SavedContext {
        SavedContext {
            server: "http://127.0.0.1:8020".to_owned(),
            token: token.map(str::to_owned),
            ..SavedContext::default()
        }
    }

    #[test]
    fn contexts_read_back_and_show_no_token() {
        let contexts = SavedContexts {
            current: Some("prod".to_owned()),
            contexts: [("prod".to_owned(), context(Some("punctual_session_1")))].into(),
        };
        assert_eq!(toml::from_str::<SavedContexts>(&contexts.to_toml()).unwrap(), contexts);
        let odd = SavedContext {
            ca_file: Some("/a b/\"ü\"\u{7f}\\.pem".into()),
            token_command: Some("pass 'x' | head -1\n\t# \u{1}".to_owned()),
            user: Some("ana".to_owned()),
            namespace: Some("team-a".to_owned()),
            ..context(None)
        };
        let odd = SavedContexts { current: None, contexts: [("127.0.0.1:8020".to_owned(), odd)].into() };
        assert_eq!(toml::from_str::<SavedContexts>(&odd.to_toml()).unwrap(), odd);
        assert!(!format!("{contexts:?}").contains("punctual_session"));
        assert_eq!(contexts.chosen(None).unwrap().unwrap().0, "prod");
        assert!(contexts.chosen(Some("dev")).is_err());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_and_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("contexts.toml");
        assert_eq!(SavedContexts::read_path(&path).unwrap(), SavedContexts::default());
        std::fs::write(&path, "current = 'a'\n[contexts.a]\nserver = 'http://127.0.0.1:1'\ntoken = 'punctual_x'\n")
            .unwrap();
        let open = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o644, 0o640, 0o604, 0o660] {
            open(mode);
            assert!(SavedContexts::read_path(&path).is_err(), "{mode:o}");
        }
        open(0o600);
        assert_eq!(SavedContexts::read_path(&path).unwrap().current.as_deref(), Some("a"));
        std::fs::write(&path, "token = punctual_secret").unwrap();
        let refused = SavedContexts::read_path(&path).unwrap_err();
        assert!(!format!("{refused:#}").contains("punctual_secret"), "{refused:#}");
    }

    #[test]
    fn a_token_comes_from_a_command() {
        let of = |command: &str| {
            let command = Some(command.to_owned());
            SavedContext { token_command: command, ..context(None) }.token("prod")
        };
        assert_eq!(of("printf 'punctual_key_1\\nmore'").unwrap().as_deref(), Some("punctual_key_1"));
        for bad in ["exit 3", "true", "echo a b", "head -c 9999 /dev/zero | tr '\\0' x"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert_eq!(context(None).token("prod").unwrap(), None);
    }

    #[test]
    fn a_context_is_named_after_its_server() {
        for (server, name) in [
            ("https://jobs.example.com", "jobs.example.com"),
            ("http://127.0.0.1:8020,http://127.0.0.1:8021", "127.0.0.1:8020"),
            ("https://h/prefix", "h"),
            ("http://[::1]:8020", "1:8020"),
            ("", "default"),
        ] {
            assert_eq!(name_of_server(server), name);
            assert!(context_name(&name_of_server(server)).is_ok());
        }
        for bad in ["", "a b", "../x", "-x", "ü"] {
            assert!(context_name(bad).is_err(), "{bad}");
        }
    }
}
