use futures_util::future::join_all;
use punctual_core::namespace::NamespaceId;
use punctual_store::{
    IdentityChanges, IdentityId, KeyChange, KeyRow, OpenIdSubject, PasswordHash, SESSIONS_OF_USER_MAX, SecretDigest,
    SessionChange, SessionRow, Store, UserChange, UserRow, UserSessions, Uses,
};

use crate::fixture::*;
use crate::schedule_fixture::by;

/// Ids use all bits, and the stores' numbers have a sign.
fn id(number: u64) -> IdentityId {
    IdentityId(u64::MAX - number)
}

fn key(number: u64, name: &str) -> KeyRow {
    KeyRow {
        id: id(number),
        digest: SecretDigest([number as u8; 32]),
        name: name.to_owned(),
        namespace: None,
        grant: r#"{"role":"viewer"}"#.to_owned(),
        owner: None,
        created: by("local", 10),
        expires_at: None,
        last_used_at: None,
        replaced_by: None,
        revoked: None,
    }
}

fn user(number: u64, name: &str) -> UserRow {
    UserRow {
        id: id(number),
        name: name.to_owned(),
        mail: None,
        role: "developer".to_owned(),
        password: Some(PasswordHash("$argon2id$one".to_owned())),
        openid: None,
        disabled: false,
        revision: 1,
        created: by("local", 10),
        changed: by("local", 10),
        deleted_at: None,
    }
}

fn session(number: u64, user: u64, begun: i64) -> SessionRow {
    SessionRow {
        id: id(number),
        digest: SecretDigest([number as u8; 32]),
        user: id(user),
        created_at: at(begun),
        expires_at: at(begun + 1000),
        last_used_at: at(begun),
        ended_at: None,
        address: None,
    }
}

async fn all(store: &dyn Store) -> IdentityChanges {
    since(store, 0).await
}

async fn since(store: &dyn Store, revision: u64) -> IdentityChanges {
    let mut changes = store.identities_since(revision).await.unwrap();
    assert_eq!(changes.revision, store.identities_revision().await.unwrap());
    changes.keys.sort_by_key(|key| std::cmp::Reverse(key.id));
    changes.users.sort_by_key(|user| std::cmp::Reverse(user.id));
    changes.sessions.sort_by_key(|session| std::cmp::Reverse(session.id));
    changes
}

async fn added(store: &dyn Store, key: KeyRow) {
    assert_eq!(store.add_key(key, None).await.unwrap(), KeyChange::Done);
}

async fn with_user(store: &dyn Store, number: u64, name: &str) -> UserRow {
    let user = user(number, name);
    assert_eq!(store.add_user(user.clone()).await.unwrap(), UserChange::Done);
    user
}

async fn begun(store: &dyn Store, session: SessionRow) {
    assert_eq!(store.add_session(session, 1).await.unwrap(), SessionChange::Done);
}

pub(super) async fn a_key_reads_back_as_it_was_added(store: &dyn Store) {
    assert_eq!(all(store).await, IdentityChanges::default());
    let full = KeyRow { owner: Some(id(77)), expires_at: Some(at(99)), ..key(2, "deploy \"ü\"") };
    added(store, key(1, "ci")).await;
    added(store, full.clone()).await;
    assert_eq!(all(store).await.keys, [key(1, "ci"), full]);
}

pub(super) async fn a_name_belongs_to_one_key_that_is_neither_revoked_nor_replaced(store: &dyn Store) {
    added(store, key(1, "ci")).await;
    assert_eq!(store.add_key(key(2, "ci"), None).await.unwrap(), KeyChange::NameTaken);
    assert_eq!(all(store).await.keys, [key(1, "ci")]);
    assert!(store.revoke_key(id(1), by("ana", 20)).await.unwrap());
    added(store, key(2, "ci")).await;
    // A key that takes the place of another may not take the name of a third: nothing of it stays.
    added(store, key(3, "other")).await;
    let before = all(store).await.keys;
    assert!(store.add_key(key(4, "other"), Some((id(2), at(50)))).await.is_err());
    assert_eq!(all(store).await.keys, before);
}

pub(super) async fn keys_of_two_namespaces_may_have_one_name(store: &dyn Store) {
    let mut own = vec![key(1, "ci")];
    for (number, namespace) in [(2, NamespaceId::DEFAULT), (3, NamespaceId(7)), (4, NamespaceId(u32::MAX))] {
        own.push(KeyRow { namespace: Some(namespace), ..key(number, "ci") });
    }
    for row in &own {
        added(store, row.clone()).await;
        let again = KeyRow { id: id(9), ..row.clone() };
        assert_eq!(store.add_key(again, None).await.unwrap(), KeyChange::NameTaken);
    }
    assert_eq!(all(store).await.keys, own);
}

pub(super) async fn a_key_is_replaced_once_and_never_lasts_longer_for_it(store: &dyn Store) {
    added(store, key(1, "ci")).await;
    let answers = join_all((2..8).map(|new| store.add_key(key(new, "ci"), Some((id(1), at(50)))))).await;
    let answers: Vec<KeyChange> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == KeyChange::Done).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| **answer == KeyChange::Absent).count(), 5, "{answers:?}");
    let keys = all(store).await.keys;
    assert_eq!(keys.len(), 2);
    let (old, new) = (&keys[0], &keys[1]);
    assert_eq!((old.id, old.replaced_by, old.expires_at), (id(1), Some(new.id), Some(at(50))));
    assert_eq!((new.name.as_str(), new.expires_at), ("ci", None));
    // One that expires earlier than that still does.
    added(store, KeyRow { expires_at: Some(at(20)), ..key(10, "short") }).await;
    assert_eq!(store.add_key(key(11, "short"), Some((id(10), at(50)))).await.unwrap(), KeyChange::Done);
    let keys = all(store).await.keys;
    assert_eq!(keys.iter().find(|key| key.id == id(10)).unwrap().expires_at, Some(at(20)));
    // Of one that was revoked there is nothing to replace.
    assert!(store.revoke_key(id(11), by("ana", 20)).await.unwrap());
    for gone in [11, 99] {
        assert_eq!(store.add_key(key(12, "short"), Some((id(gone), at(50)))).await.unwrap(), KeyChange::Absent);
    }
}

pub(super) async fn a_key_is_revoked_once(store: &dyn Store) {
    added(store, key(1, "ci")).await;
    assert!(store.revoke_key(id(1), by("ana", 20)).await.unwrap());
    assert!(!store.revoke_key(id(1), by("bob", 30)).await.unwrap());
    assert!(!store.revoke_key(id(2), by("bob", 30)).await.unwrap());
    assert_eq!(all(store).await.keys, [KeyRow { revoked: Some(by("ana", 20)), ..key(1, "ci") }]);
}

pub(super) async fn a_person_reads_back_as_they_were_added(store: &dyn Store) {
    let ana = with_user(store, 1, "ana").await;
    let bob = UserRow { mail: Some("bob@example.com".to_owned()), password: None, disabled: true, ..user(2, "bob") };
    assert_eq!(store.add_user(bob.clone()).await.unwrap(), UserChange::Done);
    assert_eq!(store.add_user(user(3, "ana")).await.unwrap(), UserChange::NameTaken);
    assert_eq!(all(store).await.users, [ana, bob]);
}

pub(super) async fn a_person_is_changed_only_from_the_expected_revision(store: &dyn Store) {
    let ana = with_user(store, 1, "ana").await;
    let edited = UserRow { role: "viewer".to_owned(), revision: 2, changed: by("bob", 20), ..ana.clone() };
    let answers = join_all((0..6).map(|_| store.change_user(edited.clone(), UserSessions::Keep))).await;
    let done = answers.iter().filter(|answer| *answer.as_ref().unwrap() == UserChange::Done);
    assert_eq!(done.count(), 1);
    let conflict = UserChange::Conflict { revision: 2 };
    assert_eq!(store.change_user(edited.clone(), UserSessions::Keep).await.unwrap(), conflict);
    // The name and who made the row stay.
    let renamed = UserRow { name: "eve".to_owned(), created: by("eve", 1), revision: 3, ..edited.clone() };
    assert_eq!(store.change_user(renamed, UserSessions::Keep).await.unwrap(), UserChange::Done);
    assert_eq!(all(store).await.users, [UserRow { revision: 3, ..edited }]);
    assert_eq!(store.change_user(user(9, "nobody"), UserSessions::Keep).await.unwrap(), UserChange::Absent);
}

pub(super) async fn a_person_who_is_deleted_leaves_no_session_and_no_key(store: &dyn Store) {
    let ana = with_user(store, 1, "ana").await;
    with_user(store, 2, "bob").await;
    begun(store, session(10, 1, 5)).await;
    begun(store, session(11, 2, 5)).await;
    for (number, owner) in [(20, Some(id(1))), (21, Some(id(2))), (22, None)] {
        added(store, KeyRow { owner, ..key(number, &format!("key {number}")) }).await;
    }
    let gone = UserRow { revision: 2, changed: by("local", 30), deleted_at: Some(at(30)), ..ana };
    assert_eq!(store.change_user(gone.clone(), UserSessions::Keep).await.unwrap(), UserChange::Done);
    let now = all(store).await;
    let ended: Vec<_> = now.sessions.iter().map(|session| (session.id, session.ended_at)).collect();
    assert_eq!(ended, [(id(10), Some(at(30))), (id(11), None)]);
    let revoked: Vec<_> = now.keys.iter().map(|key| key.revoked.clone()).collect();
    assert_eq!(revoked, [Some(by("local", 30)), None, None]);
    let again = UserRow { revision: 3, ..gone };
    assert_eq!(store.change_user(again, UserSessions::Keep).await.unwrap(), UserChange::Absent);
    assert_eq!(store.add_session(session(12, 1, 40), 2).await.unwrap(), SessionChange::Stale);
    with_user(store, 3, "ana").await;
}

pub(super) async fn a_session_begins_only_for_the_person_whose_password_was_checked(store: &dyn Store) {
    with_user(store, 1, "ana").await;
    let first = SessionRow { address: Some("::1".to_owned()), ..session(10, 1, 5) };
    begun(store, first.clone()).await;
    for stale in [0, 2] {
        assert_eq!(store.add_session(session(11, 1, 6), stale).await.unwrap(), SessionChange::Stale);
    }
    assert_eq!(store.add_session(session(11, 9, 6), 1).await.unwrap(), SessionChange::Stale);
    assert_eq!(all(store).await.sessions, [first]);
}

pub(super) async fn a_session_ends_once(store: &dyn Store) {
    with_user(store, 1, "ana").await;
    begun(store, session(10, 1, 5)).await;
    assert!(store.end_session(id(10), at(8)).await.unwrap());
    assert!(!store.end_session(id(10), at(9)).await.unwrap());
    assert!(!store.end_session(id(11), at(9)).await.unwrap());
    assert_eq!(all(store).await.sessions, [SessionRow { ended_at: Some(at(8)), ..session(10, 1, 5) }]);
}

pub(super) async fn of_many_sessions_of_a_person_the_oldest_end(store: &dyn Store) {
    with_user(store, 1, "ana").await;
    with_user(store, 2, "bob").await;
    begun(store, session(5, 2, 0)).await;
    let count = SESSIONS_OF_USER_MAX as u64 + 2;
    for number in 0..count {
        begun(store, session(100 + number, 1, number as i64)).await;
    }
    let sessions = all(store).await.sessions;
    let ended = sessions.iter().filter(|session| session.ended_at.is_some());
    assert_eq!(ended.map(|session| session.id).collect::<Vec<_>>(), [id(100), id(101)]);
    assert_eq!(sessions.len() as u64, count + 1);
}

pub(super) async fn a_change_of_a_password_ends_the_sessions_of_that_person_alone(store: &dyn Store) {
    let ana = with_user(store, 1, "ana").await;
    with_user(store, 2, "bob").await;
    begun(store, session(10, 1, 5)).await;
    begun(store, session(11, 2, 5)).await;
    let password = Some(PasswordHash("$argon2id$two".to_owned()));
    let changed = UserRow { password, revision: 2, changed: by("ana", 30), ..ana };
    assert_eq!(store.change_user(changed.clone(), UserSessions::End).await.unwrap(), UserChange::Done);
    let now = all(store).await;
    let ended: Vec<_> = now.sessions.iter().map(|session| session.ended_at).collect();
    assert_eq!(ended, [Some(at(30)), None]);
    assert_eq!(now.users[0], changed);
}

pub(super) async fn a_subject_belongs_to_one_person_who_is_not_deleted(store: &dyn Store) {
    let openid =
        |issuer: &str, subject: &str| Some(OpenIdSubject { issuer: issuer.to_owned(), subject: subject.to_owned() });
    let ana = UserRow { openid: openid("https://id.example", "1 \"ü\""), password: None, ..user(1, "ana") };
    assert_eq!(store.add_user(ana.clone()).await.unwrap(), UserChange::Done);
    let same = UserRow { openid: ana.openid.clone(), ..user(2, "bob") };
    assert_eq!(store.add_user(same.clone()).await.unwrap(), UserChange::SubjectTaken);
    assert_eq!(all(store).await.users, std::slice::from_ref(&ana));
    for (number, name, openid) in [
        (3, "eve", openid("https://other.example", "1 \"ü\"")),
        (4, "joe", openid("https://id.example", "2")),
        (5, "kim", None),
        (6, "lea", None),
    ] {
        assert_eq!(store.add_user(UserRow { openid, ..user(number, name) }).await.unwrap(), UserChange::Done, "{name}");
    }
    // A change does not make them somebody else.
    let moved = UserRow { openid: openid("https://id.example", "9"), revision: 2, ..ana.clone() };
    assert_eq!(store.change_user(moved, UserSessions::Keep).await.unwrap(), UserChange::Done);
    assert_eq!(all(store).await.users[0].openid, ana.openid);
    let gone = UserRow { revision: 3, deleted_at: Some(at(30)), ..ana };
    assert_eq!(store.change_user(gone, UserSessions::End).await.unwrap(), UserChange::Done);
    assert_eq!(store.add_user(same).await.unwrap(), UserChange::Done);
}

pub(super) async fn an_id_is_that_of_one_session_also_after_its_end(store: &dyn Store) {
    with_user(store, 1, "ana").await;
    with_user(store, 2, "bob").await;
    let answers = join_all((1..3).map(|user| store.add_session(session(10, user, 5), 1))).await;
    let answers: Vec<SessionChange> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == SessionChange::Done).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| **answer == SessionChange::IdTaken).count(), 1, "{answers:?}");
    assert!(store.end_session(id(10), at(8)).await.unwrap());
    assert_eq!(store.add_session(session(10, 1, 9), 1).await.unwrap(), SessionChange::IdTaken);
    assert_eq!(all(store).await.sessions.len(), 1);
}

pub(super) async fn every_change_has_a_later_revision(store: &dyn Store) {
    added(store, key(1, "ci")).await;
    let ana = with_user(store, 2, "ana").await;
    begun(store, session(3, 2, 5)).await;
    let known = all(store).await.revision;
    assert_eq!(since(store, known).await, IdentityChanges { revision: known, ..IdentityChanges::default() });
    assert!(store.revoke_key(id(1), by("ana", 20)).await.unwrap());
    let changes = since(store, known).await;
    assert!(changes.revision > known);
    assert_eq!((changes.keys.len(), changes.users.len(), changes.sessions.len()), (1, 0, 0));
    let known = changes.revision;
    let changed = UserRow { disabled: true, revision: 2, ..ana };
    assert_eq!(store.change_user(changed.clone(), UserSessions::End).await.unwrap(), UserChange::Done);
    let changes = since(store, known).await;
    assert_eq!((changes.keys.len(), &changes.users[..], changes.sessions.len()), (0, &[changed][..], 1));
    // A revision that was never reached: the database went back in time.
    assert_eq!(since(store, u64::MAX >> 1).await.users, []);
}

async fn let_others_run() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

pub(super) async fn changes_at_once_are_all_seen(store: &dyn Store) {
    let reader = async {
        let (mut seen, mut known) = (Vec::new(), 0);
        while seen.len() < 20 {
            let changes = store.identities_since(known).await.unwrap();
            known = changes.revision;
            seen.extend(changes.keys.into_iter().map(|key| key.id));
            let_others_run().await;
        }
        seen.sort_unstable();
        seen
    };
    let writers =
        join_all((0..20).map(|number| async move { added(store, key(number, &format!("key {number}"))).await }));
    let (seen, _) = futures_util::future::join(reader, writers).await;
    assert_eq!(seen, (0..20).rev().map(id).collect::<Vec<_>>(), "each of them once");
}

pub(super) async fn times_of_last_use_never_go_back(store: &dyn Store) {
    added(store, key(1, "ci")).await;
    with_user(store, 2, "ana").await;
    begun(store, session(3, 2, 5)).await;
    let note = async |seconds| {
        // Twice, and one that is not there.
        let keys = vec![(id(1), at(seconds)), (id(1), at(seconds - 1)), (id(9), at(seconds))];
        let sessions = vec![(id(3), at(seconds))];
        store.note_uses(Uses { keys, sessions }).await.unwrap();
        let now = all(store).await;
        (now.keys[0].last_used_at, now.sessions[0].last_used_at)
    };
    assert_eq!(note(60).await, (Some(at(60)), at(60)));
    assert_eq!(note(30).await, (Some(at(60)), at(60)));
    let known = all(store).await.revision;
    assert_eq!(note(90).await, (Some(at(90)), at(90)));
    let changes = since(store, known).await;
    assert_eq!((changes.keys.len(), changes.sessions.len()), (1, 1), "other servers see it");
    store.note_uses(Uses::default()).await.unwrap();
}

pub(super) async fn what_ended_long_ago_is_removed(store: &dyn Store) {
    added(store, key(1, "stays")).await;
    added(store, KeyRow { expires_at: Some(at(50)), ..key(2, "expired") }).await;
    added(store, KeyRow { expires_at: Some(at(150)), ..key(3, "expires") }).await;
    added(store, key(4, "revoked")).await;
    assert!(store.revoke_key(id(4), by("ana", 50)).await.unwrap());
    let ana = with_user(store, 5, "ana").await;
    with_user(store, 6, "bob").await;
    begun(store, session(10, 5, 5)).await;
    begun(store, SessionRow { expires_at: at(50), ..session(11, 6, 5) }).await;
    begun(store, session(12, 6, 5)).await;
    let gone = UserRow { revision: 2, changed: by("local", 50), deleted_at: Some(at(50)), ..ana };
    assert_eq!(store.change_user(gone, UserSessions::End).await.unwrap(), UserChange::Done);
    assert_eq!(store.prune_identities(at(50)).await.unwrap(), 0);
    assert_eq!(store.prune_identities(at(100)).await.unwrap(), 5);
    let now = all(store).await;
    let names: Vec<_> = now.keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["stays", "expires"]);
    let names: Vec<_> = now.users.iter().map(|user| user.name.as_str()).collect();
    assert_eq!(names, ["bob"]);
    assert_eq!(now.sessions, [session(12, 6, 5)]);
}
