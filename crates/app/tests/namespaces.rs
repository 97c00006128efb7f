//! Who sees which namespace, what they may do in it, and what they find of others.

#[expect(dead_code, reason = "other tests use more of it")]
mod world;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use punctual_api::{
    ErrorKind, KeyCreated, KeyRequest, LoginRequest, NamespaceEdit, NamespaceRequest, NotificationRequest, SecretText,
    UserEdit, UserRequest,
};
use punctual_app::permission::{
    ControlJobs, CreateKeys, EditNotifications, EditTasks, ManageNamespaces, ManagePeople, SubmitJobs, ViewJobs,
    ViewNotifications,
};
use punctual_app::{App, AppError, Permission, Precondition, Principal, SocketUser, Transport};
use punctual_core::access::{Right, Rights, Role};

use world::{World, by};

const PASSWORD: &str = "correct horse battery staple";

fn from_elsewhere() -> Transport {
    Transport { address: Some(IpAddr::from([192, 0, 2, 1])), ..Transport::default() }
}

async fn world() -> World {
    let world = World::new().await;
    world.app.refresh_identities().await.unwrap();
    world.app.refresh_namespaces().await.unwrap();
    world
}

async fn namespace(app: &App, name: &str) {
    let request = NamespaceRequest { name: name.to_owned(), ..NamespaceRequest::default() };
    app.create_namespace(&by::<ManageNamespaces>(app), request).await.unwrap();
}

/// The server's own user in a namespace.
fn local_in<R: Permission>(app: &App, name: &str) -> punctual_app::By<R> {
    let local = Transport { socket_user: SocketUser::Own, ..Transport::default() };
    Arc::new(app.authenticate(&local, None, Some(name)).unwrap()).permit().unwrap()
}

fn words(words: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let each =
        words.iter().map(|(name, words)| ((*name).to_owned(), words.iter().map(|word| (*word).to_owned()).collect()));
    each.collect()
}

async fn session(app: &App, name: &str, role: Option<&str>, roles: &[(&str, &[&str])]) -> SecretText {
    let request = UserRequest {
        name: name.to_owned(),
        role: role.map(str::to_owned),
        namespace_roles: words(roles),
        password: Some(SecretText(PASSWORD.to_owned())),
        mail: None,
    };
    app.create_user(&by::<ManagePeople>(app), &request).await.unwrap();
    let login = LoginRequest { name: name.to_owned(), password: SecretText(PASSWORD.to_owned()) };
    app.login(&from_elsewhere(), &login).await.unwrap().token
}

fn asking(app: &App, SecretText(secret): &SecretText, namespace: Option<&str>) -> Result<Arc<Principal>, AppError> {
    app.authenticate(&from_elsewhere(), Some(secret), namespace).map(Arc::new)
}

fn key_request(name: &str, role: &str) -> KeyRequest {
    KeyRequest { name: name.to_owned(), role: Some(role.to_owned()), ..KeyRequest::default() }
}

fn probe() -> punctual_core::task::TaskSpec {
    serde_json::from_str(r#"{"run":{"probe":{}}}"#).unwrap()
}

#[tokio::test]
async fn a_namespace_without_a_right_in_it_is_as_one_that_does_not_exist() {
    let world = world().await;
    let app = &world.app;
    namespace(app, "team-a").await;
    namespace(app, "team-b").await;
    let ana = session(app, "ana", None, &[("team-a", &["developer"])]).await;
    let own = asking(app, &ana, Some("team-a")).unwrap();
    assert_eq!((own.namespace().name(), own.rights()), ("team-a", Role::Developer.rights_in_namespace()));
    let (foreign, absent) =
        (asking(app, &ana, Some("team-b")).unwrap_err(), asking(app, &ana, Some("team-c")).unwrap_err());
    assert_eq!((foreign.kind, absent.kind), (ErrorKind::NamespaceNotFound, ErrorKind::NamespaceNotFound));
    assert_eq!(foreign.detail.replace("team-b", "team-c"), absent.detail);
    assert_eq!((foreign.hint, foreign.errors), (absent.hint, absent.errors));
    // Without a name it is the default one, in which she has no right.
    let nowhere = asking(app, &ana, None).unwrap();
    assert_eq!(nowhere.permit::<ViewJobs>().unwrap_err().kind, ErrorKind::NamespaceNotFound);
    assert_eq!(nowhere.permit::<ManagePeople>().unwrap_err().kind, ErrorKind::Forbidden, "a right of the cluster");
    let seen = async |principal: &Principal| {
        let list = app.list_namespaces(principal).await.unwrap().namespaces;
        list.into_iter().map(|namespace| namespace.name).collect::<Vec<_>>()
    };
    assert_eq!(seen(&nowhere).await, ["team-a"]);
    assert_eq!(seen(by::<ViewJobs>(app).principal()).await, ["default", "team-a", "team-b"]);
    assert_eq!(app.namespace(&own, "team-b").await.unwrap_err().kind, ErrorKind::NamespaceNotFound);
    assert_eq!(app.namespace(&own, "team-a").await.unwrap().rights.len(), own.rights().names().len());
}

#[tokio::test]
async fn a_right_that_is_taken_away_in_a_namespace_ends_there_and_stays_elsewhere() {
    let world = world().await;
    let app = &world.app;
    namespace(app, "team-a").await;
    namespace(app, "team-b").await;
    let ana = session(app, "ana", None, &[("team-a", &["developer", "commands.use"]), ("team-b", &["viewer"])]).await;
    let (in_a, in_b) = (asking(app, &ana, Some("team-a")).unwrap(), asking(app, &ana, Some("team-b")).unwrap());
    assert!(in_a.may(Right::UseCommands) && !in_b.may(Right::UseCommands) && !in_b.may(Right::EditTasks));
    let (by_a, by_b) = (in_a.permit::<ViewJobs>().unwrap(), in_b.permit::<ViewJobs>().unwrap());
    let edit = UserEdit { namespace_roles: words(&[("team-a", &[])]), ..UserEdit::default() };
    let edited = app.edit_user(&by::<ManagePeople>(app), "ana", &edit).await.unwrap();
    assert_eq!(edited.namespace_roles, words(&[("team-b", &["viewer"])]));
    assert_eq!(by_a.check_again(app).unwrap_err().kind, ErrorKind::NamespaceNotFound);
    assert!(by_b.check_again(app).is_ok());
}

#[tokio::test]
async fn the_webhook_of_a_rule_is_for_those_who_may_see_inputs() {
    const ADDRESS: &str = "https://hooks.example.net/T0/B1/tokXYZ";
    let world = world().await;
    let app = &world.app;
    namespace(app, "team-a").await;
    let request: NotificationRequest =
        serde_json::from_value(serde_json::json!({ "on": ["failed"], "webhook": { "url": ADDRESS } })).unwrap();
    let editor = local_in::<EditNotifications>(app, "team-a");
    app.put_notification(&editor, "ops", request, Precondition::None).await.unwrap();
    for (name, role, shown) in [("vera", "viewer", "***"), ("omar", "operator", ADDRESS)] {
        let session = session(app, name, None, &[("team-a", &[role])]).await;
        let by = asking(app, &session, Some("team-a")).unwrap().permit::<ViewNotifications>().unwrap();
        let one = app.notification(&by, "ops").await.unwrap();
        let listed = app.list_notifications(&by).await.unwrap().notifications.remove(0);
        for rule in [one, listed] {
            assert_eq!(rule.webhook.expect("a webhook").url, shown, "{role}");
        }
    }
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_have_there() {
    let world = world().await;
    let app = &world.app;
    namespace(app, "team-a").await;
    namespace(app, "team-b").await;
    let rights = Some(["people.manage", "jobs.view", "jobs.submit"].map(str::to_owned).to_vec());
    let request = KeyRequest { role: None, rights, ..key_request("help", "") };
    let help = app.create_key(&by::<CreateKeys>(app), &request).await.unwrap();
    assert_eq!(help.key.namespace, None, "whoever asks in no namespace makes a key of the cluster");
    let help = asking(app, &help.secret, None).unwrap().permit::<ManagePeople>().unwrap();
    let create = async |name: &str, roles: &[(&str, &[&str])]| {
        let request = UserRequest { name: name.to_owned(), namespace_roles: words(roles), ..UserRequest::default() };
        app.create_user(&help, &request).await.map_err(|error| error.kind)
    };
    assert!(create("bob", &[("team-a", &["jobs.view"])]).await.is_ok(), "a right for the cluster counts everywhere");
    assert_eq!(create("carl", &[("team-a", &["viewer"])]).await.unwrap_err(), ErrorKind::Forbidden);
    assert_eq!(create("carl", &[("team-a", &["workers.view"])]).await.unwrap_err(), ErrorKind::InvalidRequest);
    assert_eq!(create("carl", &[("team-z", &["jobs.view"])]).await.unwrap_err(), ErrorKind::NamespaceNotFound);
    // A developer of one namespace makes keys there, and nowhere else.
    let ana = session(app, "ana", None, &[("team-a", &["developer"])]).await;
    let ana = asking(app, &ana, Some("team-a")).unwrap().permit::<CreateKeys>().unwrap();
    let made = app.create_key(&ana, &key_request("deploy", "developer")).await.unwrap();
    assert_eq!(made.key.namespace.as_deref(), Some("team-a"));
    let refused = async |request: KeyRequest| app.create_key(&ana, &request).await.unwrap_err().kind;
    assert_eq!(refused(key_request("more", "admin")).await, ErrorKind::Forbidden);
    let elsewhere = KeyRequest { namespace: Some("team-b".to_owned()), ..key_request("more", "viewer") };
    assert_eq!(refused(elsewhere).await, ErrorKind::NamespaceNotFound);
    let rights = Some(vec!["workers.view".to_owned()]);
    assert_eq!(refused(KeyRequest { role: None, rights, ..key_request("more", "") }).await, ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn keys_of_two_namespaces_have_the_same_name_and_nothing_to_do_with_each_other() {
    let world = world().await;
    let app = &world.app;
    namespace(app, "team-a").await;
    namespace(app, "team-b").await;
    let mut made: Vec<KeyCreated> = Vec::new();
    for name in ["team-a", "team-b"] {
        made.push(app.create_key(&local_in::<CreateKeys>(app, name), &key_request("ci", "developer")).await.unwrap());
    }
    app.create_key(&by::<CreateKeys>(app), &key_request("ci", "developer")).await.unwrap();
    let [a, b] = [&made[0], &made[1]].map(|made| asking(app, &made.secret, None).unwrap());
    assert_eq!((a.name(), b.name()), ("key:team-a/ci", "key:team-b/ci"));
    assert_eq!((a.namespace().name(), b.namespace().name()), ("team-a", "team-b"));
    assert_eq!(asking(app, &made[0].secret, Some("team-b")).unwrap_err().kind, ErrorKind::NamespaceNotFound);
    assert_eq!(asking(app, &made[0].secret, Some("default")).unwrap_err().kind, ErrorKind::NamespaceNotFound);
    // Each sees what it made in its own namespace.
    let (a, b) = (a.permit::<CreateKeys>().unwrap(), b.permit::<CreateKeys>().unwrap());
    let below = app.create_key(&a, &key_request("below", "viewer")).await.unwrap();
    assert_eq!(app.list_keys(&a).await.unwrap().keys.len(), 1);
    assert_eq!(app.list_keys(&b).await.unwrap().keys, []);
    for key in ["below", below.key.id.as_str()] {
        assert_eq!(app.revoke_key(&b, key).await.unwrap_err().kind, ErrorKind::KeyNotFound);
        assert_eq!(app.key(&b, key).await.unwrap_err().kind, ErrorKind::KeyNotFound);
    }
    assert!(app.revoke_key(&a, "below").await.is_ok());
}

#[tokio::test]
async fn a_job_of_another_namespace_is_not_there_for_any_command() {
    let world = world().await;
    let app = &world.app;
    namespace(app, "team-a").await;
    namespace(app, "team-b").await;
    app.create_task(&local_in::<EditTasks>(app, "team-a"), "t".to_owned(), probe()).await.unwrap();
    let request = serde_json::from_str(r#"{"task":"t","delay":"1h"}"#).unwrap();
    let job = app.submit(&local_in::<SubmitJobs>(app, "team-a"), request, None, None).await.unwrap().answer.id;
    let foreign = |name| local_in::<ControlJobs>(app, name);
    for name in ["team-b", "default"] {
        let refusals = [
            app.cancel_job(&foreign(name), job).await.unwrap_err(),
            app.delete_job(&foreign(name), job).await.unwrap_err(),
            app.retry_job(&foreign(name), job).await.unwrap_err(),
            app.run_job_now(&foreign(name), job).await.unwrap_err(),
            app.job(&local_in::<ViewJobs>(app, name), job, None).await.unwrap_err(),
        ];
        assert!(refusals.iter().all(|error| error.kind == ErrorKind::JobNotFound), "{refusals:?}");
        let request = serde_json::from_str(r#"{"task":"t"}"#).unwrap();
        let submitted = app.submit(&local_in::<SubmitJobs>(app, name), request, None, None).await;
        assert_eq!(submitted.unwrap_err().kind, ErrorKind::TaskNotFound);
        let list = app.list_jobs(&local_in::<ViewJobs>(app, name), Default::default()).await.unwrap();
        assert_eq!(list.jobs, []);
    }
    let list = app.list_jobs(&local_in::<ViewJobs>(app, "team-a"), Default::default()).await.unwrap();
    assert_eq!(list.jobs.len(), 1);
}

#[tokio::test]
async fn a_namespace_is_changed_by_its_revision_and_deleted_when_it_is_empty() {
    let world = world().await;
    let app = &world.app;
    let by = by::<ManageNamespaces>(app);
    namespace(app, "team-a").await;
    let taken = NamespaceRequest { name: "team-a".to_owned(), ..NamespaceRequest::default() };
    assert_eq!(app.create_namespace(&by, taken).await.unwrap_err().kind, ErrorKind::NamespaceExists);
    for bad in ["", "Team", "a_b", "-a", "a-"] {
        let request = NamespaceRequest { name: bad.to_owned(), ..NamespaceRequest::default() };
        assert_eq!(app.create_namespace(&by, request).await.unwrap_err().kind, ErrorKind::InvalidRequest, "{bad}");
    }
    let edit = |text: &str| NamespaceEdit { description: Some(text.to_owned()), ..NamespaceEdit::default() };
    let edited = app.edit_namespace(&by, "team-a", edit("Billing"), Precondition::Revision(1)).await.unwrap();
    assert_eq!((edited.description.as_deref(), edited.revision), (Some("Billing"), 2));
    let stale = app.edit_namespace(&by, "team-a", edit("x"), Precondition::Revision(1)).await.unwrap_err();
    assert_eq!(stale.kind, ErrorKind::RevisionConflict);
    app.create_task(&local_in::<EditTasks>(app, "team-a"), "t".to_owned(), probe()).await.unwrap();
    let used = app.delete_namespace(&by, "team-a", Precondition::None).await.unwrap_err();
    assert_eq!((used.kind, used.detail.as_str()), (ErrorKind::NamespaceInUse, "there are still tasks in team-a"));
    app.delete_task(&local_in::<EditTasks>(app, "team-a"), "t", Precondition::None).await.unwrap();
    let key = app.create_key(&local_in::<CreateKeys>(app, "team-a"), &key_request("ci", "viewer")).await.unwrap();
    let ana = session(app, "ana", None, &[("team-a", &["viewer"])]).await;
    app.delete_namespace(&by, "team-a", Precondition::None).await.unwrap();
    let default = app.delete_namespace(&by, "default", Precondition::None).await.unwrap_err();
    assert_eq!(default.kind, ErrorKind::NamespaceInUse);
    // Another of this name has nothing of the former one.
    namespace(app, "team-a").await;
    assert_eq!(asking(app, &key.secret, None).unwrap_err().kind, ErrorKind::CredentialRevoked);
    assert_eq!(asking(app, &ana, Some("team-a")).unwrap_err().kind, ErrorKind::NamespaceNotFound);
}

#[tokio::test]
async fn a_role_for_the_cluster_counts_in_every_namespace() {
    let world = world().await;
    let app = &world.app;
    namespace(app, "team-a").await;
    let eve = session(app, "eve", Some("viewer"), &[("team-a", &["operator"])]).await;
    let default = asking(app, &eve, None).unwrap();
    assert_eq!(default.rights(), Role::Viewer.rights());
    let in_a = asking(app, &eve, Some("team-a")).unwrap();
    assert_eq!(in_a.rights(), Role::Viewer.rights().union(Role::Operator.rights_in_namespace()));
    assert!(in_a.rights().covers(Rights::of(&[Right::ViewWorkers])), "it is for the cluster");
}
