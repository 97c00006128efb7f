use punctual_store::{AuditAppended, AuditBatch, AuditEnds, AuditPlace, AuditRow, Order, Store};

use crate::fixture::*;

fn row(seq: u64) -> AuditRow {
    // Quotes and letters of several bytes come back as they were.
    AuditRow { seq, at: at(seq as i64), line: format!("{{\"seq\":{seq},\"who\":\"Zoë\"}}"), hash: [seq as u8; 32] }
}

fn place(seq: u64) -> AuditPlace {
    if seq == 0 { AuditPlace::default() } else { row(seq).place() }
}

async fn append(store: &dyn Store, after: u64, count: u64) -> AuditAppended {
    let rows: Vec<AuditRow> = (after + 1..=after + count).map(row).collect();
    let signature = format!("signature of {}", after + count).into_bytes();
    store.append_audit(AuditBatch { after: place(after), rows, signature }).await.unwrap()
}

fn ends(base: u64, head: u64) -> AuditEnds {
    AuditEnds { base: place(base), head: place(head), signature: format!("signature of {head}").into_bytes() }
}

async fn seqs(store: &dyn Store, from: Option<u64>, order: Order, limit: usize) -> Vec<u64> {
    store.audit_rows(from, order, limit).await.unwrap().into_iter().map(|row| row.seq).collect()
}

pub(super) async fn lines_of_the_audit_log_come_back_as_they_were(store: &dyn Store) {
    assert_eq!(store.audit_ends().await.unwrap(), AuditEnds::default());
    assert_eq!(append(store, 0, 3).await, AuditAppended::Done);
    assert_eq!(append(store, 3, 1).await, AuditAppended::Done);
    assert_eq!(store.audit_ends().await.unwrap(), ends(0, 4));
    assert_eq!(store.audit_rows(None, Order::Ascending, 10).await.unwrap(), (1..=4).map(row).collect::<Vec<_>>());
    assert_eq!(seqs(store, Some(2), Order::Ascending, 1).await, [3]);
    assert_eq!(seqs(store, None, Order::Descending, 2).await, [4, 3]);
    assert_eq!(seqs(store, Some(3), Order::Descending, 10).await, [2, 1]);
}

pub(super) async fn a_line_follows_the_head_of_the_audit_log_or_is_not_written(store: &dyn Store) {
    append(store, 0, 2).await;
    assert_eq!(append(store, 0, 1).await, AuditAppended::Behind(ends(0, 2)));
    assert_eq!(append(store, 1, 1).await, AuditAppended::Behind(ends(0, 2)));
    let forged = AuditPlace { hash: [9; 32], ..place(2) };
    let batch = AuditBatch { after: forged, rows: vec![row(3)], signature: Vec::new() };
    assert_eq!(store.append_audit(batch).await.unwrap(), AuditAppended::Behind(ends(0, 2)));
    assert_eq!(seqs(store, None, Order::Ascending, 10).await, [1, 2]);
}

pub(super) async fn of_servers_that_append_to_the_audit_log_at_once_one_is_done(store: &dyn Store) {
    let answers = futures_util::future::join_all((0..8).map(|_| append(store, 0, 2))).await;
    let done = answers.iter().filter(|answer| **answer == AuditAppended::Done).count();
    assert_eq!(done, 1, "{answers:?}");
    assert_eq!(seqs(store, None, Order::Ascending, 10).await, [1, 2]);
}

pub(super) async fn the_audit_log_is_trimmed_from_its_begin(store: &dyn Store) {
    append(store, 0, 5).await;
    assert_eq!(store.trim_audit(place(3)).await.unwrap(), 3);
    assert_eq!(store.audit_ends().await.unwrap(), ends(3, 5));
    assert_eq!(seqs(store, None, Order::Ascending, 10).await, [4, 5]);
    // Never back, and not beyond the head.
    assert_eq!(store.trim_audit(place(2)).await.unwrap(), 0);
    assert_eq!(store.trim_audit(place(6)).await.unwrap(), 0);
    assert_eq!(store.audit_ends().await.unwrap(), ends(3, 5));
    assert_eq!(append(store, 5, 1).await, AuditAppended::Done);
    assert_eq!(store.trim_audit(place(6)).await.unwrap(), 3);
    assert_eq!(append(store, 6, 1).await, AuditAppended::Done);
}
