//! What the client does with answers that a real server gives only on bad days.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response, Uri};
use futures_util::StreamExt;
use punctual_api::{ErrorKind, JobRequest, ListQuery, NotificationRequest, Problem};
use punctual_client::{
    Client, ClientError, Ended, IdempotencyKey, IfMatch, LogChunk, LogEvent, LogPlace, Logs, Waited,
};
use punctual_core::{JobId, ShardId, Timestamp};

/// Gives the answers in their order and remembers the requests.
#[derive(Clone, Default)]
struct Fake {
    answers: Arc<Mutex<VecDeque<Response<Body>>>>,
    requests: Arc<Mutex<Vec<(String, HeaderMap)>>>,
}

impl Fake {
    async fn start(answers: impl IntoIterator<Item = Response<Body>>) -> (Self, Client) {
        let (fake, url) = Self::start_at(answers).await;
        (fake, Client::new(&url).unwrap())
    }

    async fn start_at(answers: impl IntoIterator<Item = Response<Body>>) -> (Self, String) {
        let fake = Self::default();
        fake.answers.lock().unwrap().extend(answers);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = fake.clone();
        let router = Router::new().fallback(async move |method: Method, uri: Uri, headers: HeaderMap, _: Bytes| {
            state.requests.lock().unwrap().push((format!("{method} {uri}"), headers));
            state.answers.lock().unwrap().pop_front().expect("no more requests than answers")
        });
        tokio::spawn(async { axum::serve(listener, router).await });
        (fake, url)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(line, _)| line.clone()).collect()
    }

    fn headers(&self, name: &str) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter_map(|(_, headers)| Some(headers.get(name)?.to_str().unwrap().to_owned())).collect()
    }
}

fn answer(status: u16, body: impl Into<Body>) -> Response<Body> {
    Response::builder().status(status).body(body.into()).unwrap()
}

fn problem(kind: ErrorKind) -> Response<Body> {
    let problem = Problem {
        type_uri: format!("/problems/{}", kind.code()),
        title: kind.title().to_owned(),
        status: kind.http_status(),
        detail: "the detail".to_owned(),
        code: kind.code().to_owned(),
        hint: None,
        request_id: "r".to_owned(),
        retryable: kind.is_retryable(),
        errors: Vec::new(),
    };
    answer(kind.http_status(), serde_json::to_string(&problem).unwrap())
}

fn id() -> JobId {
    JobId::new(Timestamp::parse("2026-12-24T17:00:00Z").unwrap(), ShardId(1), 7)
}

fn submitted() -> Response<Body> {
    answer(201, format!(r#"{{"id":"{}","scheduled_at":"2026-12-24T17:00:00Z","due_at":"2026-12-24T17:00:00Z"}}"#, id()))
}

fn job(state: &str) -> Response<Body> {
    let job = serde_json::json!({
        "id": id(),
        "task": { "id": "task_01m7et433kee4803yssgvaf2fh", "kind": "probe", "queue": "default" },
        "state": state,
        "explanation": "",
        "priority": 0,
        "submitted_at": "2026-12-24T17:00:00Z",
        "scheduled_at": "2026-12-24T17:00:00Z",
        "due_at": "2026-12-24T17:00:00Z",
        "cancel_requested": false,
        "attempts": [],
    });
    answer(200, job.to_string())
}

#[tokio::test]
async fn a_submission_is_repeated_under_the_same_key() {
    let (fake, client) =
        Fake::start([problem(ErrorKind::Unavailable), problem(ErrorKind::Unavailable), submitted()]).await;
    let answer = client.submit(&JobRequest::default()).await.unwrap();
    assert_eq!(answer.id, id());
    let keys = fake.headers("idempotency-key");
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0] && key.len() == 32), "{keys:?}");
}

#[tokio::test]
async fn two_submissions_have_two_keys_unless_one_was_given() {
    let (fake, client) = Fake::start([submitted(), submitted(), submitted()]).await;
    client.submit(&JobRequest::default()).await.unwrap();
    client.submit(&JobRequest::default()).await.unwrap();
    let own = IdempotencyKey::new("my-key").unwrap();
    client.submit_with_key(&JobRequest::default(), &own).await.unwrap();
    let keys = fake.headers("idempotency-key");
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[2], "my-key");
}

#[tokio::test]
async fn a_command_is_sent_once() {
    let (fake, client) = Fake::start([problem(ErrorKind::Unavailable)]).await;
    let error = client.retry(id()).await.unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable));
    assert_eq!(fake.requests(), [format!("POST /v1/jobs/{}/retry", id())]);
}

#[tokio::test]
async fn a_sample_is_sent_once_and_a_rule_may_be_stored_twice() {
    let (fake, client) = Fake::start([problem(ErrorKind::Unavailable)]).await;
    client.test_notification("ops").await.unwrap_err();
    assert_eq!(fake.requests(), ["POST /v1/notifications/ops/test"]);
    let rule = NotificationRequest::default();
    for (when, times, condition) in
        [(IfMatch::Any, 2, vec![]), (IfMatch::Revision(3), 1, vec!["\"3\""]), (IfMatch::Absent, 1, vec!["*"])]
    {
        let answers = [ErrorKind::Unavailable, ErrorKind::TooManyNotifications].map(problem);
        let (fake, client) = Fake::start(answers).await;
        client.put_notification("ops", &rule, when).await.unwrap_err();
        assert_eq!(fake.requests(), vec!["PUT /v1/notifications/ops"; times]);
        let conditions = [fake.headers("if-match"), fake.headers("if-none-match")];
        assert_eq!(conditions.concat(), condition);
    }
}

#[tokio::test]
async fn without_a_budget_nothing_is_repeated() {
    let (fake, client) = Fake::start([problem(ErrorKind::Unavailable)]).await;
    let client = client.with_repeat_budget(Duration::ZERO);
    client.job(id()).await.unwrap_err();
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    let (fake, client) = Fake::start([problem(ErrorKind::JobNotFound)]).await;
    let error = client.job(id()).await.unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::JobNotFound));
    assert_eq!(error.to_string(), "the detail");
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn another_program_on_the_port_is_recognised() {
    let (_, client) = Fake::start([answer(404, "<html>\n  nginx</html>"), answer(200, "hello")]).await;
    for _ in 0..2 {
        let error = client.server().await.unwrap_err();
        assert!(matches!(error, ClientError::BadAnswer { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable_for_a_reason() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(&format!("http://{unused}")).unwrap();
    let error = client.server().await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot reach http://{unused}"));
    assert_eq!(error.unreachable_because().as_deref(), Some("connection refused"));
}

#[tokio::test]
async fn waiting_asks_until_the_job_has_finished() {
    let (fake, client) = Fake::start([job("scheduled"), job("running"), job("failed")]).await;
    let Waited::Finished(job) = client.wait_finished(id(), None).await.unwrap() else {
        panic!("the job has finished");
    };
    assert_eq!(job.state, "failed");
    assert_eq!(fake.requests(), vec![format!("GET /v1/jobs/{}?wait=60000ms", id()); 3]);
}

#[tokio::test]
async fn waiting_ends_when_the_time_is_over() {
    let (fake, client) = Fake::start([job("running")]).await;
    let waited = client.wait_finished(id(), Some(Duration::ZERO)).await.unwrap();
    assert!(matches!(waited, Waited::Pending(_)));
    assert_eq!(fake.requests(), [format!("GET /v1/jobs/{}", id())]);
}

#[tokio::test]
async fn a_log_is_followed_to_its_end() {
    let events =
        "id: 2-6\ndata: \"hello\\n\"\n\n: alive\n\nid: 2-11\ndata: \"w\\u00f6rld\"\n\nevent: end\ndata: {}\n\n";
    let (fake, client) = Fake::start([answer(200, events)]).await;
    let logs = Logs { attempt: Some(2), ..Logs::default() };
    let events: Vec<_> = client.follow_logs(id(), logs, None).await.unwrap().map(Result::unwrap).collect().await;
    let text = |text: &str, next_offset| {
        LogEvent::Text(LogChunk { text: text.to_owned(), lines: vec![], attempt: 2, next_offset })
    };
    assert_eq!(events, [text("hello\n", 6), text("wörld", 11), LogEvent::End]);
    assert_eq!(fake.requests(), [format!("GET /v1/jobs/{}/logs?attempt=2&offset=0", id())]);
    assert_eq!(fake.headers("accept"), ["text/event-stream"]);
}

#[tokio::test]
async fn following_goes_on_after_what_came_last() {
    let (fake, client) = Fake::start([answer(200, "event: end\ndata: {}\n\n")]).await;
    let after = LogPlace { attempt: 2, offset: 11 };
    let events: Vec<_> = client.follow_logs(id(), Logs::default(), Some(after)).await.unwrap().collect().await;
    assert!(matches!(&events[..], [Ok(LogEvent::End)]), "{events:?}");
    assert_eq!(fake.headers("last-event-id"), ["2-11"]);
}

#[tokio::test]
async fn bytes_of_a_log_are_asked_for_by_their_range() {
    let mut part = answer(206, "llo");
    part.headers_mut().insert("punctual-next-offset", "5".parse().unwrap());
    part.headers_mut().insert("punctual-attempt", "3".parse().unwrap());
    let (fake, client) = Fake::start([part]).await;
    let chunk = client.log_range(id(), Some(3), "2-4").await.unwrap();
    assert_eq!(chunk, LogChunk { text: "llo".to_owned(), lines: vec![], attempt: 3, next_offset: 5 });
    assert_eq!(fake.headers("range"), ["bytes=2-4"]);
}

#[tokio::test]
async fn an_event_that_makes_no_sense_ends_the_stream_with_an_error() {
    let (_, client) = Fake::start([answer(200, "data: nonsense\n\ndata: \"later\"\nid: 1\n\n")]).await;
    let events: Vec<_> = client.follow_logs(id(), Logs::default(), None).await.unwrap().collect().await;
    assert!(matches!(&events[..], [Err(ClientError::BadAnswer { .. })]), "{events:?}");
}

#[tokio::test]
async fn a_part_of_a_log_says_where_the_next_begins() {
    let mut with_offset = answer(200, "hello");
    with_offset.headers_mut().insert("punctual-next-offset", "5".parse().unwrap());
    let (_, client) = Fake::start([with_offset, answer(200, "hello")]).await;
    let chunk = client.logs(id(), Logs::default()).await.unwrap();
    assert_eq!(chunk, LogChunk { text: "hello".to_owned(), lines: vec![], attempt: 0, next_offset: 5 });
    assert!(client.logs(id(), Logs::default()).await.is_err());
}

fn page(jobs: usize, next: Option<&str>) -> Response<Body> {
    let summary = serde_json::json!({
        "id": id(),
        "task": { "id": "task_01m7et433kee4803yssgvaf2fh", "kind": "probe", "queue": "default" },
        "state": "failed",
        "priority": 0,
        "attempt_count": 1,
        "submitted_at": "2026-12-24T17:00:00Z",
        "scheduled_at": "2026-12-24T17:00:00Z",
        "due_at": "2026-12-24T17:00:00Z",
    });
    let jobs: Vec<_> = std::iter::repeat_n(summary, jobs).collect();
    answer(200, serde_json::json!({ "jobs": jobs, "next_cursor": next }).to_string())
}

#[tokio::test]
async fn a_list_goes_on_over_empty_pages_until_it_has_enough() {
    let (fake, client) = Fake::start([page(0, Some("a")), page(2, Some("b")), page(3, Some("c"))]).await;
    let listed = client.first_jobs(&ListQuery::default(), 5).await.unwrap();
    assert_eq!((listed.list.jobs.len(), listed.ended), (5, Ended::Full));
    assert_eq!(listed.list.next_cursor.as_deref(), Some("c"));
    let wanted = ["/v1/jobs?limit=5", "/v1/jobs?cursor=a&limit=5", "/v1/jobs?cursor=b&limit=3"];
    assert_eq!(fake.requests(), wanted.map(|line| format!("GET {line}")));
}

#[tokio::test]
async fn a_list_ends_with_the_last_page_or_after_a_hundred() {
    let (_, client) = Fake::start([page(0, Some("a")), page(1, None)]).await;
    let listed = client.first_jobs(&ListQuery::default(), 5).await.unwrap();
    assert_eq!((listed.list.jobs.len(), listed.ended), (1, Ended::Complete));
    let (fake, client) = Fake::start((0..100).map(|_| page(0, Some("a")))).await;
    let listed = client.first_jobs(&ListQuery::default(), 5).await.unwrap();
    assert_eq!((listed.list.jobs.len(), listed.ended), (0, Ended::TooLong));
    assert_eq!(fake.requests().len(), 100);
}

/// An address where nobody listens.
async fn nobody() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn the_next_server_is_asked_when_one_is_away_and_stays_the_one() {
    let (fake, url) = Fake::start_at([answer(200, "ok"), answer(200, "ok")]).await;
    let client = Client::new(&format!("{},{url}/prefix", nobody().await)).unwrap();
    client.live().await.unwrap();
    client.live().await.unwrap();
    assert_eq!(fake.requests(), ["GET /prefix/livez", "GET /prefix/livez"]);
    assert_eq!(client.url(), format!("{url}/prefix"));
}

#[tokio::test]
async fn what_must_not_be_sent_twice_goes_to_another_server_only_if_it_reached_none() {
    let task = || serde_json::from_str(r#"{"name":"a","spec":{"run":{"probe":{}}}}"#).unwrap();
    let (busy, busy_url) = Fake::start_at([problem(ErrorKind::Unavailable)]).await;
    let (idle, idle_url) = Fake::start_at([problem(ErrorKind::TaskExists)]).await;
    let client = Client::new(&format!("{busy_url},{idle_url}")).unwrap();
    let error = client.create_task(&task()).await.unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable));
    assert_eq!((busy.requests().len(), idle.requests().len()), (1, 0));
    let client = Client::new(&format!("{},{idle_url}", nobody().await)).unwrap();
    let error = client.create_task(&task()).await.unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::TaskExists));
}

#[tokio::test]
async fn a_server_without_the_interface_sends_us_on() {
    let (_, without_url) = Fake::start_at([problem(ErrorKind::NotServedHere)]).await;
    let (with, with_url) = Fake::start_at([answer(204, "")]).await;
    let client = Client::new(&format!("{without_url},{with_url}")).unwrap();
    client.delete_task("a").await.unwrap();
    assert_eq!(with.requests(), ["DELETE /v1/tasks/a"]);
}

#[tokio::test]
async fn when_no_server_answers_the_error_names_one() {
    let client = Client::new(&format!("{},{}", nobody().await, nobody().await)).unwrap();
    let error = client.with_repeat_budget(Duration::ZERO).live().await.unwrap_err();
    assert!(error.is_refused_connection(), "{error}");
}
