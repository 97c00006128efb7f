//! Several statements sent at once and answered in order: one round trip for a transaction.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};
use tokio_postgres::{Error, Row, Statement};

use crate::connection::Conn;

pub(crate) type Param = Box<dyn ToSql + Sync + Send>;

/// One column of many rows, as a parameter.
pub(crate) fn column<T: ToSql + Sync + Send + 'static>(values: impl Iterator<Item = T>) -> Param {
    Box::new(values.collect::<Vec<T>>())
}

/// Bytes that are sent without being copied first.
#[derive(Debug)]
pub(crate) struct Blob(pub(crate) Bytes);

impl ToSql for Blob {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }
    accepts!(BYTEA);
    to_sql_checked!();
}

pub(crate) enum Step {
    /// Such as BEGIN.
    Plain(&'static str),
    Prepared(Statement, Vec<Param>),
}

type Answer = Result<Vec<Row>, Error>;
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Sends everything when it is first polled.
pub(crate) struct Pipeline {
    waiting: VecDeque<Answering>,
    answers: Vec<Answer>,
    is_sent: bool,
}

impl Pipeline {
    pub(crate) fn new(conn: &Arc<Conn>, steps: Vec<Step>) -> Self {
        let answers = Vec::with_capacity(steps.len());
        let waiting = steps.into_iter().map(|step| answering(conn.clone(), step)).collect();
        Self { waiting, answers, is_sent: false }
    }
}

fn answering(conn: Arc<Conn>, step: Step) -> Answering {
    Box::pin(async move {
        match step {
            Step::Plain(text) => conn.client.batch_execute(text).await.map(|()| Vec::new()),
            Step::Prepared(statement, params) => {
                let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| &**param as _).collect();
                conn.client.query(&statement, &params).await
            }
        }
    })
}

impl Future for Pipeline {
    /// As many answers as there were steps.
    type Output = Vec<Answer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<Answer>> {
        let this = &mut *self;
        if !this.is_sent {
            this.is_sent = true;
            // A request is handed to the connection by the first poll, so this keeps their order.
            for answering in &mut this.waiting {
                // A connection that is closed answers at once.
                if let Poll::Ready(answer) = answering.as_mut().poll(cx) {
                    *answering = Box::pin(std::future::ready(answer));
                }
            }
        }
        while let Some(front) = this.waiting.front_mut() {
            match front.as_mut().poll(cx) {
                Poll::Ready(answer) => {
                    this.answers.push(answer);
                    this.waiting.pop_front();
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(std::mem::take(&mut this.answers))
    }
}
