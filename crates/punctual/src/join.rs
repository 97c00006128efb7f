//! How `punctual worker` joins a cluster from another host: which token, and where the certificate is kept.

use std::path::{Path, PathBuf};

use punctual_pki::JoinToken;

use crate::access::read_token;
use crate::config::{Config, WorkerSettings};
use crate::exit::usage;

const TOKEN_VARIABLE: &str = "PUNCTUAL_JOIN_TOKEN";
/// What the worker keeps in its identity folder.
const IDENTITY_FILE: &str = "identity.json";

/// A worker that presents a certificate.
pub(crate) struct JoinOptions {
    pub(crate) folder: PathBuf,
    /// `None`: it joined before.
    pub(crate) token: Option<JoinToken>,
}

/// `None` for a worker beside its servers, which needs no certificate. A worker that joined before does so again only with
/// servers that it reaches by TLS: a certificate is shown nowhere else.
pub(crate) fn options(
    config: &Config,
    settings: &WorkerSettings,
    servers: &[String],
) -> anyhow::Result<Option<JoinOptions>> {
    let folder = settings.identity_dir.clone();
    let token = match std::env::var(TOKEN_VARIABLE).ok().filter(|text| !text.is_empty()) {
        Some(text) => Some(parsed(&text).map_err(|reason| usage(format!("{TOKEN_VARIABLE}: {reason}"), "correct it"))?),
        None => match &settings.join {
            Some(file) => {
                let read = read_token(Path::new(file)).and_then(|text| parsed(&text));
                Some(read.map_err(|reason| config.refused("join", reason))?)
            }
            None => None,
        },
    };
    let has_joined = folder.join(IDENTITY_FILE).is_file() && servers.iter().all(|url| url.starts_with("https://"));
    Ok((token.is_some() || has_joined).then_some(JoinOptions { folder, token }))
}

fn parsed(text: &str) -> Result<JoinToken, String> {
    text.trim().parse().map_err(|error: punctual_pki::PkiError| error.to_string())
}
