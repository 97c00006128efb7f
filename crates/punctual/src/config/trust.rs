//! The settings file in the current folder. It may have come with somebody else's project, so it is read only if nobody else could
//! have written it, and it sets only what the table allows it to.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use super::setting::{LocalFile, Role};
use super::{Setting, settings};
use crate::exit::usage;

pub(super) const LOCAL_FILE: &str = "punctual.toml";

/// What happens to a file that somebody else could have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Untrusted {
    /// For servers and workers: without their settings they would run for long as nobody wanted.
    Refuse,
    Ignore,
}

/// Why a settings file is not read. A link counts like the file that it leads to: whoever owns either chooses what is read.
pub(crate) fn distrust(path: &Path) -> Option<String> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let link = path.symlink_metadata().ok().filter(Metadata::is_symlink);
    let link = link.filter(|link| link.uid() != uid && link.uid() != 0);
    let reason = match link {
        Some(link) => format!("it is a link that belongs to uid {}", link.uid()),
        // Pipes and devices are not left behind by others.
        None => std::fs::metadata(path).ok().filter(Metadata::is_file).and_then(|found| reason(&found, uid, gid))?,
    };
    let here = if path == Path::new(LOCAL_FILE) { "./" } else { "" };
    Some(format!("{here}{} is not read: {reason}", path.display()))
}

/// Said with each refusal.
pub(super) const TRUST_HINT: &str =
    "check what it says, then correct that with chown or chmod, or name a file of your own with --config";

fn reason(found: &Metadata, uid: u32, gid: u32) -> Option<String> {
    if found.uid() != uid && found.uid() != 0 {
        return Some(format!("it belongs to uid {}", found.uid()));
    }
    // Where each user has a group of their own, files are writable by it as a rule.
    let is_own_group = found.gid() == gid && gid == uid;
    let writable = found.mode() & if is_own_group { 0o002 } else { 0o022 };
    (writable != 0).then(|| format!("others can write to it (mode {:04o})", found.mode() & 0o7777))
}

/// Which of the settings that the file in the current folder cannot have a command uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uses {
    /// It speaks to no server and starts nothing.
    Nothing,
    Only(&'static [&'static str]),
    /// What every command needs that asks a server.
    Client,
    Everything,
}

impl Uses {
    fn has(self, setting: &Setting) -> bool {
        match self {
            Self::Nothing => false,
            Self::Only(keys) => keys.contains(&setting.key),
            Self::Client => setting.roles.contains(&Role::Client),
            Self::Everything => true,
        }
    }
}

/// A setting that the file in the current folder has and cannot have. It is never obeyed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotLocal {
    pub(super) setting: &'static Setting,
    line: usize,
}

/// Takes out what the file in the current folder cannot set.
pub(super) fn take_not_local(values: &mut BTreeMap<String, String>, text: &str) -> Vec<NotLocal> {
    let is_refused = |setting: &&Setting| match (setting.local_file, values.get(setting.key)) {
        (_, None) | (LocalFile::CanSet, _) => false,
        (LocalFile::CanSetInside, Some(folder)) => !is_inside(Path::new(folder)),
        (LocalFile::CannotSet, Some(_)) => true,
    };
    let found: Vec<&'static Setting> = settings().filter(is_refused).collect();
    for setting in &found {
        values.remove(setting.key);
    }
    found.into_iter().map(|setting| NotLocal { setting, line: line_of(setting.key, text) }).collect()
}

/// Whether a folder is inside the current one, also after links are followed.
fn is_inside(folder: &Path) -> bool {
    let is_below = folder.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let Ok(here) = Path::new(".").canonicalize() else { return false };
    // The part of it that exists; the rest will be made below that.
    let existing = folder.ancestors().find_map(|part| match part.symlink_metadata() {
        Ok(_) => Some(part.canonicalize()),
        Err(_) => None,
    });
    is_below && existing.is_none_or(|existing| existing.is_ok_and(|existing| existing.starts_with(&here)))
}

/// Where a file that could be read sets a key, as `key = …` or `[key]`.
fn line_of(key: &str, text: &str) -> usize {
    let sets = |line: &str| {
        let name = line.trim_start().trim_start_matches(['[', '"', '\'']).trim_start();
        name.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(['=', '.', ']', '"', '\'']))
    };
    text.lines().position(sets).unwrap_or_default() + 1
}

/// Refuses a command that would go by a setting which its file cannot have: it would do something else than it says there.
pub(super) fn check(found: &[NotLocal], uses: Uses) -> anyhow::Result<()> {
    let Some(NotLocal { setting, line }) = found.iter().find(|found| uses.has(found.setting)) else { return Ok(()) };
    let key = setting.key;
    let whither = match setting.local_file {
        LocalFile::CanSetInside => " to a folder outside the current one",
        LocalFile::CanSet | LocalFile::CannotSet => "",
    };
    Err(usage(
        format!(
            "./{LOCAL_FILE}, line {line}: `{key}` cannot be set{whither} by a file in the current folder, which may be \
             somebody else's"
        ),
        format!(
            "remove the line and set it in $XDG_CONFIG_HOME/punctual/config.toml or in {}, or name the file with \
             --config",
            setting.variable()
        ),
    ))
}

/// What is said of the others.
pub(super) fn warnings(found: &[NotLocal], uses: Uses) -> Vec<String> {
    let left_out = found.iter().filter(|found| uses != Uses::Nothing && !uses.has(found.setting));
    let warning = |NotLocal { setting, line }: &NotLocal| {
        let key = setting.key;
        format!("./{LOCAL_FILE}, line {line}: `{key}` is not read: a file in the current folder cannot set it")
    };
    left_out.map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_key_is_found_however_it_is_written() {
        let text =
            "# server = 1\nserver_x = 2\nslots = 3\n  server= \"x\"\n[webhook_keys]\na = \"b\"\n\"smtp_url\" = \"y\"\n";
        let mut values =
            super::super::file::parse("server = 'x'\nslots = 3\nsmtp_url = 'y'\n[webhook_keys]\na = 'b'").unwrap();
        let found = take_not_local(&mut values, text);
        let found: Vec<_> = found.iter().map(|found| (found.setting.key, found.line)).collect();
        assert_eq!(found, [("server", 4), ("webhook_keys", 5), ("smtp_url", 7)]);
        assert_eq!(values.keys().collect::<Vec<_>>(), ["slots"]);
    }

    #[test]
    fn only_folders_inside_the_current_one_are_inside() {
        for inside in ["data", "./data", "a/b", ".punctual", ".", "src/new/er"] {
            assert!(is_inside(Path::new(inside)), "{inside}");
        }
        for outside in ["/etc", "..", "../x", "data/../../x", "a/..", "/"] {
            assert!(!is_inside(Path::new(outside)), "{outside}");
        }
    }

    #[test]
    fn only_what_a_command_uses_stops_it() {
        let setting = |key| settings().find(|setting| setting.key == key).unwrap();
        let found =
            [NotLocal { setting: setting("server"), line: 1 }, NotLocal { setting: setting("smtp_url"), line: 2 }];
        for (uses, refused, warned) in [
            (Uses::Nothing, None, 0),
            (Uses::Only(&["database"]), None, 2),
            (Uses::Client, Some("./punctual.toml, line 1: `server`"), 1),
            (Uses::Only(&["smtp_url"]), Some("./punctual.toml, line 2: `smtp_url`"), 1),
            (Uses::Everything, Some("./punctual.toml, line 1: `server`"), 0),
        ] {
            let said = check(&found, uses).err().map(|error| error.to_string());
            assert_eq!(said.is_some(), refused.is_some(), "{uses:?}");
            assert!(said.unwrap_or_default().starts_with(refused.unwrap_or_default()));
            assert_eq!(warnings(&found, uses).len(), warned, "{uses:?}");
        }
    }
}
