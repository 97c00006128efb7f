//! The settings file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::trust::{self, LOCAL_FILE, NotLocal, Untrusted};
use super::{Setting, Sources, settings};
use crate::exit::usage;
use crate::input::io_reason;

pub(super) enum SettingsFile {
    /// The one in the current folder.
    Local(PathBuf),
    /// One that was asked for, or the user's own.
    Chosen(PathBuf),
}

impl SettingsFile {
    fn path(&self) -> &Path {
        match self {
            Self::Local(path) | Self::Chosen(path) => path,
        }
    }

    pub(super) fn into_path(self) -> PathBuf {
        match self {
            Self::Local(path) | Self::Chosen(path) => path,
        }
    }
}

pub(super) struct Found {
    pub(super) file: Option<SettingsFile>,
    /// Why another one is not it.
    pub(super) ignored: Option<String>,
}

/// The file that was asked for, or the first of the usual ones that exists.
pub(super) fn find(sources: &Sources<'_>) -> anyhow::Result<Found> {
    let asked = sources.file.clone().or_else(|| (sources.environment)("PUNCTUAL_CONFIG").map(PathBuf::from));
    if let Some(path) = asked {
        if let Some(reason) = trust::distrust(&path) {
            return Err(usage(reason, trust::TRUST_HINT));
        }
        return Ok(Found { file: Some(SettingsFile::Chosen(path)), ignored: None });
    }
    let home = |name: &str| (sources.environment)(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let user = home("XDG_CONFIG_HOME").or_else(|| home("HOME").map(|home| home.join(".config")));
    let user = user.map(|dir| dir.join("punctual/config.toml")).filter(|path| path.is_file());
    let local = Some(PathBuf::from(LOCAL_FILE)).filter(|path| path.symlink_metadata().is_ok());
    let mut ignored = None;
    for file in [local.map(SettingsFile::Local), user.map(SettingsFile::Chosen)].into_iter().flatten() {
        match (trust::distrust(file.path()), sources.untrusted) {
            (None, _) if !file.path().is_file() => {}
            (None, _) => return Ok(Found { file: Some(file), ignored }),
            (Some(reason), Untrusted::Refuse) => return Err(usage(reason, trust::TRUST_HINT)),
            (Some(reason), Untrusted::Ignore) => ignored = Some(format!("{reason}; {}", trust::TRUST_HINT)),
        }
    }
    Ok(Found { file: None, ignored })
}

/// The values, and what is not among them because of where the file is.
pub(super) fn read(file: &SettingsFile) -> anyhow::Result<(BTreeMap<String, String>, Vec<NotLocal>)> {
    match file {
        SettingsFile::Chosen(path) => Ok((read_path(path)?.0, Vec::new())),
        SettingsFile::Local(path) => {
            let (mut values, text) = read_path(path)?;
            let not_local = trust::take_not_local(&mut values, &text);
            Ok((values, not_local))
        }
    }
}

/// The values, and the text that they were read from.
fn read_path(path: &Path) -> anyhow::Result<(BTreeMap<String, String>, String)> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        usage(
            format!("cannot read {}: {}", path.display(), io_reason(&error)),
            "name a file that you may read with --config",
        )
    })?;
    let values = parse(&text).map_err(|reason| {
        usage(
            format!("{}: {}", path.display(), reason.trim_end()),
            "see `punctual config --help` for every setting and its default",
        )
    })?;
    Ok((values, text))
}

pub(super) fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| not_toml(text, &error))?;
    let mut values = BTreeMap::new();
    for (key, value) in table {
        if !settings().any(|setting| setting.key == key) {
            return Err(unknown(&key));
        }
        let value = flatten(&value).ok_or_else(|| format!("`{key}` has a value of the wrong type"))?;
        values.insert(key, value);
    }
    Ok(values)
}

/// Where a file stops being TOML. The line itself is not shown: it may hold a password.
fn not_toml(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    format!("line {} is not valid TOML", before.matches('\n').count() + 1)
}

/// How flags and the environment would write the same value.
fn flatten(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Datetime(_) => None,
        // Tables in a list have names and values of their own: they stay apart as JSON.
        toml::Value::Array(values) if values.iter().any(toml::Value::is_table) => serde_json::to_string(values).ok(),
        toml::Value::Array(values) => {
            let texts: Option<Vec<_>> = values.iter().map(|value| value.as_str()).collect();
            texts.map(|texts| texts.join(","))
        }
        toml::Value::Table(table) => {
            let pairs: Option<Vec<_>> =
                table.iter().map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
            pairs.map(|pairs| pairs.join(","))
        }
    }
}

/// The setting that was probably meant.
pub(super) fn nearest(key: &str) -> Option<&'static Setting> {
    let written = key.replace('-', "_");
    let nearest = settings()
        .map(|setting| (strsim::damerau_levenshtein(&written, setting.key), setting))
        .min_by_key(|(distance, setting)| (*distance, setting.key))
        // Further away than a third of the word is a guess, not a correction.
        .filter(|(distance, _)| *distance <= written.len().div_ceil(3));
    nearest.map(|(_, setting)| setting)
}

/// What is said of a key that is not in the table.
pub(crate) fn unknown(key: &str) -> String {
    match nearest(key) {
        Some(nearest) => format!("there is no setting `{key}`; did you mean `{}`?", nearest.key),
        None => format!("there is no setting `{key}`"),
    }
}
