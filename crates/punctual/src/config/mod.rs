//! Settings, and where each value came from.
//!
//! [`table`] lists every setting. Flags come before the environment, the environment before the file, the file
//! before the defaults. Values stay text until someone reads them with the method that the table makes for each
//! setting, so that `punctual config` shows them as they were written.

mod addresses;
mod agents;
mod database;
mod file;
mod flags;
mod help;
mod kind;
mod sandbox;
mod secrets;
mod sending;
mod server;
mod setting;
mod storage;
mod table;
mod trust;
mod variables;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

pub(crate) use addresses::host_of;
pub(crate) use agents::{AgentsSettings, ContainerPlace, Spawn};
pub(crate) use database::{Connection, Database};
pub(crate) use file::unknown as unknown_setting;
pub(crate) use flags::{DevFlags, GlobalFlags, MigrateFlags, ServerFlags, WorkerFlags};
pub(crate) use help::{description, help};
pub(crate) use sandbox::{SandboxSettings, UserSettings};
pub(crate) use sending::guard_in_dev;
pub(crate) use setting::{Setting, variable};
pub(crate) use storage::Storage;
pub(crate) use table::{Durability, OpenIdSettings, ServerSettings, TlsMode, WorkerSettings, settings};
pub(crate) use trust::{Untrusted, Uses, distrust};
pub(crate) use variables::unknown as unknown_variables;

use self::file::{Found, SettingsFile};
use self::setting::Secrecy;
use self::trust::NotLocal;
use crate::exit::usage;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment(String),
    /// A saved context, by its name.
    Context(String),
    File(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Context(name) => write!(f, "context {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// What the values are taken from; handed in, so that tests need no environment.
pub(crate) struct Sources<'a> {
    pub(crate) flags: &'a [(&'static str, String)],
    pub(crate) environment: &'a dyn Fn(&str) -> Option<String>,
    /// A file that was asked for, which must exist.
    pub(crate) file: Option<PathBuf>,
    /// What happens to a file in the current folder that somebody else could have written.
    pub(crate) untrusted: Untrusted,
}

/// Every setting with its value.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    values: BTreeMap<&'static str, Value>,
    /// The file that was read, if there was one.
    pub(crate) file: Option<PathBuf>,
    /// Why another one was not.
    pub(crate) ignored: Option<String>,
    /// What the file would have set, and cannot.
    not_local: Vec<NotLocal>,
}

impl Config {
    pub(crate) fn load(sources: &Sources<'_>) -> anyhow::Result<Self> {
        let Found { file, ignored } = file::find(sources)?;
        let (mut from_file, mut not_local) = match &file {
            Some(file) => file::read(file)?,
            None => (BTreeMap::new(), Vec::new()),
        };
        let file = file.map(SettingsFile::into_path);
        let mut values = BTreeMap::new();
        for setting in settings() {
            let variable = setting.variable();
            let flag = sources.flags.iter().find(|(key, _)| *key == setting.key);
            let value = if let Some((_, text)) = flag {
                Value { text: text.clone(), origin: Origin::Flag }
            } else if let Some(text) = (sources.environment)(&variable).filter(|text| !is_of_a_job(setting.key, text)) {
                Value { text, origin: Origin::Environment(variable) }
            } else if let (Some(text), Some(path)) = (from_file.remove(setting.key), &file) {
                Value { text, origin: Origin::File(path.clone()) }
            } else if let Some((name, text)) = foreign_value(setting, sources) {
                Value { text, origin: Origin::Environment(name.to_owned()) }
            } else {
                Value { text: setting.default.to_owned(), origin: Origin::Default }
            };
            // Whoever says it elsewhere would not have gone by the file.
            not_local.retain(|found| {
                found.setting.key != setting.key || !matches!(value.origin, Origin::Flag | Origin::Environment(_))
            });
            values.insert(setting.key, value);
        }
        Ok(Self { values, file, ignored, not_local })
    }

    /// Takes values of a context, which go before files and defaults, and after flags and the environment.
    pub(crate) fn adopt(&mut self, context: &str, values: &[(&str, String)]) {
        for (key, text) in values {
            let Some(value) = self.values.get_mut(*key) else { continue };
            if matches!(value.origin, Origin::File(_) | Origin::Default) {
                *value = Value { text: text.clone(), origin: Origin::Context(context.to_owned()) };
                // Nobody would have gone by the file.
                self.not_local.retain(|found| found.setting.key != *key);
            }
        }
    }

    /// The text of a setting that a flag or the environment gives.
    pub(crate) fn given(&self, key: &str) -> Option<&str> {
        let value = self.values.get(key)?;
        matches!(value.origin, Origin::Flag | Origin::Environment(_)).then_some(value.text.as_str())
    }

    /// Refuses a command that would go by what the file in the current folder cannot set. Of the rest, people are warned.
    pub(crate) fn check_local(&self, uses: Uses) -> anyhow::Result<Vec<String>> {
        trust::check(&self.not_local, uses)?;
        Ok(trust::warnings(&self.not_local, uses))
    }

    /// A value as it may be shown: without its password.
    pub(crate) fn shown(&self, setting: &Setting) -> String {
        let text = self.text(setting.key);
        match setting.secrecy {
            Secrecy::Public => text.to_owned(),
            Secrecy::HasPassword => database::masked(text),
            Secrecy::Secret => secrets::masked(text),
        }
    }

    /// Panics on a key that is not in the table: that is our own mistake.
    pub(crate) fn value(&self, key: &str) -> &Value {
        &self.values[key]
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        &self.value(key).text
    }

    /// Reads a value, or says which setting is wrong and where it was written.
    fn parse<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> anyhow::Result<T> {
        parse(self.text(key)).map_err(|reason| self.refused(key, reason))
    }

    /// The error about a value that cannot be used.
    pub(crate) fn refused(&self, key: &str, reason: impl fmt::Display) -> anyhow::Error {
        let at = match &self.value(key).origin {
            Origin::Flag => format!("--{}", key.replace('_', "-")),
            origin => format!("setting {key} ({origin})"),
        };
        usage(format!("{at}: {reason}"), "see `punctual config --help` for every setting and its default")
    }
}

/// What the environment has under a name that other programs use too.
fn foreign_value(setting: &Setting, sources: &Sources<'_>) -> Option<(&'static str, String)> {
    let name = setting.foreign_variable?;
    Some((name, (sources.environment)(name)?))
}

/// Inside a job, `PUNCTUAL_OUTPUT` is the file for its output.
fn is_of_a_job(key: &str, text: &str) -> bool {
    key == "output" && text.starts_with('/')
}

#[cfg(test)]
mod tests;
