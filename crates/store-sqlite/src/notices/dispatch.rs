//! Says what became of notices: all of it or nothing.

use punctual_store::{Ailing, DeliveryRow, Dispatch, Dispatched, RuleUpdate};
use rusqlite::{Connection, params};

use super::rules;
use crate::jobs::store_jobs;
use crate::sql;
use crate::writer::{Db, Failure};

pub(super) fn run(db: &mut Db, dispatch: &Dispatch, shard_count: u16) -> Result<Dispatched, Failure> {
    if !fits(&db.conn, dispatch)? {
        return Ok(Dispatched::Conflict);
    }
    db.all_or_nothing(|db| {
        take(&db.conn, &dispatch.taken)?;
        update(&db.conn, &dispatch.rules)?;
        ail(&db.conn, dispatch)?;
        deliver(&db.conn, &dispatch.deliveries)?;
        store_jobs(db, &dispatch.jobs, shard_count)
    })?;
    Ok(Dispatched::Done)
}

/// All the notices wait, and all the rules are as they were. It stays so: there is one writer.
fn fits(conn: &Connection, dispatch: &Dispatch) -> Result<bool, Failure> {
    let mut waits = conn.prepare_cached(sql!("notice_waits"))?;
    for seq in &dispatch.taken {
        if !waits.exists([seq])? {
            return Ok(false);
        }
    }
    for RuleUpdate { namespace, name, version, .. } in &dispatch.rules {
        if rules::numbers(conn, *namespace, name)?.map(|known| known.version) != Some(*version) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn take(conn: &Connection, taken: &[i64]) -> Result<(), Failure> {
    let mut statement = conn.prepare_cached(sql!("take_notice"))?;
    for seq in taken {
        statement.execute([seq])?;
    }
    Ok(())
}

fn update(conn: &Connection, rules: &[RuleUpdate]) -> Result<(), Failure> {
    let mut statement = conn.prepare_cached(sql!("update_rule"))?;
    for RuleUpdate { namespace, name, version, state } in rules {
        statement.execute(params![name, *version as i64, state, namespace.0])?;
    }
    Ok(())
}

fn ail(conn: &Connection, dispatch: &Dispatch) -> Result<(), Failure> {
    let mut statement = conn.prepare_cached(sql!("put_ailing"))?;
    for Ailing { task, since, last, failures } in &dispatch.ailing {
        statement.execute(params![task.to_bytes(), since.as_micros(), last.as_micros(), failures])?;
    }
    let mut statement = conn.prepare_cached(sql!("forget_ailing"))?;
    for task in &dispatch.well {
        statement.execute([task.to_bytes()])?;
    }
    Ok(())
}

fn deliver(conn: &Connection, deliveries: &[DeliveryRow]) -> Result<(), Failure> {
    let mut statement = conn.prepare_cached(sql!("insert_delivery"))?;
    for DeliveryRow { namespace, rule, at, job, events, summary } in deliveries {
        statement.execute(params![at.as_micros(), job.to_bytes(), rule, events, summary, namespace.0])?;
    }
    Ok(())
}
