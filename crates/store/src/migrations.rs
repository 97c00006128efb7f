//! Which migrations a database still needs, and whether it is one of ours. Decides only; each store reads its own table of
//! applied migrations and runs the SQL.

use punctual_core::Timestamp;
use sha2::{Digest, Sha256};

use crate::{Result, StoreError};

/// A change of the schema. One that was released is never edited: databases keep its checksum.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    pub version: u32,
    pub name: &'static str,
    pub text: &'static str,
}

/// The migrations of a store, from files such as `migrations/0001_first.sql`, in order and without gaps.
#[macro_export]
macro_rules! migrations {
    ($($file:literal),* $(,)?) => {
        &[$($crate::Migration::of_file(
            $file,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $file, ".sql")),
        )),*]
    };
}

impl Migration {
    /// `file` is four digits, an underscore and the name.
    pub const fn of_file(file: &'static str, text: &'static str) -> Self {
        let (digits, name) = file.split_at(4);
        let (_, name) = name.split_at(1);
        match u32::from_str_radix(digits, 10) {
            Ok(version) => Self { version, name, text },
            Err(_) => panic!("a migration's file begins with four digits"),
        }
    }

    pub fn checksum(&self) -> Vec<u8> {
        Sha256::digest(self.text).to_vec()
    }
}

/// A migration as a database remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedMigration {
    pub version: u32,
    pub name: String,
    pub checksum: Vec<u8>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    pub version: u32,
    pub name: String,
    pub state: MigrationState,
}

/// Whether a database has a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrationState {
    Applied {
        at: Timestamp,
    },
    Pending,
    /// The database has it and this program does not know it.
    Unknown {
        at: Timestamp,
    },
}

/// The migrations that are to be applied, in order. An error if those that were applied, given in order, are not the ones
/// that this program would have applied.
pub fn missing_migrations<'m>(applied: &[AppliedMigration], known: &'m [Migration]) -> Result<Vec<&'m Migration>> {
    let (newest, known_newest) =
        (applied.last().map_or(0, |applied| applied.version), known.last().map_or(0, |known| known.version));
    if newest > known_newest {
        return Err(StoreError::Schema(format!(
            "the store has schema {newest} and this program knows {known_newest}; use the newer program"
        )));
    }
    let mut missing = Vec::new();
    for migration in known {
        match applied.iter().find(|applied| applied.version == migration.version) {
            Some(applied) if applied.checksum == migration.checksum() => {}
            Some(_) => {
                return Err(StoreError::Schema(format!(
                    "migration {} ({}) is not the one that made this store; use the program that made it, \
                     or restore the store from a backup",
                    migration.version, migration.name
                )));
            }
            None => missing.push(migration),
        }
    }
    Ok(missing)
}

/// Every migration that the program or the database knows, in order.
pub fn migration_status(applied: &[AppliedMigration], known: &[Migration]) -> Vec<MigrationStatus> {
    let ours = known.iter().map(|known| {
        let found = applied.iter().find(|applied| applied.version == known.version);
        let state = found.map_or(MigrationState::Pending, |found| MigrationState::Applied { at: found.at });
        MigrationStatus { version: known.version, name: known.name.to_owned(), state }
    });
    let unknown = applied.iter().filter(|applied| known.iter().all(|known| known.version != applied.version));
    let unknown = unknown.map(|applied| MigrationStatus {
        version: applied.version,
        name: applied.name.clone(),
        state: MigrationState::Unknown { at: applied.at },
    });
    ours.chain(unknown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Migration = Migration::of_file("0001_first", "CREATE TABLE a (x)");
    const SECOND: Migration = Migration::of_file("0002_second_one", "CREATE TABLE b (x)");

    fn applied(migration: &Migration) -> AppliedMigration {
        let Migration { version, name, .. } = *migration;
        AppliedMigration { version, name: name.to_owned(), checksum: migration.checksum(), at: Timestamp::EPOCH }
    }

    fn refusal(applied: &[AppliedMigration], known: &[Migration]) -> String {
        missing_migrations(applied, known).expect_err("it is refused").to_string()
    }

    #[test]
    fn what_is_not_applied_is_missing() {
        let names = |applied: &[AppliedMigration]| {
            let known = [FIRST, SECOND];
            let missing = missing_migrations(applied, &known).unwrap();
            missing.iter().map(|migration| (migration.version, migration.name)).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), [(1, "first"), (2, "second_one")]);
        assert_eq!(names(&[applied(&FIRST)]), [(2, "second_one")]);
        assert_eq!(names(&[applied(&FIRST), applied(&SECOND)]), []);
    }

    #[test]
    fn a_schema_that_is_not_ours_is_refused() {
        let edited = Migration { text: "CREATE TABLE other (x)", ..FIRST };
        let told = refusal(&[applied(&edited)], &[FIRST, SECOND]);
        assert!(told.contains("migration 1 (first) is not the one"), "{told}");
        let told = refusal(&[applied(&FIRST), applied(&SECOND)], &[FIRST]);
        assert_eq!(told, "the store has schema 2 and this program knows 1; use the newer program");
    }

    #[test]
    fn the_status_names_what_either_side_knows() {
        let at = Timestamp::EPOCH;
        let states = |applied: &[AppliedMigration], known: &[Migration]| {
            let status = migration_status(applied, known);
            status.into_iter().map(|status| (status.version, status.state)).collect::<Vec<_>>()
        };
        let first = [applied(&FIRST)];
        let (here, unknown) = (MigrationState::Applied { at }, MigrationState::Unknown { at });
        assert_eq!(states(&first, &[FIRST, SECOND]), [(1, here), (2, MigrationState::Pending)]);
        assert_eq!(states(&first, &[SECOND]), [(2, MigrationState::Pending), (1, unknown)]);
    }
}
