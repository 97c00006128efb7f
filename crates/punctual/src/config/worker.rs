//! Reads the values of settings of workers: folders, queues and labels. The settings are entries of `config/table/`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use punctual_exec::ProgramCache;

use super::{Config, WorkerSettings};

impl WorkerSettings {
    pub(crate) fn new(config: &Config) -> anyhow::Result<Self> {
        Self::read(config)
    }
}

pub(super) fn spool_folder(config: &Config) -> anyhow::Result<PathBuf> {
    match config.spool_dir()? {
        Some(folder) => Ok(folder),
        None => Ok(config.data_dir()?.join("spool")),
    }
}

pub(super) fn identity_folder(config: &Config) -> anyhow::Result<PathBuf> {
    match config.identity_dir()? {
        Some(folder) => Ok(folder),
        None => Ok(config.data_dir()?.join("identity")),
    }
}

pub(super) fn program_cache(config: &Config) -> anyhow::Result<ProgramCache> {
    let folder = match config.cache_dir()? {
        Some(folder) => folder,
        None => config.data_dir()?.join("programs"),
    };
    Ok(ProgramCache { folder, bytes_max: config.cache_max()?.get() })
}

pub(super) fn queues(text: &str) -> Result<Vec<String>, String> {
    let queues: Vec<_> = text.split(',').map(|queue| queue.trim().to_owned()).collect();
    if queues.iter().any(String::is_empty) {
        return Err("a queue needs a name".to_owned());
    }
    Ok(queues)
}

/// Reads `zone=eu,disk=ssd`.
pub(super) fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    pairs
        .map(|pair| match pair.trim().split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!("`{pair}` is not a label, such as zone=eu")),
        })
        .collect()
}
