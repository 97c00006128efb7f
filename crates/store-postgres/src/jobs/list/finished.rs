//! The part of a list that is in history.

use punctual_core::{JobId, JobState};
use punctual_store::columns::finished_job;
use punctual_store::{Filter, FinishedJob, Order, Page, Position, codes};
use tokio_postgres::{Row, Statement};

use super::super::record::read_finished;
use super::merge::{List, merge, page};
use super::{fits_task, id_range, is_of, rows_of_each};
use crate::codec::{self, Read, Uuid};
use crate::connection::Conn;
use crate::pipeline::{Param, Step};
use crate::sql;
use crate::trouble::Trouble;

/// How many pages of rows are read at first where a filter leaves some out.
const FILTERED_WIDTH: usize = 4;

/// Finished jobs by id: one list, or one for each of the states that are wanted.
pub(super) struct FinishedList {
    statement: Statement,
    selectors: Vec<Selector>,
    each: usize,
    /// How many rows may be read of each list.
    widest: usize,
}

enum Selector {
    All,
    Traced(String),
    Namespace(i32),
    State(i16),
    Task(i64),
}

impl FinishedList {
    pub(super) async fn prepare(conn: &Conn, filter: &Filter, position: Position) -> Result<Self, Trouble> {
        // The tracing id; a task of a tenant, or the tenant, so that others are not looked at; the states to merge, when
        // they are few and rare; then the task; then everything.
        let tenant = filter.namespace.and_then(codec::namespace_or_none);
        let unsuccessful = !filter.states.is_empty() && !filter.states.contains(&JobState::Succeeded);
        let mut filters = filter.kind.is_some() || filter.queue.is_some();
        let (texts, mut selectors): ([&str; 2], Vec<Selector>) = if let Some(tracing_id) = &filter.tracing_id {
            filters |= filter.task.is_some() || !filter.states.is_empty();
            let selectors = vec![Selector::Traced(tracing_id.clone())];
            ([sql!("list_finished_traced"), sql!("list_finished_traced_backwards")], selectors)
        } else if let Some(namespace) = tenant
            && filter.task.is_none()
        {
            filters |= !filter.states.is_empty();
            let selectors = vec![Selector::Namespace(namespace)];
            ([sql!("list_finished_of_namespace"), sql!("list_finished_of_namespace_backwards")], selectors)
        } else if unsuccessful && tenant.is_none() {
            filters |= filter.task.is_some();
            let mut codes: Vec<_> = filter.states.iter().filter_map(|&state| codes::state_code(state)).collect();
            codes.sort_unstable();
            codes.dedup();
            let codes = codes.into_iter().map(Selector::State).collect();
            ([sql!("list_finished_in_state"), sql!("list_finished_in_state_backwards")], codes)
        } else if let Some(task) = filter.task {
            filters |= !filter.states.is_empty();
            let known = conn.query(sql!("task_numbers"), &[&vec![Uuid::from(task)]]).await?;
            let numbers = known.iter().map(|row| codec::value(row, 1).map(Selector::Task)).collect::<Read<_>>()?;
            ([sql!("list_finished_of_task"), sql!("list_finished_of_task_backwards")], numbers)
        } else {
            filters |= !filter.states.is_empty();
            ([sql!("list_finished"), sql!("list_finished_backwards")], vec![Selector::All])
        };
        if !filter.tables.has_finished() {
            selectors.clear();
        }
        let text = match position.order {
            Order::Ascending => texts[0],
            Order::Descending => texts[1],
        };
        let widest = rows_of_each(selectors.len(), true, position.limit);
        let narrow = rows_of_each(selectors.len(), false, position.limit);
        // Most finished jobs succeeded, so a filter seldom leaves so many out that a page needs all that may be examined.
        let each = if filters { narrow.saturating_mul(FILTERED_WIDTH).min(widest) } else { narrow };
        Ok(Self { statement: conn.prepare(text).await?, selectors, each, widest })
    }

    pub(super) fn steps(&self, filter: &Filter, position: Position) -> Vec<Step> {
        let (low, high) = id_range(filter, position);
        let step = |selector: &Selector| {
            let mut params: Vec<Param> = vec![Box::new(low), Box::new(high), Box::new(self.each as i64)];
            match selector {
                Selector::All => {}
                Selector::Traced(tracing_id) => params.push(Box::new(tracing_id.clone())),
                Selector::Namespace(number) => params.push(Box::new(*number)),
                Selector::State(code) => params.push(Box::new(*code)),
                Selector::Task(number) => params.push(Box::new(*number)),
            }
            Step::Prepared(self.statement.clone(), params)
        };
        self.selectors.iter().map(step).collect()
    }

    /// `None`: the read has to be repeated, as it is set now.
    pub(super) fn page(
        &mut self,
        answers: &[Vec<Row>],
        filter: &Filter,
        position: Position,
    ) -> Result<Option<Page<FinishedJob>>, Trouble> {
        let list = |rows: &Vec<Row>| {
            let examined = rows.iter().map(|row| {
                let (id, job) = examine_finished(row, filter)?;
                Ok((id, (id, job)))
            });
            Ok(List { is_cut: rows.len() >= self.each, rows: examined.collect::<Read<_>>()? })
        };
        let (examined, end) = merge(answers.iter().map(list).collect::<Read<_>>()?, position.order);
        let last = examined.last().map(|(id, _)| *id);
        let page = page(examined.into_iter().map(|(_, found)| found).collect(), end.is_some(), position.limit);
        // What is not asked for, or is of other namespaces, took the place of what is.
        if page.next.is_some() && page.next == last && self.each < self.widest {
            self.each = self.widest;
            return Ok(None);
        }
        Ok(Some(page))
    }
}

fn examine_finished(row: &Row, filter: &Filter) -> Read<(JobId, Option<FinishedJob>)> {
    let id = codec::job_id(row, finished_job::ID)?;
    let state_fits = filter.states.is_empty() || filter.states.contains(&codec::state(row, finished_job::STATE)?);
    let fits = state_fits
        && is_of(row, filter, finished_job::NAMESPACE)?
        && fits_task(row, filter, finished_job::TASK, finished_job::COUNT)?;
    Ok((id, if fits { Some(read_finished(row)?) } else { None }))
}
