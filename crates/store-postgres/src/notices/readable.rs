//! Rows that can be read, and those that cannot: they stay, are passed over, and cost no more than themselves.

use punctual_store::UNREADABLE_NAMED_MAX;
use tokio_postgres::Row;

use crate::codec::Read;
use crate::trouble::Trouble;

/// What the rows of a table mean.
pub(super) struct Table<T> {
    pub(super) name: &'static str,
    /// Says which row it is.
    pub(super) key: fn(&Row) -> Read<String>,
    pub(super) read: fn(&Row) -> Read<T>,
}

pub(super) struct Readable<T> {
    pub(super) rows: Vec<T>,
    /// As many of them as the log could name.
    pub(super) unreadable: Vec<Unreadable>,
}

pub(super) struct Unreadable {
    pub(super) table: &'static str,
    pub(super) key: String,
    pub(super) error: Trouble,
}

impl<T> Default for Readable<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), unreadable: Vec::new() }
    }
}

impl<T> Readable<T> {
    pub(super) fn extend(&mut self, table: &Table<T>, rows: &[Row]) -> Read<()> {
        for row in rows {
            match (table.read)(row) {
                Ok(read) => self.rows.push(read),
                Err(error) if self.unreadable.len() < UNREADABLE_NAMED_MAX => {
                    let key = (table.key)(row)?;
                    self.unreadable.push(Unreadable { table: table.name, key, error });
                }
                Err(_) => {}
            }
        }
        Ok(())
    }
}
