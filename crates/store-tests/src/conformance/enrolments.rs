use std::collections::BTreeMap;

use punctual_core::worker_scope::WorkerScope;
use punctual_core::{EnrolmentId, JoinTokenId, Span};
use punctual_store::{ENDED_KEPT_FOR, Enrolment, JoinRefusal, JoinRequest, JoinTokenRow, Joined, Store};

use crate::fixture::*;

const HOUR: i64 = 3600;

fn token_id(number: u64) -> JoinTokenId {
    JoinTokenId::new(at(0), number)
}

fn worker_id(number: u64) -> EnrolmentId {
    EnrolmentId::new(at(0), number)
}

fn token(number: u64, uses_max: u32) -> JoinTokenRow {
    let scope = WorkerScope {
        namespaces: vec!["default".to_owned()],
        queues: vec!["a".to_owned(), "b\"é".to_owned()],
        labels: BTreeMap::from([("gpu".to_owned(), "true".to_owned())]),
        kinds: vec!["binary".to_owned()],
    };
    JoinTokenRow {
        id: token_id(number),
        secret_sha256: [number as u8; 32],
        scope,
        uses_max,
        uses: 0,
        created_at: at(0),
        created_by: "ana".to_owned(),
        expires_at: at(HOUR),
        revoked_at: None,
    }
}

fn request(worker: u64, token: u64, secs: i64) -> JoinRequest {
    JoinRequest {
        id: worker_id(worker),
        join_token: token_id(token),
        name: format!("host-{worker}"),
        key_sha256: [worker as u8; 32],
        now: at(secs),
        expires_at: at(secs + 7 * HOUR),
    }
}

async fn enrolled(store: &dyn Store, request: JoinRequest) -> Enrolment {
    match store.enrol(request).await.unwrap() {
        Joined::Enrolled(row) => row,
        Joined::Refused(refusal) => panic!("refused: {refusal:?}"),
    }
}

async fn refusal(store: &dyn Store, request: JoinRequest) -> JoinRefusal {
    match store.enrol(request).await.unwrap() {
        Joined::Enrolled(row) => panic!("it got in: {row:?}"),
        Joined::Refused(refusal) => refusal,
    }
}

pub(super) async fn a_join_token_reads_back_as_it_was_added(store: &dyn Store) {
    assert!(store.add_join_token(token(2, 5)).await.unwrap());
    assert!(store.add_join_token(token(1, u32::MAX)).await.unwrap());
    assert_eq!(store.join_tokens().await.unwrap(), [token(1, u32::MAX), token(2, 5)]);
    assert_eq!(store.join_token(token_id(2)).await.unwrap(), Some(token(2, 5)));
    assert_eq!(store.join_token(token_id(3)).await.unwrap(), None);
}

pub(super) async fn a_join_token_admits_as_many_workers_as_it_has_uses(store: &dyn Store) {
    store.add_join_token(token(1, 2)).await.unwrap();
    let first = enrolled(store, request(1, 1, 10)).await;
    let expected = Enrolment {
        id: worker_id(1),
        join_token: token_id(1),
        name: "host-1".to_owned(),
        scope: token(1, 2).scope,
        key_sha256: [1; 32],
        enrolled_at: at(10),
        renewed_at: at(10),
        expires_at: at(10 + 7 * HOUR),
        revoked_at: None,
        revision: first.revision,
    };
    assert_eq!(first, expected);
    enrolled(store, request(2, 1, 11)).await;
    assert_eq!(refusal(store, request(3, 1, 12)).await, JoinRefusal::UsedUp);
    assert_eq!(store.join_token(token_id(1)).await.unwrap().unwrap().uses, 2);
    assert_eq!(store.enrolments_changed(0, 10).await.unwrap().rows.len(), 2);
}

pub(super) async fn a_worker_that_asks_again_gets_its_enrolment_and_uses_nothing(store: &dyn Store) {
    store.add_join_token(token(1, 1)).await.unwrap();
    let first = enrolled(store, request(1, 1, 10)).await;
    let again = enrolled(store, JoinRequest { id: worker_id(9), ..request(1, 1, 20) }).await;
    assert_eq!((again.id, again.enrolled_at, again.renewed_at), (first.id, at(10), at(20)));
    assert!(again.revision > first.revision);
    assert_eq!(store.join_token(token_id(1)).await.unwrap().unwrap().uses, 1);
    assert_eq!(refusal(store, request(2, 1, 21)).await, JoinRefusal::UsedUp, "another key is another worker");
    store.revoke_enrolment(first.id, at(30)).await.unwrap();
    assert_eq!(refusal(store, request(1, 1, 31)).await, JoinRefusal::WorkerRevoked);
    assert_eq!(refusal(store, request(1, 1, HOUR)).await, JoinRefusal::Expired, "the token's end counts for all");
}

pub(super) async fn nobody_joins_with_a_token_that_ended_or_never_was(store: &dyn Store) {
    store.add_join_token(token(1, 9)).await.unwrap();
    assert_eq!(refusal(store, request(1, 2, 10)).await, JoinRefusal::UnknownToken);
    assert_eq!(refusal(store, request(1, 1, HOUR)).await, JoinRefusal::Expired);
    assert!(store.revoke_join_token(token_id(1), at(20)).await.unwrap());
    assert!(!store.revoke_join_token(token_id(1), at(21)).await.unwrap(), "the first time stays");
    assert!(!store.revoke_join_token(token_id(2), at(21)).await.unwrap());
    assert_eq!(store.join_token(token_id(1)).await.unwrap().unwrap().revoked_at, Some(at(20)));
    assert_eq!(refusal(store, request(1, 1, 22)).await, JoinRefusal::Revoked);
    assert_eq!(store.enrolments_changed(0, 10).await.unwrap().rows, []);
}

pub(super) async fn of_many_workers_at_once_no_more_join_than_a_token_has_uses(store: &dyn Store) {
    store.add_join_token(token(1, 3)).await.unwrap();
    let joins = (0..12).map(|worker| store.enrol(request(worker, 1, 10)));
    let joined = futures_util::future::join_all(joins).await;
    let count = joined.into_iter().filter(|joined| matches!(joined, Ok(Joined::Enrolled(_)))).count();
    assert_eq!(count, 3);
    assert_eq!(store.enrolments_changed(0, 100).await.unwrap().rows.len(), 3);
}

pub(super) async fn a_revoked_worker_is_not_renewed(store: &dyn Store) {
    store.add_join_token(token(1, 9)).await.unwrap();
    let row = enrolled(store, request(1, 1, 10)).await;
    let renewed = store.renew_enrolment(row.id, at(50), at(9 * HOUR)).await.unwrap().unwrap();
    let revision = renewed.revision;
    assert_eq!(renewed, Enrolment { renewed_at: at(50), expires_at: at(9 * HOUR), revision, ..row.clone() });
    assert!(store.revoke_enrolment(row.id, at(60)).await.unwrap());
    assert!(!store.revoke_enrolment(row.id, at(61)).await.unwrap(), "the first time stays");
    assert!(!store.revoke_enrolment(worker_id(7), at(61)).await.unwrap());
    assert_eq!(store.renew_enrolment(row.id, at(70), at(10 * HOUR)).await.unwrap(), None);
    assert_eq!(store.renew_enrolment(worker_id(7), at(70), at(10 * HOUR)).await.unwrap(), None);
    let rows = store.enrolments_changed(0, 10).await.unwrap().rows;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].revoked_at, rows[0].expires_at), (Some(at(60)), at(9 * HOUR)));
}

pub(super) async fn changes_of_enrolments_are_read_in_their_order(store: &dyn Store) {
    assert_eq!(store.enrolments_changed(0, 10).await.unwrap().rows, []);
    store.add_join_token(token(1, 9)).await.unwrap();
    for worker in 1..=3 {
        enrolled(store, request(worker, 1, 10)).await;
    }
    store.revoke_enrolment(worker_id(1), at(20)).await.unwrap();
    let ids = |rows: &[Enrolment]| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    let all = store.enrolments_changed(0, 10).await.unwrap();
    assert_eq!(ids(&all.rows), [worker_id(2), worker_id(3), worker_id(1)]);
    assert_eq!(all.revision, all.rows[2].revision);
    assert!(all.rows.is_sorted_by_key(|row| row.revision));
    let page = store.enrolments_changed(0, 1).await.unwrap();
    assert_eq!((ids(&page.rows), page.revision), (vec![worker_id(2)], all.revision));
    let rest = store.enrolments_changed(page.rows[0].revision, 10).await.unwrap();
    assert_eq!(ids(&rest.rows), [worker_id(3), worker_id(1)]);
    assert_eq!(store.enrolments_changed(all.revision, 10).await.unwrap().rows, []);
}

pub(super) async fn what_ended_long_ago_makes_room_for_what_is_new(store: &dyn Store) {
    store.add_join_token(token(1, 9)).await.unwrap();
    enrolled(store, request(1, 1, 0)).await;
    let later = at(8 * HOUR) + ENDED_KEPT_FOR;
    let hour = Span::from_secs(HOUR);
    let lasting = JoinTokenRow { created_at: later, expires_at: later + hour, ..token(2, 9) };
    store.add_join_token(lasting.clone()).await.unwrap();
    assert_eq!(store.join_tokens().await.unwrap(), std::slice::from_ref(&lasting));
    let row = enrolled(store, JoinRequest { now: later, expires_at: later + hour, ..request(2, 2, 0) }).await;
    assert_eq!(store.enrolments_changed(0, 10).await.unwrap().rows, [row]);
}

pub(super) async fn the_namespaces_of_workers_change_with_a_revision_of_their_own(store: &dyn Store) {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (number, uses) in [(1, 3), (2, 1)] {
        assert!(store.add_join_token(token(number, uses)).await.unwrap());
    }
    let (one, two, revoked, other) = (
        enrolled(store, request(1, 1, 10)).await,
        enrolled(store, request(2, 1, 10)).await,
        enrolled(store, request(3, 1, 10)).await,
        enrolled(store, request(4, 2, 10)).await,
    );
    assert!(store.revoke_enrolment(revoked.id, at(20)).await.unwrap());
    let before = store.enrolments_changed(0, 100).await.unwrap().revision;
    let changed = store.set_worker_namespaces(one.id, names(&["a", "b"])).await.unwrap().unwrap();
    assert_eq!(changed.scope, WorkerScope { namespaces: names(&["a", "b"]), ..one.scope.clone() }, "and nothing else");
    assert_eq!(store.enrolments_changed(before, 100).await.unwrap().rows, [changed]);
    assert_eq!(store.set_worker_namespaces(revoked.id, names(&["a"])).await.unwrap(), None);
    assert_eq!(store.set_worker_namespaces(worker_id(99), names(&["a"])).await.unwrap(), None);
    // All that joined with a token, and those that will.
    let before = store.enrolments_changed(0, 100).await.unwrap().revision;
    let row = store.set_token_namespaces(token_id(1), names(&["c"])).await.unwrap().unwrap();
    assert_eq!(store.join_token(token_id(1)).await.unwrap(), Some(row.clone()));
    assert_eq!((row.scope.namespaces.as_slice(), row.uses), (names(&["c"]).as_slice(), 3));
    let rows = store.enrolments_changed(before, 100).await.unwrap().rows;
    let mut ids: Vec<EnrolmentId> = rows.iter().map(|row| row.id).collect();
    ids.sort();
    assert_eq!(ids, [one.id, two.id]);
    assert!(rows.iter().all(|row| row.scope.namespaces == names(&["c"])) && rows[0].revision < rows[1].revision);
    let next = enrolled(store, request(4, 2, 30)).await;
    assert_eq!(next.scope, other.scope, "those of another token stay as they are");
    assert_eq!(store.set_token_namespaces(token_id(9), names(&["c"])).await.unwrap(), None);
}
