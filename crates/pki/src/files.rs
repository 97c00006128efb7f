use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

use punctual_core::Timestamp;
use sha2::{Digest, Sha256};

use crate::{Credentials, PkiError};

/// A chain of certificates takes a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How a file is open to others, and what closes it; `None` if it is not.
pub type Exposure = fn(&Path, &Metadata) -> Option<String>;

/// A certificate and its key in two files that somebody renews.
#[derive(Debug)]
pub struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    /// Of the key: one that others can read is not used.
    exposure: Exposure,
    /// Of what was read last, whether it was good or not: a broken file is reported once.
    seen: Option<[u8; 32]>,
}

/// What a look at the files found.
#[derive(Debug)]
pub enum Reload {
    Unchanged,
    New(Credentials),
    /// The files changed and cannot be used. Said once for each content.
    Broken(PkiError),
}

impl CertificateFiles {
    pub fn new(certificate: PathBuf, key: PathBuf, exposure: Exposure) -> Self {
        Self { certificate, key, exposure, seen: None }
    }

    /// Reads both files. Compares contents rather than times: a file that is linked to a new one may keep its time. A pair that
    /// is just being replaced does not fit together and is tried again at the next look.
    pub fn look(&mut self, now: Timestamp) -> Reload {
        let read = read(&self.certificate, |_, _| None)
            .and_then(|certificate| Ok((certificate, read(&self.key, self.exposure)?)));
        let digest = match &read {
            Ok((certificate, key)) => {
                let parts = Sha256::digest(certificate).into_iter().chain(Sha256::digest(key));
                Sha256::digest(parts.collect::<Vec<u8>>()).into()
            }
            Err(error) => Sha256::digest(error.to_string()).into(),
        };
        if self.seen == Some(digest) {
            return Reload::Unchanged;
        }
        self.seen = Some(digest);
        match read.and_then(|(certificate, key)| Credentials::from_pem(&certificate, &key, now)) {
            Ok(credentials) => Reload::New(credentials),
            Err(error) => Reload::Broken(error),
        }
    }

    pub fn certificate(&self) -> &Path {
        &self.certificate
    }
}

fn read(path: &Path, exposure: Exposure) -> Result<Vec<u8>, PkiError> {
    let unreadable = |source| PkiError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    if let Some(how) = exposure(path, &file.metadata().map_err(unreadable)?) {
        return Err(PkiError::Exposed { path: path.to_owned(), how });
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(PkiError::TooLarge { path: path.to_owned(), limit: FILE_BYTES_MAX });
    }
    Ok(bytes)
}
