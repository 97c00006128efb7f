//! Numbers for workers and servers. History has two in each row, and numbers are shorter.
//!
//! A number is given outside the transaction that uses it. A node's row remembers, to a day,
//! when it was last used; retention removes it two days after the last row that refers to it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_core::{Span, Timestamp};
use punctual_store::Result;

use crate::codec::{self, Uuid};
use crate::connection::Conn;
use crate::link::Pool;
use crate::sql;
use crate::trouble::Trouble;

/// What is remembered may be so much older than the truth.
const USE_STEP: Span = Span::from_secs(86_400);
/// A lookup costs less than the memory of a longer list.
const KNOWN_MAX: usize = 100_000;

#[derive(Debug, Clone, Copy)]
struct Known {
    number: i32,
    used_at: Timestamp,
}

pub(crate) type Numbers = HashMap<Uuid, i32>;

#[derive(Default)]
pub(crate) struct Nodes(Mutex<HashMap<Uuid, Known>>);

impl Nodes {
    fn map(&self) -> MutexGuard<'_, HashMap<Uuid, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of nodes that rows are about to refer to, each at its latest time.
    pub(crate) async fn numbers(&self, maintenance: &Pool, used: &HashMap<Uuid, Timestamp>) -> Result<Numbers> {
        let mut numbers = Numbers::new();
        let mut news = Vec::new();
        {
            let map = self.map();
            for (id, at) in used {
                match map.get(id) {
                    Some(known) if *at <= known.used_at + USE_STEP => drop(numbers.insert(*id, known.number)),
                    _ => news.push((*id, *at)),
                }
            }
        }
        if news.is_empty() {
            return Ok(numbers);
        }
        // In order, so that two servers do not wait for each other.
        news.sort_unstable();
        let conn = maintenance.take().await?;
        let known = remember(&conn, &news).await?;
        conn.done();
        numbers.extend(known.iter().map(|(id, known)| (*id, known.number)));
        let mut map = self.map();
        if map.len() + known.len() > KNOWN_MAX {
            map.clear();
        }
        map.extend(known);
        Ok(numbers)
    }

    pub(crate) fn clear(&self) {
        self.map().clear();
    }
}

async fn remember(conn: &Conn, news: &[(Uuid, Timestamp)]) -> std::result::Result<Vec<(Uuid, Known)>, Trouble> {
    let ids: Vec<Uuid> = news.iter().map(|(id, _)| *id).collect();
    let at = news.iter().map(|(_, at)| *at).max().unwrap_or_default().as_micros();
    // Used first and read then: what is there after that is not removed by retention.
    conn.execute(sql!("use_nodes"), &[&ids, &at]).await?;
    let mut found = read(conn, &ids).await?;
    let missing: Vec<Uuid> = ids.iter().filter(|id| found.iter().all(|(there, _)| there != *id)).copied().collect();
    if !missing.is_empty() {
        conn.execute(sql!("insert_nodes"), &[&missing, &at]).await?;
        found.extend(read(conn, &missing).await?);
    }
    Ok(found)
}

async fn read(conn: &Conn, ids: &[Uuid]) -> std::result::Result<Vec<(Uuid, Known)>, Trouble> {
    let rows = conn.query(sql!("node_numbers"), &[&ids]).await?;
    rows.iter()
        .map(|row| {
            let known = Known { number: codec::value(row, 1)?, used_at: codec::time(row, 2)? };
            Ok((codec::value(row, 0)?, known))
        })
        .collect()
}
