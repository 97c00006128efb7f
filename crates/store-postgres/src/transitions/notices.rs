//! What people are to be told of a batch, in one statement at its end.

use punctual_core::notice::Notice;

use super::columns::Statement;
use crate::codec::{Uuid, shard_number};
use crate::pipeline::{Param, column};
use crate::sql;

/// None for a batch without any, which most are.
pub(super) fn statement<'b>(notices: impl Iterator<Item = &'b Notice>) -> Option<Statement> {
    let notices: Vec<&Notice> = notices.collect();
    if notices.is_empty() {
        return None;
    }
    let each = || notices.iter();
    let params: Vec<Param> = vec![
        column(each().map(|notice| notice.at.as_micros())),
        column(each().map(|notice| notice.task.map(Uuid::from))),
        column(each().map(|notice| notice.job.map(Uuid::from))),
        column(each().map(|notice| notice.planned.map(|(schedule, _)| Uuid::from(schedule)))),
        column(each().map(|notice| notice.planned.map(|(_, at)| at.as_micros()))),
        column(each().map(|notice| notice.lateness.map(|lateness| lateness.as_micros()))),
        column(each().map(|notice| notice.count as i32)),
        column(each().map(|notice| shard_number(notice.shard))),
        column(each().map(|notice| notice.kind as i16)),
    ];
    Some(Statement::new(sql!("keep_notices"), params))
}
