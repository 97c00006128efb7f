//! Batches that one statement can apply: starts, plain successes and closed records, which most are.

use super::columns::Statement;
use crate::codec::Uuid;
use crate::pipeline::{Param, column};
use crate::sql;

pub(super) const TEXT: &str = sql!("apply_plain");

const CHECK: &str = sql!("check_waiting");
const SETTLE: &str = sql!("settle_plain");
const CLOSE: &str = sql!("close_starts");
const RECORD: &str = sql!("insert_starts");

/// Whether the statements are some of these, each once.
pub(super) fn is_plain(wanted: &[Statement]) -> bool {
    let count = |text: &str| wanted.iter().filter(|statement| statement.text == text).count();
    let counts = [CHECK, SETTLE, CLOSE, RECORD].map(count);
    counts.iter().all(|count| *count <= 1) && counts.iter().sum::<usize>() == wanted.len()
}

/// The parameters of all of them, in the order of the one statement; empty ones for what is missing.
pub(super) fn params(fence: Vec<Param>, wanted: Vec<Statement>) -> Vec<Param> {
    let (mut check, mut settle, mut close, mut record) = (no_check(), no_settle(), no_close(), no_record());
    for Statement { text, params, .. } in wanted {
        match text {
            CHECK => check = params,
            SETTLE => settle = params,
            CLOSE => close = params,
            RECORD => record = params,
            other => unreachable!("not a statement of a plain batch: {other}"),
        }
    }
    fence.into_iter().chain(check).chain(settle).chain(close).chain(record).collect()
}

fn none<T: tokio_postgres::types::ToSql + Sync + Send + 'static>() -> Param {
    column(std::iter::empty::<T>())
}

fn no_check() -> Vec<Param> {
    vec![none::<i16>(), none::<i64>(), none::<Uuid>(), none::<i32>()]
}

fn no_settle() -> Vec<Param> {
    let times = || none::<i64>();
    let mut params = no_check();
    params.extend([times(), none::<i32>(), times(), times(), Box::new(0_i32)]);
    params
}

fn no_close() -> Vec<Param> {
    vec![none::<i16>(), none::<i64>(), none::<i64>()]
}

fn no_record() -> Vec<Param> {
    let nobody = Uuid([0; 16]);
    vec![none::<i16>(), none::<i64>(), Box::new(0_i64), Box::new(nobody), none::<Vec<u8>>()]
}
