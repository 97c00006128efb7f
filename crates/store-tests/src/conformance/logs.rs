use punctual_core::AttemptNo;
use punctual_store::{ChunkMarks, LogChunk, LogPiece, Store};

use crate::fixture::*;

fn chunk(attempt: u32, offset: u64, content: &str) -> LogChunk {
    LogChunk { job: job_id(1, 10, 0), attempt: AttemptNo(attempt), offset, bytes: text(content), marks: text("") }
}

async fn read(store: &dyn Store, attempt: u32, offset: u64, limit: usize) -> (String, u64) {
    let LogPiece { bytes, next_offset } =
        store.read_log(job_id(1, 10, 0), AttemptNo(attempt), offset, limit).await.unwrap();
    (String::from_utf8(bytes.to_vec()).unwrap(), next_offset)
}

fn piece(content: &str, next_offset: u64) -> (String, u64) {
    (content.to_owned(), next_offset)
}

pub(super) async fn a_log_is_read_from_any_offset(store: &dyn Store) {
    assert_eq!(read(store, 1, 0, 100).await, piece("", 0));
    store.append_logs(vec![chunk(1, 0, "one "), chunk(1, 4, ""), chunk(1, 4, "two ")]).await.unwrap();
    store.append_logs(vec![chunk(1, 8, "three")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("one two three", 13));
    assert_eq!(read(store, 1, 4, 100).await, piece("two three", 13));
    assert_eq!(read(store, 1, 6, 100).await, piece("o three", 13));
    assert_eq!(read(store, 1, 13, 100).await, piece("", 13));
    assert_eq!(read(store, 1, 99, 100).await, piece("", 99));
}

pub(super) async fn a_log_has_nothing_at_an_offset_that_no_log_can_have(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "one")]).await.unwrap();
    for offset in [i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        assert_eq!(read(store, 1, offset, 100).await, piece("", offset));
    }
    assert_inconsistent(store.append_logs(vec![chunk(1, u64::MAX, "x")]).await);
}

pub(super) async fn a_chunk_that_is_there_is_left_as_it_is(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "first")]).await.unwrap();
    store.append_logs(vec![chunk(1, 0, "again"), chunk(1, 5, "!")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("first!", 6));
}

pub(super) async fn a_log_takes_no_more_room_than_its_length(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "one two"), chunk(1, 2, "e TWO three"), chunk(1, 0, "ONE")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("one two three", 13));
    for offset in 0..13 {
        store.append_logs(vec![chunk(1, offset, &"x".repeat(13 - offset as usize))]).await.unwrap();
    }
    assert_eq!(read(store, 1, 0, 100).await, piece("one two three", 13));
    store.append_logs(vec![chunk(1, 3, "xxxxxxxxxx four")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("one two three four", 18));
    assert_eq!(read(store, 1, 13, 100).await, piece(" four", 18));
}

pub(super) async fn a_piece_that_came_late_fills_its_gap(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "one "), chunk(1, 8, "three")]).await.unwrap();
    store.append_logs(vec![chunk(1, 4, "two ")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("one two three", 13));
    store
        .append_logs(vec![chunk(2, 0, "one "), chunk(2, 8, "three"), chunk(2, 4, "two "), chunk(2, 6, "o thr")])
        .await
        .unwrap();
    assert_eq!(read(store, 2, 0, 100).await, piece("one two three", 13));
}

pub(super) async fn a_read_ends_near_its_limit_but_gives_one_chunk(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "12345678"), chunk(1, 8, "90"), chunk(1, 10, "ab")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 0).await, piece("12345678", 8));
    assert_eq!(read(store, 1, 0, 10).await, piece("1234567890", 10));
    assert_eq!(read(store, 1, 8, 3).await, piece("90", 10));
}

pub(super) async fn logs_of_attempts_are_apart(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "one"), chunk(2, 0, "two")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("one", 3));
    assert_eq!(read(store, 2, 0, 100).await, piece("two", 3));
    assert_eq!(read(store, 3, 0, 100).await, piece("", 0));
}

pub(super) async fn a_lost_chunk_is_skipped(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "one"), chunk(1, 9, "four")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("onefour", 13));
    assert_eq!(read(store, 1, 5, 100).await, piece("four", 13));
}

pub(super) async fn a_log_ends_where_its_last_chunk_does(store: &dyn Store) {
    let end = async |attempt| store.log_end(job_id(1, 10, 0), AttemptNo(attempt)).await.unwrap();
    assert_eq!(end(1).await, 0);
    store.append_logs(vec![chunk(1, 0, "one"), chunk(1, 9, "four"), chunk(2, 0, "x")]).await.unwrap();
    assert_eq!((end(1).await, end(2).await, end(3).await), (13, 1, 0));
}

pub(super) async fn marks_are_kept_with_their_chunks(store: &dyn Store) {
    let marked = |offset, content: &str, marks: &str| LogChunk { marks: text(marks), ..chunk(1, offset, content) };
    store.append_logs(vec![marked(0, "one ", "a"), marked(4, "two ", ""), marked(8, "three", "ccc")]).await.unwrap();
    store.append_logs(vec![marked(0, "one ", "other")]).await.unwrap();
    let found = async |from, to| {
        let found = store.log_marks(job_id(1, 10, 0), AttemptNo(1), from, to).await.unwrap();
        let shown = |each: ChunkMarks| (each.offset, each.len, String::from_utf8(each.marks.to_vec()).unwrap());
        found.into_iter().map(shown).collect::<Vec<_>>()
    };
    let (first, last) = ((0, 4, "a".to_owned()), (8, 5, "ccc".to_owned()));
    assert_eq!(found(0, 100).await, [first.clone(), last.clone()]);
    assert_eq!(found(3, 8).await, [first]);
    assert_eq!(found(5, u64::MAX).await, [last]);
    assert_eq!(found(5, 8).await, []);
    assert_eq!(store.log_marks(job_id(1, 10, 0), AttemptNo(2), 0, 100).await.unwrap(), []);
    // The text does not change by them.
    assert_eq!(read(store, 1, 0, 100).await, piece("one two three", 13));
}
