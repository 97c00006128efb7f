//! Rows that can be read, and those that cannot: they stay, are passed over, and cost no more than themselves.

use punctual_core::hex;
use punctual_store::UNREADABLE_NAMED_MAX;
use rusqlite::types::ValueRef;
use rusqlite::{Row, Rows};

use crate::writer::Failure;

/// What the rows of a table mean.
pub(super) struct Table<T> {
    pub(super) name: &'static str,
    /// The column that says which row it is.
    pub(super) key: usize,
    pub(super) read: fn(&Row<'_>) -> rusqlite::Result<T>,
}

pub(super) struct Readable<T> {
    pub(super) rows: Vec<T>,
    /// As many of them as the log could name.
    pub(super) unreadable: Vec<Unreadable>,
}

pub(super) struct Unreadable {
    pub(super) table: &'static str,
    pub(super) key: String,
    pub(super) error: rusqlite::Error,
}

impl<T> Default for Readable<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), unreadable: Vec::new() }
    }
}

impl<T> Readable<T> {
    pub(super) fn extend(&mut self, more: Self) {
        self.rows.extend(more.rows);
        let room = UNREADABLE_NAMED_MAX.saturating_sub(self.unreadable.len());
        self.unreadable.extend(more.unreadable.into_iter().take(room));
    }
}

impl<T> Table<T> {
    /// The first `limit` of them that can be read, however many come before that cannot.
    pub(super) fn first(&self, limit: usize, mut rows: Rows<'_>) -> Result<Readable<T>, Failure> {
        let mut readable = Readable::default();
        while readable.rows.len() < limit
            && let Some(row) = rows.next()?
        {
            match (self.read)(row) {
                Ok(read) => readable.rows.push(read),
                Err(error) if readable.unreadable.len() < UNREADABLE_NAMED_MAX => {
                    let key = shown(row.get_ref(self.key)?);
                    readable.unreadable.push(Unreadable { table: self.name, key, error });
                }
                Err(_) => {}
            }
        }
        Ok(readable)
    }
}

/// As whoever looks for it in the file would write it.
fn shown(key: ValueRef<'_>) -> String {
    match key {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => hex::encode(bytes),
    }
}
