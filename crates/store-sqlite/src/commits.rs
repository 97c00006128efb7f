//! Counts commits in the database and in `<file>-commits` beside it, so that a lost or damaged write-ahead log shows.
//!
//! SQLite ends its log at the first frame that it cannot read and says nothing. The number in the database then lags
//! behind the one beside it, and the difference is what was lost. The file beside it is written after each commit and
//! never flushed: it may be behind the database, which proves nothing, and is ahead of it only after a loss. See
//! docs/adr/0017-lost-commits.md.

mod counting_text;

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use punctual_core::Timestamp;
use punctual_store::{Result, StoreError, StoreFault};
use rusqlite::{Connection, OptionalExtension};

use crate::fault::{error_of, error_of_io};
use crate::lock::beside;
use crate::options::Durability;
use crate::sql;
use counting_text::CountingText;

const SUFFIX: &str = "-commits";
const FIRST_LINE: &str = "punctual commits 1";
/// The flag of `punctual server`, for messages.
const ACCEPT: &str = "--accept-data-loss";
const HEADER: &[u8; 16] = b"SQLite format 3\0";
/// Without it SQLite takes the log for an empty one.
const LOG_HEADER_BYTES: usize = 32;
/// An identity is 16 random bytes in hex.
const IDENTITY_CHARS: usize = 32;

/// What the file beside the database says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    identity: String,
    commits: i64,
    is_durable: bool,
    /// Of the machine: a kill of the process loses nothing in any mode, a loss of power does in one.
    boot: String,
    /// Of the database file after an orderly stop.
    stopped: Option<FileState>,
}

/// By which a file is taken for untouched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    bytes: u64,
    changed_at: (i64, i64),
}

impl FileState {
    fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self { bytes: found.len(), changed_at: (found.mtime(), found.mtime_nsec()) })
    }
}

impl Record {
    /// Always of the same length, so that each replaces the one before it in place.
    fn text(&self) -> String {
        let Self { identity, commits, boot, .. } = self;
        let durability = if self.is_durable { "full  " } else { "normal" };
        let FileState { bytes, changed_at: (secs, nanos) } =
            self.stopped.unwrap_or(FileState { bytes: 0, changed_at: (0, 0) });
        let text = format!(
            "{FIRST_LINE}\ndatabase {identity:32}\ncommits {commits:020}\ndurability {durability}\nboot {boot:36}\n\
             stopped {bytes:020} {secs:020} {nanos:09}\n"
        );
        format!("{text}check {:016x}\n", checksum(&text))
    }

    fn read(text: &str) -> Option<Self> {
        let (body, check) = text.split_at_checked(text.find("check ")?)?;
        if check.trim_end() != format!("check {:016x}", checksum(body)) {
            return None;
        }
        let field = |name: &str| body.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let mut stopped = field("stopped ")?.split_whitespace();
        let bytes: u64 = stopped.next()?.parse().ok()?;
        let changed_at = (stopped.next()?.parse().ok()?, stopped.next()?.parse().ok()?);
        Some(Self {
            identity: field("database ")?.to_owned(),
            commits: field("commits ")?.parse().ok()?,
            is_durable: field("durability ")? == "full",
            boot: field("boot ")?.to_owned(),
            stopped: (bytes > 0).then_some(FileState { bytes, changed_at }),
        })
    }
}

/// FNV-1a: against a torn write, not against people.
fn checksum(text: &str) -> u64 {
    checksum_from(CHECKSUM_OF_NOTHING, text.as_bytes())
}

const CHECKSUM_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

fn checksum_from(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What was found beside the database before it was opened.
#[derive(Debug)]
pub(crate) enum Beside {
    Nothing,
    /// A torn write, or somebody's edit.
    Unreadable,
    Found(Box<Known>),
}

#[derive(Debug)]
pub(crate) struct Known(Record);

impl Beside {
    pub(crate) fn read(store: &Path) -> Result<Self> {
        let path = beside(store, SUFFIX);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let record = std::str::from_utf8(&bytes).ok().and_then(Record::read);
                Ok(record.map_or(Self::Unreadable, |record| Self::Found(Box::new(Known(record)))))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::Nothing),
            Err(error) => Err(error_of_io(&path, "cannot read", &error)),
        }
    }

    /// The database was stopped in good order and nobody has written to its file since.
    pub(crate) fn is_untouched(&self, store: &Path) -> bool {
        match self {
            Self::Found(known) => known.0.stopped.is_some() && known.0.stopped == FileState::of(store),
            Self::Nothing | Self::Unreadable => false,
        }
    }

    /// Refuses to make an empty database where there was one. Called before SQLite sees the file.
    pub(crate) fn check_presence(&self, store: &Path) -> Result<()> {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        let log = beside(store, "-wal");
        if size(store) > 0 {
            return Ok(());
        }
        let shown = store.display();
        let gone = if store.exists() { "is empty" } else { "is missing" };
        let what_to_do = format!(
            "move it back or restore a backup; to begin with an empty database, move what is left of it (all files \
             whose names begin with {shown}) to another folder"
        );
        if let Self::Found(known) = self {
            let commits = known.0.commits;
            return Err(StoreError::DataLoss(format!(
                "{shown} {gone}, and {} tells of {commits} commits to it; {what_to_do}",
                beside(store, SUFFIX).display()
            )));
        }
        if size(&log) > 0 {
            return Err(StoreError::DataLoss(format!(
                "{shown} {gone}, and there is a write-ahead log beside it, {}; {what_to_do}",
                log.display()
            )));
        }
        Ok(())
    }

    /// Refuses a file that was a database of ours and does not begin like one any more. Called before SQLite sees it,
    /// which would call it a file of another kind.
    pub(crate) fn check_header(&self, store: &Path) -> Result<()> {
        let has_log = beside(store, "-wal").exists();
        if !has_log && matches!(self, Self::Nothing) {
            return Ok(());
        }
        let mut header = [0; HEADER.len()];
        let read = File::open(store).and_then(|file| file.read_exact_at(&mut header, 0));
        match read {
            Ok(()) if header != *HEADER => {
                let text = format!("{} does not begin with the header of an SQLite database", store.display());
                Err(StoreError::faulty(StoreFault::Corrupt, text))
            }
            // A new one has no header yet.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// How many commits the database lacks that were acknowledged. Called with the database open.
    pub(crate) fn check_commits(&self, store: &Path, conn: &Connection, leave: DataLoss) -> Result<Past> {
        let stored = stored(conn).map_err(|error| error_of(store, "cannot read", &error))?;
        let (known, shown, file) = match (self, &stored) {
            (Self::Found(known), _) => (&known.0, store.display(), beside(store, SUFFIX)),
            (Self::Nothing | Self::Unreadable, Some(_)) => {
                let file = beside(store, SUFFIX);
                tracing::warn!(file = %file.display(), "the count of commits cannot be read; lost ones would not show");
                return Ok(Past::MayBeLost);
            }
            (Self::Nothing | Self::Unreadable, None) => return Ok(Past::Whole),
        };
        let counted = known.commits;
        let lost = match stored {
            Some(Stored { identity, .. }) if identity != known.identity => {
                format!("{shown} is another database than the one that {} tells of", file.display())
            }
            // A database that was never moved out of its log has lost the count with it.
            stored if stored.as_ref().map_or(0, |stored| stored.commits) < counted => {
                let lost = counted - stored.map_or(0, |stored| stored.commits);
                let text = format!("{shown} has lost its last {lost} commits of {counted}");
                // What the mode allows: these commits were never flushed.
                if !known.is_durable && known.boot != boot() {
                    tracing::warn!("{text}: the machine stopped, and durability is normal");
                    return Ok(Past::MayBeLost);
                }
                format!("{text}: its write-ahead log was damaged or removed, or an older copy was put in its place")
            }
            Some(_) | None => return Ok(Past::Whole),
        };
        match leave {
            DataLoss::Accept => {
                tracing::warn!("{lost}; accepted by {ACCEPT}");
                Ok(Past::MayBeLost)
            }
            DataLoss::Refuse => Err(StoreError::DataLoss(format!(
                "{lost}; restore the missing files or a backup, or start once with {ACCEPT} if you can do without"
            ))),
        }
    }
}

/// Whether all that was committed is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    Whole,
    MayBeLost,
}

/// Begins a new generation of epochs: ends of attempts that were committed under earlier ones may be lost, so that a
/// worker which does not know an attempt of theirs proves nothing.
///
/// The epochs are higher than any that was ever given, also those that were lost: one second has fewer than 2^20.
pub(crate) fn begin_generation(store: &Path, conn: &Connection, now: Timestamp) -> Result<()> {
    let seconds = now.as_micros() / 1_000_000;
    let begin = || -> rusqlite::Result<()> {
        let tx = conn.unchecked_transaction()?;
        tx.execute(sql!("raise_epochs"), [seconds])?;
        tx.execute(sql!("keep_whole_since"), [])?;
        tx.commit()
    };
    begin().map_err(|error| error_of(store, "cannot write to", &error))
}

/// What to do about commits that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataLoss {
    /// The store is not opened.
    #[default]
    Refuse,
    /// It is, and the count begins again with what is there.
    Accept,
}

struct Stored {
    identity: String,
    commits: i64,
}

fn stored(conn: &Connection) -> rusqlite::Result<Option<Stored>> {
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'meta'";
    if conn.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(None);
    }
    let read = |row: &rusqlite::Row<'_>| Ok(Stored { identity: row.get(0)?, commits: row.get(1)? });
    conn.query_row(sql!("commits"), [], read).optional()
}

/// The boot of this machine; empty where the kernel does not tell.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The count, as the writer keeps it.
pub(crate) struct Commits {
    store: PathBuf,
    file: File,
    /// The write-ahead log.
    log: File,
    record: Record,
    text: CountingText,
    has_failed: bool,
}

impl Commits {
    /// Begins to count, or goes on with what the database says.
    pub(crate) fn open(store: &Path, conn: &Connection, log: File, durability: Durability) -> Result<Self> {
        let begin = || -> rusqlite::Result<Stored> {
            conn.execute(sql!("keep_identity"), [])?;
            conn.execute(sql!("begin_commits"), [])?;
            conn.query_row(sql!("commits"), [], |row| Ok(Stored { identity: row.get(0)?, commits: row.get(1)? }))
        };
        let Stored { identity, commits } = begin().map_err(|error| error_of(store, "cannot write to", &error))?;
        if identity.len() != IDENTITY_CHARS {
            return Err(StoreError::Inconsistent(format!("the identity of {} is not one", store.display())));
        }
        let is_durable = durability == Durability::Full;
        let record = Record { identity, commits, is_durable, boot: boot(), stopped: None };
        let path = beside(store, SUFFIX);
        let make = || -> std::io::Result<File> {
            let file = File::options().create(true).write(true).truncate(false).open(&path)?;
            let text = record.text();
            file.write_all_at(text.as_bytes(), 0)?;
            file.set_len(text.len() as u64)?;
            // That there is such a file survives a loss of power; what it says next need not.
            file.sync_all()?;
            Ok(file)
        };
        let file = make().map_err(|error| error_of_io(&path, "cannot write", &error))?;
        let text = CountingText::of(&record);
        Ok(Self { store: store.to_owned(), file, log, record, text, has_failed: false })
    }

    /// Inside the transaction, as its last statement.
    pub(crate) fn count(&self, conn: &Connection) -> rusqlite::Result<()> {
        conn.prepare_cached(sql!("count_commit"))?.execute([self.record.commits + 1]).map(drop)
    }

    /// After its COMMIT, before anybody is answered.
    pub(crate) fn committed(&mut self) {
        self.record.commits += 1;
        self.write();
    }

    /// After the last checkpoint: everything is in the file of the database, and nobody needs the log.
    pub(crate) fn stopped(&mut self) {
        // SQLite would read it again at the next start, also into a backup that was put in the place of the database.
        if let Err(error) = self.log.write_all_at(&[0; LOG_HEADER_BYTES], 0) {
            tracing::warn!(%error, "the write-ahead log could not be ended");
        }
        self.record.stopped = FileState::of(&self.store);
        self.text = CountingText::of(&self.record);
        self.write();
        if let Err(error) = self.file.sync_all() {
            tracing::warn!(%error, "the count of commits could not be flushed");
        }
    }

    /// The database was deleted together with this file, under a running server: a start that would make an empty one
    /// is to find this.
    pub(crate) fn leave_note(&self) {
        let path = beside(&self.store, SUFFIX);
        if !self.store.exists() && path.parent().is_some_and(Path::is_dir) && !path.exists() {
            let _ = std::fs::write(&path, self.record.text());
        }
    }

    fn write(&mut self) {
        let written = self.file.write_all_at(self.text.with_count(self.record.commits), 0);
        if let Err(error) = &written
            && !self.has_failed
        {
            tracing::warn!(%error, "the count of commits could not be written; commits lost from now on may not show");
        }
        self.has_failed = written.is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn record() -> Record {
        let stopped = Some(FileState { bytes: 4096, changed_at: (1_700_000_000, 7) });
        let identity = "0123456789abcdef0123456789abcdef".to_owned();
        Record { identity, commits: 12_345, is_durable: false, boot: "b".repeat(36), stopped }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_keeps_its_length() {
        let text = record().text();
        assert_eq!(Record::read(&text), Some(record()));
        let running = Record { commits: i64::MAX, is_durable: true, stopped: None, ..record() };
        assert_eq!(Record::read(&running.text()), Some(running.clone()));
        assert_eq!(running.text().len(), text.len());
    }

    #[test]
    fn a_torn_or_edited_record_is_not_read() {
        let text = record().text();
        assert_eq!(Record::read(&text.replace("12345", "12346")), None);
        assert_eq!(Record::read(&text[..text.len() / 2]), None);
        assert_eq!(Record::read(""), None);
    }
}
