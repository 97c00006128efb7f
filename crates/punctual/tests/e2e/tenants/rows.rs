//! The rows of a namespace, read from the database itself.

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use crate::harness::Home;

/// Each row of each table with a namespace, as text.
pub(super) fn rows_of(home: &Home, namespace: u32) -> Vec<(String, String)> {
    let file = home.file("data").join("punctual.db");
    let conn = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("the database");
    let tables = texts(&conn, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
    let mut rows = Vec::new();
    for table in tables {
        let columns = texts(&conn, &format!("SELECT name FROM pragma_table_info('{table}')"));
        if !columns.iter().any(|column| column == "namespace") {
            continue;
        }
        let mut statement = conn
            .prepare(&format!("SELECT * FROM {table} WHERE CAST(namespace AS TEXT) = '{namespace}'"))
            .expect("a statement");
        let count = statement.column_count();
        let read = statement.query_map([], |row| (0..count).map(|column| row.get::<_, Value>(column)).collect());
        let read: Vec<Vec<Value>> = read.expect("rows").collect::<Result<_, _>>().expect("rows");
        // When a key was used last is no business of the other tenant's, and changes with what this one reads.
        let is_kept = table != "identity_key";
        rows.extend(read.into_iter().filter(|_| is_kept).map(|row| (table.clone(), format!("{row:?}"))));
    }
    rows.sort();
    rows
}

fn texts(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(sql).expect("a statement");
    let read = statement.query_map([], |row| row.get(0)).expect("rows");
    read.collect::<Result<_, _>>().expect("texts")
}
