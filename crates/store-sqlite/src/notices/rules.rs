//! Who is told of what.

use punctual_core::namespace::NamespaceId;
use punctual_store::{RULES_MAX, RULES_OF_ALL_MAX, RuleChange, RuleDeletion, RuleRow};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::readable::{Readable, Table};
use crate::writer::Failure;
use crate::{codec, sql};

const RULES: Table<RuleRow> = Table { name: "notification_rule", key: 0, read };

/// The numbers of a rule that change.
pub(super) struct Numbers {
    pub(super) revision: u32,
    pub(super) version: u64,
}

/// `None` if it is not there.
pub(super) fn numbers(conn: &Connection, namespace: NamespaceId, name: &str) -> Result<Option<Numbers>, Failure> {
    let read = |row: &Row<'_>| Ok(Numbers { revision: row.get(0)?, version: codec::version(row, 1)? });
    Ok(conn.prepare_cached(sql!("rule_numbers"))?.query_row(params![name, namespace.0], read).optional()?)
}

pub(super) fn put(conn: &Connection, row: &RuleRow, expected: Option<u32>) -> Result<RuleChange, Failure> {
    let RuleRow { namespace, name, spec, changed, version, .. } = row;
    let known = numbers(conn, *namespace, name)?.map(|known| known.revision);
    let revision = known.unwrap_or(0);
    if expected.is_some_and(|expected| expected != revision) {
        return Ok(RuleChange::Conflict { revision });
    }
    if known.is_none() && !has_room(conn, *namespace)? {
        return Ok(RuleChange::Full);
    }
    let is_new = known.is_none();
    let revision = revision + 1;
    let (at, who) = (changed.at.as_micros(), &changed.who);
    if is_new {
        let row = params![name, spec, revision, at, who, *version as i64, namespace.0];
        conn.prepare_cached(sql!("insert_rule"))?.execute(row)?;
    } else {
        let row = params![name, spec, revision, at, who, namespace.0];
        conn.prepare_cached(sql!("edit_rule"))?.execute(row)?;
    }
    Ok(RuleChange::Done { revision })
}

fn has_room(conn: &Connection, namespace: NamespaceId) -> rusqlite::Result<bool> {
    let counts = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (all, own) = conn.prepare_cached(sql!("count_rules"))?.query_row([namespace.0], counts)?;
    Ok(all < RULES_OF_ALL_MAX as i64 && own < RULES_MAX as i64)
}

pub(super) fn delete(
    conn: &Connection,
    namespace: NamespaceId,
    name: &str,
    expected: Option<u32>,
) -> Result<RuleDeletion, Failure> {
    let Some(Numbers { revision, .. }) = numbers(conn, namespace, name)? else { return Ok(RuleDeletion::Absent) };
    if expected.is_some_and(|expected| expected != revision) {
        return Ok(RuleDeletion::Conflict { revision });
    }
    conn.prepare_cached(sql!("delete_rule"))?.execute(params![name, namespace.0])?;
    Ok(RuleDeletion::Done)
}

pub(super) fn all(conn: &Connection, namespace: Option<NamespaceId>) -> Result<Readable<RuleRow>, Failure> {
    let mut statement = conn.prepare_cached(sql!("rules"))?;
    RULES.first(RULES_OF_ALL_MAX, statement.query([namespace.map(|namespace| namespace.0)])?)
}

pub(super) fn one(conn: &Connection, namespace: NamespaceId, name: &str) -> Result<Option<RuleRow>, Failure> {
    Ok(conn.prepare_cached(sql!("rule"))?.query_row(params![name, namespace.0], read).optional()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<RuleRow> {
    Ok(RuleRow {
        namespace: codec::namespace(row, 9)?,
        name: row.get(0)?,
        spec: row.get(1)?,
        revision: row.get(2)?,
        created: codec::by(row, 3)?,
        changed: codec::by(row, 5)?,
        version: codec::version(row, 7)?,
        state: row.get(8)?,
    })
}
