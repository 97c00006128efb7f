//! Who somebody is who presents a key or a session, and what that is worth after something has changed.

mod world;

use std::net::IpAddr;
use std::sync::Arc;

use punctual_api::{
    ErrorKind, KeyCreated, KeyRequest, KeyState, LoginRequest, PasswordRequest, RotateRequest, SecretText, UserEdit,
    UserRequest,
};
use punctual_app::permission::{CreateKeys, ManagePeople};
use punctual_app::{App, By, Permission, Principal, PrincipalKind, SocketUser, Transport};
use punctual_core::Span;
use punctual_core::access::{Right, Rights, Role};

use world::World;

const PASSWORD: &str = "correct horse battery staple";

fn from_elsewhere() -> Transport {
    Transport { address: Some(IpAddr::from([192, 0, 2, 1])), ..Transport::default() }
}

fn local(app: &App) -> Arc<Principal> {
    let transport = Transport { socket_user: SocketUser::Own, ..Transport::default() };
    Arc::new(app.authenticate(&transport, None, None).unwrap())
}

fn by<R: Permission>(app: &App) -> By<R> {
    local(app).permit().unwrap()
}

/// The principal of a key or session, or the code of the refusal.
fn authenticated(app: &App, SecretText(secret): &SecretText) -> Result<Arc<Principal>, ErrorKind> {
    app.authenticate(&from_elsewhere(), Some(secret), None).map(Arc::new).map_err(|error| error.kind)
}

fn key_request(name: &str, role: &str) -> KeyRequest {
    KeyRequest { name: name.to_owned(), role: Some(role.to_owned()), ..KeyRequest::default() }
}

async fn key(app: &App, name: &str, role: &str) -> KeyCreated {
    app.create_key(&by(app), &key_request(name, role)).await.unwrap()
}

async fn user(app: &App, name: &str, role: &str) {
    let request = UserRequest {
        name: name.to_owned(),
        role: Some(role.to_owned()),
        password: Some(SecretText(PASSWORD.to_owned())),
        ..UserRequest::default()
    };
    app.create_user(&by::<ManagePeople>(app), &request).await.unwrap();
}

async fn login(app: &App, name: &str, password: &str) -> Result<SecretText, ErrorKind> {
    let request = LoginRequest { name: name.to_owned(), password: SecretText(password.to_owned()) };
    app.login(&from_elsewhere(), &request).await.map(|created| created.token).map_err(|error| error.kind)
}

async fn world() -> World {
    let world = World::new().await;
    world.app.refresh_identities().await.unwrap();
    world
}

#[tokio::test]
async fn a_key_is_who_it_says_and_may_do_what_it_was_given() {
    let world = world().await;
    let app = &world.app;
    let made = key(app, "deploy", "operator").await;
    let principal = authenticated(app, &made.secret).unwrap();
    assert_eq!((principal.kind(), principal.name()), (PrincipalKind::Key, "key:deploy"));
    assert_eq!(principal.credential(), Some(made.key.id.as_str()));
    assert_eq!((principal.rights(), principal.address()), (Role::Operator.rights(), from_elsewhere().address));
    let listed = app.list_keys(&by(app)).await.unwrap().keys;
    assert_eq!(listed.len(), 1);
    let SecretText(secret) = &made.secret;
    let hidden = secret.split('_').nth(3).unwrap();
    assert!(!format!("{listed:?} {made:?}").contains(hidden));
    assert!(!serde_json::to_string(&listed).unwrap().contains(hidden));
    let taken = app.create_key(&by(app), &key_request("deploy", "viewer")).await.unwrap_err();
    assert_eq!(taken.kind, ErrorKind::KeyExists);
}

#[tokio::test]
async fn what_is_no_valid_key_is_refused_by_its_own_code() {
    let world = world().await;
    let app = &world.app;
    let made = key(app, "deploy", "operator").await;
    let SecretText(text) = &made.secret;
    let refused = |text: &str| authenticated(app, &SecretText(text.to_owned())).unwrap_err();
    assert_eq!(refused(&text[..text.len() - 1]), ErrorKind::InvalidToken, "malformed");
    let (start, last) = text.split_at(text.len() - 1);
    let wrong = if last == "0" { "1" } else { "0" };
    assert_eq!(refused(&format!("{start}{wrong}")), ErrorKind::InvalidToken, "wrong checksum");
    assert_eq!(refused("punctual_key_"), ErrorKind::InvalidToken);
    // Right in form, and of another cluster.
    let other = World::new().await;
    other.app.refresh_identities().await.unwrap();
    key(&other.app, "first", "admin").await;
    let foreign = key(&other.app, "deploy", "operator").await;
    assert_eq!(authenticated(app, &foreign.secret).unwrap_err(), ErrorKind::InvalidToken);
    let request = KeyRequest { expires_in: Some(Span::from_secs(100)), ..key_request("short", "viewer") };
    let short = app.create_key(&by(app), &request).await.unwrap();
    world.pass(99);
    app.refresh_identities().await.unwrap();
    assert!(authenticated(app, &short.secret).is_ok());
    world.pass(1);
    assert_eq!(authenticated(app, &short.secret).unwrap_err(), ErrorKind::CredentialExpired);
    app.revoke_key(&by(app), "deploy").await.unwrap();
    assert_eq!(authenticated(app, &made.secret).unwrap_err(), ErrorKind::CredentialRevoked);
    let states: Vec<_> = app.list_keys(&by(app)).await.unwrap().keys.iter().map(|key| key.state).collect();
    assert_eq!(states, [KeyState::Revoked, KeyState::Expired]);
}

#[tokio::test]
async fn a_key_never_holds_more_than_its_maker() {
    let world = world().await;
    let app = &world.app;
    user(app, "ana", "developer").await;
    let session = login(app, "ana", PASSWORD).await.unwrap();
    let ana: By<CreateKeys> = authenticated(app, &session).unwrap().permit().unwrap();
    for role in ["admin"] {
        let refused = app.create_key(&ana, &key_request("more", role)).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{role}");
    }
    let rights = Some(vec!["secrets.use".to_owned()]);
    let request = KeyRequest { role: None, rights, ..key_request("more", "") };
    assert_eq!(app.create_key(&ana, &request).await.unwrap_err().kind, ErrorKind::Forbidden);
    let made = app.create_key(&ana, &key_request("hers", "developer")).await.unwrap();
    assert_eq!(made.key.owner.as_deref(), Some("ana"));
    assert_eq!(authenticated(app, &made.secret).unwrap().rights(), Role::Developer.rights());
    // Nor through a key that she made.
    let key: By<CreateKeys> = authenticated(app, &made.secret).unwrap().permit().unwrap();
    assert_eq!(app.create_key(&key, &key_request("more", "admin")).await.unwrap_err().kind, ErrorKind::Forbidden);
    // What its maker loses, it loses.
    let edit = UserEdit { role: Some("viewer".to_owned()), ..UserEdit::default() };
    app.edit_user(&by(app), "ana", &edit).await.unwrap();
    assert_eq!(authenticated(app, &made.secret).unwrap().rights(), Role::Viewer.rights());
    let edit = UserEdit { disabled: Some(true), ..UserEdit::default() };
    app.edit_user(&by(app), "ana", &edit).await.unwrap();
    assert_eq!(authenticated(app, &made.secret).unwrap_err(), ErrorKind::CredentialRevoked);
    assert_eq!(authenticated(app, &session).unwrap_err(), ErrorKind::CredentialRevoked);
}

#[tokio::test]
async fn people_without_the_right_to_manage_keys_see_and_change_their_own() {
    let world = world().await;
    let app = &world.app;
    let others = key(app, "others", "viewer").await;
    user(app, "ana", "developer").await;
    let session = login(app, "ana", PASSWORD).await.unwrap();
    let ana: By<CreateKeys> = authenticated(app, &session).unwrap().permit().unwrap();
    app.create_key(&ana, &key_request("hers", "viewer")).await.unwrap();
    let seen = app.list_keys(&ana).await.unwrap().keys;
    assert_eq!(seen.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["hers"]);
    for name in ["others", others.key.id.as_str()] {
        assert_eq!(app.key(&ana, name).await.unwrap_err().kind, ErrorKind::KeyNotFound);
        assert_eq!(app.revoke_key(&ana, name).await.unwrap_err().kind, ErrorKind::KeyNotFound);
        let rotated = app.rotate_key(&ana, name, &RotateRequest::default()).await;
        assert_eq!(rotated.unwrap_err().kind, ErrorKind::KeyNotFound);
    }
    assert!(authenticated(app, &others.secret).is_ok());
}

#[tokio::test]
async fn a_key_that_is_rotated_stays_valid_for_the_overlap() {
    let world = world().await;
    let app = &world.app;
    let old = key(app, "ci", "viewer").await;
    let overlap = Some(Span::from_secs(50));
    let new = app.rotate_key(&by(app), "ci", &RotateRequest { overlap, expires_in: None }).await.unwrap();
    assert_ne!(old.secret, new.secret);
    assert!(authenticated(app, &old.secret).is_ok() && authenticated(app, &new.secret).is_ok());
    let again = app.rotate_key(&by(app), &old.key.id, &RotateRequest::default()).await;
    assert_eq!(again.unwrap_err().kind, ErrorKind::KeyEnded);
    world.pass(50);
    app.refresh_identities().await.unwrap();
    assert_eq!(authenticated(app, &old.secret).unwrap_err(), ErrorKind::CredentialExpired);
    assert!(authenticated(app, &new.secret).is_ok());
    let at_once = app.rotate_key(&by(app), "ci", &RotateRequest { overlap: Some(Span::ZERO), expires_in: None }).await;
    assert_eq!(authenticated(app, &new.secret).unwrap_err(), ErrorKind::CredentialExpired);
    assert!(authenticated(app, &at_once.unwrap().secret).is_ok());
}

#[tokio::test]
async fn a_key_made_with_a_key_does_not_outlive_it() {
    let world = world().await;
    let app = &world.app;
    let request = KeyRequest { expires_in: Some(Span::from_secs(1000)), ..key_request("maker", "developer") };
    let maker = app.create_key(&by(app), &request).await.unwrap();
    let made_by: By<CreateKeys> = authenticated(app, &maker.secret).unwrap().permit().unwrap();
    let child = app.create_key(&made_by, &key_request("child", "viewer")).await.unwrap();
    assert_eq!(child.key.expires_at, maker.key.expires_at);
    let request = KeyRequest { expires_in: Some(Span::from_secs(2000)), ..key_request("longer", "viewer") };
    assert_eq!(app.create_key(&made_by, &request).await.unwrap_err().kind, ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn a_login_that_fails_says_the_same_whatever_was_wrong() {
    let world = world().await;
    let app = &world.app;
    user(app, "ana", "viewer").await;
    user(app, "bob", "viewer").await;
    let edit = UserEdit { disabled: Some(true), ..UserEdit::default() };
    app.edit_user(&by(app), "bob", &edit).await.unwrap();
    let nobody = UserRequest { name: "carl".to_owned(), role: Some("viewer".to_owned()), ..UserRequest::default() };
    app.create_user(&by(app), &nobody).await.unwrap();
    let mut answers = Vec::new();
    for (name, password) in [("ana", "wrong"), ("eve", PASSWORD), ("bob", PASSWORD), ("carl", PASSWORD), ("", "")] {
        let request = LoginRequest { name: name.to_owned(), password: SecretText(password.to_owned()) };
        let refused = app.login(&from_elsewhere(), &request).await.unwrap_err();
        answers.push((refused.kind, refused.detail, refused.hint));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(answers[0].0, ErrorKind::LoginFailed);
    let session = login(app, "ana", PASSWORD).await.unwrap();
    let ana = authenticated(app, &session).unwrap();
    assert_eq!((ana.kind(), ana.name(), ana.rights()), (PrincipalKind::Person, "user:ana", Role::Viewer.rights()));
}

#[tokio::test]
async fn a_flood_of_logins_is_limited_and_others_are_not_affected() {
    let world = world().await;
    let app = &world.app;
    user(app, "ana", "viewer").await;
    let mut last = None;
    for _ in 0..11 {
        let request = LoginRequest { name: "ana".to_owned(), password: SecretText("wrong".to_owned()) };
        last = app.login(&from_elsewhere(), &request).await.err();
    }
    let refused = last.unwrap();
    assert_eq!(refused.kind, ErrorKind::TooManyLogins);
    assert_eq!(refused.retry_after, Some(Span::from_secs(10)));
    assert_eq!(login(app, "ana", PASSWORD).await.unwrap_err(), ErrorKind::TooManyLogins, "also the right one");
    let request = LoginRequest { name: "ana".to_owned(), password: SecretText(PASSWORD.to_owned()) };
    let elsewhere = Transport { address: Some(IpAddr::from([192, 0, 2, 2])), ..Transport::default() };
    assert!(app.login(&elsewhere, &request).await.is_ok(), "from another address");
    world.pass(10);
    app.refresh_identities().await.unwrap();
    assert!(login(app, "ana", PASSWORD).await.is_ok());
}

#[tokio::test]
async fn a_change_of_a_password_ends_the_sessions_and_needs_the_present_one() {
    let world = world().await;
    let app = &world.app;
    user(app, "ana", "viewer").await;
    user(app, "bob", "viewer").await;
    let (first, second) = (login(app, "ana", PASSWORD).await.unwrap(), login(app, "ana", PASSWORD).await.unwrap());
    let bobs = login(app, "bob", PASSWORD).await.unwrap();
    let ana = authenticated(app, &first).unwrap();
    let new = |current: Option<&str>| PasswordRequest {
        password: SecretText("another long password".to_owned()),
        current: current.map(|current| SecretText(current.to_owned())),
    };
    let set = async |name: &str, request: PasswordRequest| {
        app.set_password(&ana, &from_elsewhere(), name, &request).await.map_err(|error| error.kind)
    };
    assert_eq!(set("ana", new(None)).await, Err(ErrorKind::InvalidRequest));
    assert_eq!(set("ana", new(Some("wrong"))).await, Err(ErrorKind::LoginFailed));
    assert_eq!(set("bob", new(Some(PASSWORD))).await, Err(ErrorKind::Forbidden), "somebody else's");
    assert!(authenticated(app, &first).is_ok());
    assert_eq!(set("ana", new(Some(PASSWORD))).await, Ok(()));
    for session in [&first, &second] {
        assert_eq!(authenticated(app, session).unwrap_err(), ErrorKind::CredentialRevoked);
    }
    assert!(authenticated(app, &bobs).is_ok());
    assert_eq!(login(app, "ana", PASSWORD).await.unwrap_err(), ErrorKind::LoginFailed);
    assert!(login(app, "ana", "another long password").await.is_ok());
}

#[tokio::test]
async fn nobody_makes_or_takes_over_somebody_with_more_rights() {
    let world = world().await;
    let app = &world.app;
    user(app, "root", "admin").await;
    let rights = Rights::of(&[Right::ManagePeople, Right::ViewJobs]).names();
    let rights = Some(rights.into_iter().map(str::to_owned).collect());
    let request = KeyRequest { role: None, rights, ..key_request("help desk", "") };
    let request = KeyRequest { name: "helpdesk".to_owned(), ..request };
    let desk = app.create_key(&by(app), &request).await.unwrap();
    let principal = authenticated(app, &desk.secret).unwrap();
    let desk: By<ManagePeople> = principal.permit().unwrap();
    let admin = UserRequest { name: "eve".to_owned(), role: Some("admin".to_owned()), ..UserRequest::default() };
    assert_eq!(app.create_user(&desk, &admin).await.unwrap_err().kind, ErrorKind::Forbidden);
    let edit = UserEdit { disabled: Some(true), ..UserEdit::default() };
    assert_eq!(app.edit_user(&desk, "root", &edit).await.unwrap_err().kind, ErrorKind::Forbidden);
    let request = PasswordRequest { password: SecretText("another long password".to_owned()), current: None };
    let taken = app.set_password(&principal, &from_elsewhere(), "root", &request).await;
    assert_eq!(taken.unwrap_err().kind, ErrorKind::Forbidden);
    assert_eq!(app.delete_user(&desk, "root").await.unwrap_err().kind, ErrorKind::Forbidden);
    assert!(login(app, "root", PASSWORD).await.is_ok());
}

#[tokio::test]
async fn a_session_ends_when_it_is_not_used_and_at_the_latest_after_its_life() {
    let world = world().await;
    let app = &world.app;
    user(app, "ana", "viewer").await;
    let session = login(app, "ana", PASSWORD).await.unwrap();
    let day = 86_400;
    for _ in 0..4 {
        world.pass(6 * day);
        app.refresh_identities().await.unwrap();
        assert!(authenticated(app, &session).is_ok(), "it is used every six days");
        app.record_uses().await.unwrap();
    }
    world.pass(6 * day);
    app.refresh_identities().await.unwrap();
    assert_eq!(authenticated(app, &session).unwrap_err(), ErrorKind::CredentialExpired, "30 days have passed");
    let idle = login(app, "ana", PASSWORD).await.unwrap();
    world.pass(7 * day + 1);
    app.refresh_identities().await.unwrap();
    assert_eq!(authenticated(app, &idle).unwrap_err(), ErrorKind::CredentialExpired);
}

#[tokio::test]
async fn sessions_are_listed_and_ended_by_their_person() {
    let world = world().await;
    let app = &world.app;
    user(app, "ana", "viewer").await;
    user(app, "bob", "viewer").await;
    let (anas, bobs) = (login(app, "ana", PASSWORD).await.unwrap(), login(app, "bob", PASSWORD).await.unwrap());
    let (ana, bob) = (authenticated(app, &anas).unwrap(), authenticated(app, &bobs).unwrap());
    let seen = app.list_sessions(&ana).await.unwrap().sessions;
    assert_eq!(
        seen.iter().map(|session| (session.user.as_str(), session.current)).collect::<Vec<_>>(),
        [("ana", true)]
    );
    assert_eq!(app.list_sessions(&local(app)).await.unwrap().sessions.len(), 2);
    let id = bob.credential().unwrap();
    assert_eq!(app.end_session(&ana, id).await.unwrap_err().kind, ErrorKind::SessionNotFound);
    app.end_session(&ana, "current").await.unwrap();
    assert_eq!(authenticated(app, &anas).unwrap_err(), ErrorKind::CredentialRevoked);
    assert!(authenticated(app, &bobs).is_ok());
    app.end_session(&local(app), id).await.unwrap();
    assert_eq!(authenticated(app, &bobs).unwrap_err(), ErrorKind::CredentialRevoked);
    assert_eq!(app.end_session(&local(app), "current").await.unwrap_err().kind, ErrorKind::SessionNotFound);
}

#[tokio::test]
async fn without_the_store_keys_count_for_a_minute_and_the_local_user_for_ever() {
    let world = world().await;
    let app = &world.app;
    let made = key(app, "deploy", "operator").await;
    world.store.drop_tables();
    world.pass(60);
    assert!(app.refresh_identities().await.is_err());
    assert!(authenticated(app, &made.secret).is_ok());
    world.pass(1);
    assert_eq!(authenticated(app, &made.secret).unwrap_err(), ErrorKind::DatabaseUnavailable);
    assert_eq!(login(app, "ana", PASSWORD).await.unwrap_err(), ErrorKind::DatabaseUnavailable);
    assert_eq!(local(app).kind(), PrincipalKind::LocalUser);
}

#[tokio::test]
async fn uses_are_recorded_apart_from_requests() {
    let world = world().await;
    let app = &world.app;
    let made = key(app, "deploy", "operator").await;
    world.pass(5);
    app.refresh_identities().await.unwrap();
    for _ in 0..100 {
        authenticated(app, &made.secret).unwrap();
    }
    let other = world.another_server();
    assert_eq!(other.key(&by(&other), "deploy").await.unwrap().last_used_at, None);
    assert_eq!(app.key(&by(app), "deploy").await.unwrap().last_used_at, Some(app.now()), "its own server knows");
    app.record_uses().await.unwrap();
    assert_eq!(other.key(&by(&other), "deploy").await.unwrap().last_used_at, Some(app.now()));
    let used_at = app.now();
    world.pass(59);
    app.refresh_identities().await.unwrap();
    authenticated(app, &made.secret).unwrap();
    app.record_uses().await.unwrap();
    assert_eq!(app.key(&by(app), "deploy").await.unwrap().last_used_at, Some(used_at), "once a minute");
}

#[tokio::test]
async fn what_another_server_made_a_moment_ago_is_not_refused() {
    let world = world().await;
    let other = world.another_server();
    other.refresh_namespaces().await.unwrap();
    other.refresh_identities().await.unwrap();
    let admitted = async |SecretText(secret): &SecretText| {
        other
            .authenticate_freshly(&from_elsewhere(), Some(secret), None)
            .await
            .map(|principal| principal.name().to_owned())
    };
    let made = key(&world.app, "deploy", "operator").await;
    assert_eq!(authenticated(&other, &made.secret).unwrap_err(), ErrorKind::InvalidToken, "it is not read yet");
    assert_eq!(admitted(&made.secret).await.unwrap(), "key:deploy");
    user(&world.app, "ana", "operator").await;
    let session = login(&other, "ana", PASSWORD).await.expect("the other server looks for the name");
    assert!(authenticated(&other, &session).is_ok());
    let begun = login(&world.app, "ana", PASSWORD).await.unwrap();
    assert_eq!(admitted(&begun).await.unwrap(), "user:ana");
    let invented = format!("{}{}", "punctual_key_", "0".repeat(82));
    assert_eq!(admitted(&SecretText(invented)).await.unwrap_err().kind, ErrorKind::InvalidToken);
}
