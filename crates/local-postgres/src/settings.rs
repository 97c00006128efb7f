use std::io::Result;
use std::path::PathBuf;

use crate::server::{Origin, Postgres};

/// The settings of a server, as in `postgresql.conf`.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(crate) options: Vec<(String, String)>,
    pub(crate) files: Vec<(String, String)>,
    pub(crate) place: DataPlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataPlace {
    /// A folder in memory, where that is possible.
    Quick,
    /// A folder on the disk that holds temporary files.
    Disk,
}

impl Settings {
    /// Quick and small. A loss of power would lose everything; a killed server loses nothing.
    pub fn test() -> Self {
        Self { options: Vec::new(), files: Vec::new(), place: DataPlace::Quick }
            .set("fsync", "off")
            .set("full_page_writes", "off")
            .set("shared_buffers", "32MB")
            .set("max_connections", "300")
    }

    /// The settings of a careful operator, for measurements.
    pub fn durable() -> Self {
        Self { options: Vec::new(), files: Vec::new(), place: DataPlace::Disk }
            .set("fsync", "on")
            .set("synchronous_commit", "on")
            .set("shared_buffers", "512MB")
            .set("max_wal_size", "4GB")
            .set("max_connections", "200")
    }

    /// A later value replaces an earlier one.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.options.retain(|(known, _)| known != name);
        self.options.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A file in the server's folder that only the server may read, such as the key of its certificate.
    #[must_use]
    pub fn file(mut self, name: &str, content: &str) -> Self {
        self.files.push((name.to_owned(), content.to_owned()));
        self
    }

    /// Makes a new server and waits until it answers.
    pub fn start(&self) -> Result<Postgres> {
        Postgres::make(self, Origin::Empty)
    }

    /// Makes a copy of `primary` that follows it, and waits until it answers.
    pub fn standby_of(&self, primary: &Postgres) -> Result<Postgres> {
        Postgres::make(self, Origin::CopyOf(primary))
    }

    /// Where the server's folder is made.
    pub(crate) fn parent(&self) -> PathBuf {
        let memory = PathBuf::from("/dev/shm");
        if self.place == DataPlace::Quick && memory.is_dir() { memory } else { std::env::temp_dir() }
    }
}
