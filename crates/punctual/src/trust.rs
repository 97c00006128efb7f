//! Which servers commands and workers trust over TLS.
//!
//! The authorities in `ca_file`, if there is one. Otherwise those of the system and, for a server of the same user on this machine,
//! the one that the server wrote into its data folder.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use punctual_pki::{CertificateDer, ClientTls, PkiError, Trust, certificates_from_pem};

use crate::access::data_dir_of;
use crate::config::Config;
use crate::tls::AUTHORITY_FILE;

/// Many more than anybody needs.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Whom to trust, by settings. Files are read again for each connection of a worker.
#[derive(Debug, Clone)]
pub(crate) struct TrustedAuthorities {
    ca_file: Option<PathBuf>,
    urls: Vec<String>,
}

impl TrustedAuthorities {
    /// A `ca_file` that cannot be used is reported at once.
    pub(crate) fn new(config: &Config, urls: impl IntoIterator<Item = String>) -> anyhow::Result<Self> {
        let ca_file = config.ca_file()?;
        if let Some(path) = &ca_file {
            read(path).map_err(|reason| config.refused("ca_file", reason))?;
        }
        Ok(Self { ca_file, urls: urls.into_iter().collect() })
    }

    pub(crate) fn client(&self, protocols: &[&[u8]]) -> Result<ClientTls, String> {
        let trust = self.trust()?;
        ClientTls::new(&trust, None, protocols).map_err(|error| match error {
            PkiError::NoSystemRoots => "this machine knows no authorities; name the server's with --ca-file".to_owned(),
            error => error.to_string(),
        })
    }

    /// Those that are trusted for servers, beside the system's.
    pub(crate) fn own(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        Ok(match self.trust()? {
            Trust::Roots(authorities) | Trust::SystemAnd(authorities) => authorities,
            Trust::System | Trust::Cluster(..) | Trust::Pinned(_) => Vec::new(),
        })
    }

    fn trust(&self) -> Result<Trust, String> {
        if let Some(path) = &self.ca_file {
            return Ok(Trust::Roots(read(path)?));
        }
        let own: Vec<CertificateDer<'static>> =
            self.own_files().filter_map(|file| read(&file).ok()).flatten().collect();
        Ok(if own.is_empty() { Trust::System } else { Trust::SystemAnd(own) })
    }

    /// What is trusted beside the system's authorities, for those who take certificates as PEM.
    pub(crate) fn pem(&self) -> Result<Option<String>, String> {
        if let Some(path) = &self.ca_file {
            return read_text(path).map(Some);
        }
        let own: String = self.own_files().filter_map(|file| read_text(&file).ok()).collect();
        Ok(Some(own).filter(|own| !own.is_empty()))
    }

    /// What servers of this user on this machine wrote.
    fn own_files(&self) -> impl Iterator<Item = PathBuf> {
        self.urls.iter().filter_map(|url| Some(data_dir_of(url)?.join(AUTHORITY_FILE)))
    }
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read_text(path)?;
    certificates_from_pem(text.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))
}

fn read_text(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let mut text = String::new();
    File::open(path).map_err(cannot)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{}: it is too large for certificates", path.display()));
    }
    Ok(text)
}
