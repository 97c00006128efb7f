//! The access token: where a server keeps it, and how commands and workers of the same user find it.
//!
//! A server writes it into its data folder, and into a folder of its user where that file is, by the address that it listens
//! on. The server's own user and root need neither: the kernel says who they are.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_app::{AccessToken, ClusterKeys, SocketUser};
use punctual_client::loopback_addresses;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::context::ChosenContext;
use crate::exit::usage;
use crate::folders;
use crate::secret_files::exposure;

/// In the data folder.
const TOKEN_FILE: &str = "token";

/// A token on its own, such as for a container that has no file.
const TOKEN_VARIABLE: &str = "PUNCTUAL_TOKEN";

/// More is not a token, but the wrong file.
const TOKEN_BYTES_MAX: u64 = 4096;

/// Answers the token for the server at an address, if there is one.
pub(crate) type TokenSource = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Writes the token into the data folder, and answers where. A server works without: its own user needs none.
pub(crate) fn keep_token(data_dir: &Path, token: &AccessToken) -> Option<PathBuf> {
    let kept = std::path::absolute(data_dir).map_err(anyhow::Error::new).and_then(|folder| {
        folders::make_private(&folder, "--data-dir")?;
        let file = folder.join(TOKEN_FILE);
        // Also a full disk leaves a server with the token that it had.
        if !read_own(&file).is_ok_and(|kept| kept == token.as_str()) {
            write_whole(&file, token.as_str())?;
        }
        Ok(file)
    });
    match kept {
        Ok(file) => Some(file),
        Err(error) => {
            tracing::warn!("the access token cannot be stored, so other users have no access: {error:#}");
            None
        }
    }
}

/// Writes the token again when the servers sign with another secret. All of them accept the new one by then.
pub(crate) fn keep_token_fresh(data_dir: &Path, keys: &ClusterKeys) -> JoinHandle<()> {
    let (data_dir, mut keys) = (data_dir.to_owned(), keys.subscribe());
    // What changed since the token was written first.
    keys.mark_changed();
    tokio::spawn(async move {
        while keys.changed().await.is_ok() {
            let now = Arc::clone(&keys.borrow_and_update());
            keep_token(&data_dir, now.access_token());
        }
    })
}

/// Never half-written: a reader finds the old file or the new one.
pub(crate) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_added_extension(format!("{}.new", std::process::id()));
    let _ = std::fs::remove_file(&draft);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = writeln!(file, "{text}").and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// The note on where the token of a server is. Removed with this.
pub(crate) struct Published {
    note: PathBuf,
    token_file: PathBuf,
}

/// Notes where the token of the server at `address` is, for commands of the same user. Without such a note they are told of
/// --token-file.
pub(crate) fn publish(address: SocketAddr, token_file: &Path) -> Option<Published> {
    let written = note_folders().into_iter().find_map(|folder| {
        folders::make_private(&folder, "XDG_RUNTIME_DIR").ok()?;
        sweep(&folder);
        let note = folder.join(address.to_string());
        write_whole(&note, token_file.to_str()?).ok()?;
        Some(Published { note, token_file: token_file.to_owned() })
    });
    if written.is_none() {
        tracing::debug!(%address, "there is no folder of this user for a note on the access token");
    }
    written
}

impl Drop for Published {
    fn drop(&mut self) {
        // By now another server may have the address.
        if read_own(&self.note).is_ok_and(|path| Path::new(&path) == self.token_file) {
            let _ = std::fs::remove_file(&self.note);
        }
    }
}

/// Removes the notes of servers that were killed and whose data is gone.
fn sweep(folder: &Path) {
    for note in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if read_own(&note.path()).is_ok_and(|token_file| !Path::new(&token_file).exists()) {
            let _ = std::fs::remove_file(note.path());
        }
    }
}

/// Where a user's notes may be. A service and a login of the same user may differ in what they have.
fn note_folders() -> Vec<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let login = PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw()));
    let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")));
    let bases = [folder("XDG_RUNTIME_DIR"), Some(login).filter(|login| login.is_dir()), state];
    bases.into_iter().flatten().map(|base| base.join("punctual/servers")).collect()
}

/// The token that the settings name, that of a context for its own servers, or the one of a server of this user.
pub(crate) fn token_source(config: &Config, context: Option<&ChosenContext>) -> anyhow::Result<TokenSource> {
    if let Some(token) = token_of_environment() {
        let token = checked(&token).map_err(|reason| usage(format!("{TOKEN_VARIABLE}: {reason}"), "correct it"))?;
        return Ok(Arc::new(move |_| Some(token.clone())));
    }
    if let Some(context) = context.filter(|_| config.given("token_file").is_none()) {
        let own: Vec<String> = servers(&context.context.server).map(str::to_owned).collect();
        // A command that prints the token is run only if the token is for a server that is asked.
        if servers(&config.server()?).any(|server| own.iter().any(|own| own == server))
            && let Some(token) = context.context.token(&context.name)?
        {
            return Ok(Arc::new(
                move |url: &str| if own.iter().any(|own| own == url) { Some(token.clone()) } else { find(url) },
            ));
        }
    }
    match config.token_file()?.map(PathBuf::from) {
        None => Ok(Arc::new(find)),
        Some(path) => {
            // A wrong path is told at once.
            read_token(&path).map_err(|reason| config.refused("token_file", reason))?;
            Ok(Arc::new(move |_| read_token(&path).ok()))
        }
    }
}

/// The addresses of a list, as the client writes them.
fn servers(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(|server| server.trim().trim_end_matches('/'))
}

fn token_of_environment() -> Option<String> {
    std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty())
}

pub(crate) fn read_token(path: &Path) -> Result<String, String> {
    let cannot = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let file = File::open(path).map_err(cannot)?;
    let found = file.metadata().map_err(cannot)?;
    if let Some(exposure) = exposure(path, &found) {
        return Err(format!("{}: {exposure}", path.display()));
    }
    let text = read_short(file).map_err(cannot)?;
    checked(&text).map_err(|reason| format!("{}: {reason}", path.display()))
}

/// What a header can carry.
pub(crate) fn checked(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("this is not an access token".to_owned());
    }
    Ok(text.to_owned())
}

/// The users whose servers on this machine may be sent requests and secrets, and may send work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrustedUsers {
    /// Beside this process's own user and root.
    others: Vec<u32>,
}

/// What to do about a listener that is not trusted. Commands show it as the hint, and worker logs with the reason.
pub(crate) const NAME_ITS_USER: &str = "if that is the server, name its user with --server-user";

impl TrustedUsers {
    /// This user and root alone.
    pub(crate) const OWN: Self = Self { others: Vec::new() };

    /// A token proves who a client is, and nothing about the server: the owner of its file does.
    pub(crate) fn new(config: &Config) -> anyhow::Result<Self> {
        let mut others = Vec::new();
        if let Some(user) = config.server_user()? {
            let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
            let uid = uid_of(&user, &known);
            others.push(uid.ok_or_else(|| config.refused("server_user", format!("there is no user `{user}`")))?);
        }
        if token_of_environment().is_none()
            && let Some(file) = config.token_file()?
        {
            others.extend(std::fs::metadata(file).ok().map(|found| found.uid()));
        }
        Ok(Self { others })
    }

    /// Why nothing may be sent to whoever listens at an address of this machine.
    pub(crate) fn distrust(&self, address: SocketAddr) -> Option<String> {
        if !address.ip().to_canonical().is_loopback() {
            return None;
        }
        match punctual_server::listening_user(address)? {
            SocketUser::Own | SocketUser::Root | SocketUser::Unknown => None,
            SocketUser::Other(uid) if self.others.contains(&uid) => None,
            SocketUser::Other(uid) => Some(format!(
                "the user with the id {uid} listens at {address}, and not this user or root; {NAME_ITS_USER}"
            )),
        }
    }
}

/// `known` is in the format of `/etc/passwd`. Users of a directory service are named by their numbers.
fn uid_of(user: &str, known: &str) -> Option<u32> {
    let named = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, uid) = (fields.next()?, fields.next()?, fields.next()?);
        (name == user).then(|| uid.parse().ok()).flatten()
    });
    named.or_else(|| user.parse().ok())
}

/// The token of a server of this user at an address of this machine. Clients check who listens there before they send it.
fn find(url: &str) -> Option<String> {
    let token = read_own(&token_file_of(url)?).ok()?;
    checked(&token).ok()
}

/// The data folder of a server of this user at an address of this machine.
pub(crate) fn data_dir_of(url: &str) -> Option<PathBuf> {
    token_file_of(url)?.parent().map(Path::to_owned)
}

fn token_file_of(url: &str) -> Option<PathBuf> {
    loopback_addresses(url).into_iter().find_map(|address| {
        let notes = note_folders().into_iter().map(|folder| folder.join(address.to_string()));
        let written = |note: &PathBuf| note.metadata().and_then(|found| found.modified()).ok();
        // A server that was killed may have left a note elsewhere.
        let note = notes.filter(|note| read_own(note).is_ok()).max_by_key(written)?;
        let path = PathBuf::from(read_own(&note).ok()?);
        path.exists().then_some(path)
    })
}

fn read_own(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let owner = file.metadata()?.uid();
    if owner != rustix::process::geteuid().as_raw() && owner != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(read_short(file)?.trim_end().to_owned())
}

fn read_short(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(TOKEN_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > TOKEN_BYTES_MAX {
        return Err(io::Error::other("it is too large for an access token"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_file_that_others_can_read_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "punctual_12\n").unwrap();
        let open = |mode| std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o644, 0o640, 0o604, 0o620] {
            open(mode);
            let refused = read_token(file.path()).unwrap_err();
            assert!(refused.contains(&format!("others can read or change it (mode {mode:04o})")), "{refused}");
        }
        open(0o600);
        assert_eq!(read_token(file.path()), Ok("punctual_12".to_owned()));
    }

    #[test]
    fn users_are_known_by_name_or_number() {
        let known = "root:x:0:0:root:/root:/bin/bash\nbroken\n12:x:7:7::/:\ncron:x:1000:1000::/home/cron:/bin/sh\n";
        for (user, uid) in [("root", Some(0)), ("cron", Some(1000)), ("12", Some(7)), ("13", Some(13)), ("eve", None)] {
            assert_eq!(uid_of(user, known), uid, "{user}");
        }
    }

    #[test]
    fn what_no_header_can_carry_is_no_token() {
        assert_eq!(checked(" punctual_12\n"), Ok("punctual_12".to_owned()));
        for text in ["", " \n", "a b", "a\nb", "é"] {
            assert!(checked(text).is_err(), "{text:?}");
        }
    }
}
