//! Schedules over REST, from their creation to their end, with a real server, store and worker.

use std::time::Instant;

use punctual_api::{ScheduleBulkRequest, ScheduleRequest};
use serde_json::{Value, json};

use crate::checked::{Checked, plain_http};
use crate::harness::{Home, eventually};

async fn occurrences(api: &Checked, query: &str) -> Vec<Value> {
    let list = api.get(&format!("/v1/schedules/tick/occurrences?order=asc&limit=1000{query}")).await.expect(200);
    list.body["occurrences"].as_array().expect("a list").clone()
}

async fn count(api: &Checked, verdict: &str) -> usize {
    occurrences(api, &format!("&verdict={verdict}")).await.len()
}

#[tokio::test]
async fn a_schedule_lives_its_life_over_rest() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let api = &Checked::new(&server).await;
    api.put("/v1/tasks/greet", json!({ "run": { "probe": { "output": "hello" } } })).await.expect(201);
    let tick = json!({ "name": "tick", "task": "greet", "every": "1s", "zone": "Asia/Tokyo", "input": { "a": 1 } });
    let created = api.post("/v1/schedules", tick.clone()).await.expect(201);
    assert_eq!((created.str("/state"), created.str("/explanation")), ("active", "every 1s, Asia/Tokyo"));
    api.post("/v1/schedules", tick).await.refused(409, "name_taken");

    // It fires, every second, and each time is on record with its job.
    eventually("it fires", || async { count(api, "fired").await >= 3 }).await;
    let fired = occurrences(api, "&verdict=fired").await;
    let seconds: Vec<&str> = fired.iter().map(|row| &row["at"].as_str().expect("a time")[..19]).collect();
    assert!(seconds.is_sorted_by(|a, b| a < b), "{seconds:?}");
    assert!(fired.iter().all(|row| row["local"].as_str().is_some_and(|local| local.ends_with("+09:00"))), "{fired:?}");
    assert!(fired[0]["explanation"].as_str().is_some_and(|words| words.starts_with("fired as job_")), "{}", fired[0]);
    let job = api.finished(fired[0]["job"].as_str().expect("a job")).await;
    assert_eq!(
        (job.str("/state"), job.str("/schedule/name"), job.str("/schedule/kind")),
        ("succeeded", "tick", "planned")
    );
    assert_eq!((&job.body["schedule"]["at"], &job.body["input"]), (&fired[0]["at"], &json!({ "a": 1 })));

    let paused = api.post("/v1/schedules/tick/pause", json!({ "note": "lunch" })).await.expect(200);
    assert_eq!((paused.str("/state"), paused.str("/pause/note")), ("paused", "lunch"));
    eventually("times pass while it is paused", || async { count(api, "skipped_paused").await >= 2 }).await;
    let before = count(api, "fired").await;
    let skipped = occurrences(api, "&verdict=skipped_paused").await;
    assert_eq!(skipped[0]["explanation"], "did not run: the schedule was paused");
    let run = api.command("/v1/schedules/tick/run").await.expect(200);
    let job = api.finished(run.str("/job")).await;
    assert_eq!(job.str("/schedule/kind"), "manual");
    assert_eq!(count(api, "fired").await, before + 1, "what is asked for runs also while it is paused");
    assert_eq!(api.command("/v1/schedules/tick/resume").await.expect(200).str("/state"), "active");
    eventually("it fires again", || async { count(api, "fired").await > before + 1 }).await;

    let skip = api.post("/v1/schedules/tick/skip", json!({ "count": 2 })).await.expect(200);
    assert_eq!(skip.body["skipped"].as_array().map(Vec::len), Some(2), "{}", skip.text);
    eventually("two are skipped", || async { count(api, "skipped_by_request").await == 2 }).await;
    let by_request = occurrences(api, "&verdict=skipped_by_request").await;
    assert_eq!(by_request[1]["at"], skip.body["until"]);

    // A new definition moves what is to come, and leaves what was.
    let yearly = json!({ "task": "greet", "cron": "0 9 1 1 *", "zone": "Asia/Tokyo" });
    let edited = api.put("/v1/schedules/tick", yearly.clone()).await.expect(200);
    assert_eq!(edited.body["moves"]["after"][0], edited.body["next"][0]);
    assert!(edited.str("/moves/after/0/local").ends_with("-01-01T09:00:00+09:00"), "{}", edited.text);
    assert_eq!((edited.str("/changes/0/kind"), edited.str("/changes/0/former")), ("edited", "every 1s, Asia/Tokyo"));
    api.put("/v1/schedules/tick?revision=1", yearly).await.refused(412, "revision_conflict");
    let all = occurrences(api, "").await.len();
    // The server decides planned times in their order, so those of another schedule show that time has passed.
    api.post("/v1/schedules", json!({ "name": "other", "task": "greet", "every": "1s" })).await.expect(201);
    eventually("another schedule fires", || async {
        let other = api.get("/v1/schedules/other/occurrences?verdict=fired").await.expect(200);
        other.body["occurrences"].as_array().is_some_and(|fired| fired.len() >= 2)
    })
    .await;
    assert_eq!(occurrences(api, "").await.len(), all, "it fires no more this year");
    assert!(all >= before + 6, "{all} after {before}");

    api.delete("/v1/schedules/tick").await.expect(204);
    api.get("/v1/schedules/tick").await.refused(404, "schedule_not_found");
    let left = api.get(&format!("/v1/schedules/{}/occurrences", created.str("/id"))).await.expect(200);
    assert_eq!(left.body["occurrences"].as_array().map(Vec::len), Some(all), "what became of its times stays");
}

#[tokio::test]
async fn the_header_time_zone_counts_where_the_body_names_none() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let send = async |zone: &str, body: Value| {
        api.send(
            reqwest::Method::POST,
            "/v1/schedules/preview?count=1&from=2026-07-01",
            Some(body),
            &[("time-zone", zone)],
        )
        .await
    };
    let preview = send("Europe/Berlin", json!({ "daily": "09:00" })).await.expect(200);
    assert_eq!(preview.str("/occurrences/0/local"), "2026-07-01T09:00:00+02:00");
    let preview = send("Europe/Berlin", json!({ "daily": "09:00", "zone": "Asia/Tokyo" })).await.expect(200);
    assert_eq!(preview.str("/occurrences/0/local"), "2026-07-01T09:00:00+09:00");
    let refused = send("Europe/Berln", json!({ "daily": "09:00" })).await.refused(400, "invalid_request");
    assert_eq!(refused.str("/hint"), "did you mean Europe/Berlin?");
    let refused = send("UTC", json!({ "dayly": "09:00" })).await.refused(400, "invalid_request");
    assert_eq!(refused.str("/hint"), "did you mean `daily`?");
}

#[tokio::test]
async fn a_calendar_is_taken_from_a_file() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let put = async |content_type: &str, body: Vec<u8>| {
        let request = plain_http().put(format!("{}/v1/calendars/holidays", server.url));
        let answer = request.header("content-type", content_type).body(body).send().await.expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.expect("JSON"))
    };
    let file = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261224\r\nDTEND;VALUE=DATE:2026\r\n 1227\r\n\
                END:VEVENT\r\nEND:VCALENDAR\r\n";
    let (status, calendar) = put("text/calendar; charset=utf-8", file.into()).await;
    assert_eq!((status, &calendar["dates"]), (200, &json!(["2026-12-24", "2026-12-25", "2026-12-26"])));
    assert_eq!(api.get("/v1/calendars/holidays").await.expect(200).body["dates"], calendar["dates"]);
    for (content_type, body, status, code) in [
        ("text/calendar", b"\xff\xfe".to_vec(), 400, "invalid_request"),
        ("text/calendar", b"no calendar".to_vec(), 400, "invalid_request"),
        ("text/calendar", vec![b'x'; (1 << 20) + 1], 413, "payload_too_large"),
        ("text/plain", file.into(), 415, "unsupported_media_type"),
        ("application/json", b"{\"dates\":[\"tomorrow\"]}".to_vec(), 400, "invalid_request"),
    ] {
        let (found, problem) = put(content_type, body).await;
        assert_eq!((found, problem["code"].as_str()), (status, Some(code)), "{content_type}: {problem}");
    }
}

#[tokio::test]
async fn events_with_times_close_days_of_the_zone_that_is_asked_for() {
    let home = Home::new();
    let server = home.server();
    let put = async |query: &str, content_type: &str, body: &str| {
        let request = plain_http().put(format!("{}/v1/calendars/holidays{query}", server.url));
        let answer =
            request.header("content-type", content_type).body(body.to_owned()).send().await.expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.expect("JSON"))
    };
    let file = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20261224T230000Z\r\nDTEND:20261225T230000Z\r\nEND:VEVENT\r\n\
                BEGIN:VEVENT\r\nDTSTART:20261228T090000Z\r\nDTEND:20261228T100000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    let (status, calendar) = put("?zone=europe/berlin", "text/calendar", file).await;
    assert_eq!((status, &calendar["dates"]), (200, &json!(["2026-12-25"])), "{calendar}");
    assert_eq!(calendar["file"]["zone"], json!("Europe/Berlin"));
    assert_eq!(calendar["file"]["ignored"]["count"], json!(1), "{calendar}");
    let (_, calendar) = put("", "text/calendar", file).await;
    assert_eq!((&calendar["dates"], calendar["file"]["warnings"].as_array().map(Vec::len)), (&json!([]), Some(1)));
    for (query, content_type, body) in [
        ("?zone=localtime", "text/calendar", file),
        ("?zone=Europe/Berln", "text/calendar", file),
        ("?skip_unsupported=perhaps", "text/calendar", file),
        ("?zone=UTC", "application/json", "{\"dates\":[]}"),
    ] {
        let (status, problem) = put(query, content_type, body).await;
        assert_eq!((status, problem["code"].as_str()), (400, Some("invalid_request")), "{query}: {problem}");
    }
}

/// So many in a second, over REST and into the store.
const PER_SECOND_MIN: f64 = 5000.0;

#[tokio::test]
async fn ten_thousand_schedules_are_created_in_one_request() {
    let home = Home::new();
    let server = home.server();
    let client = server.client();
    let task = json!({ "run": { "probe": {} } });
    client.apply_task("greet", &task, punctual_client::IfMatch::Any).await.expect("the task is defined");
    let schedule = |n: usize| ScheduleRequest {
        name: Some(format!("s{n:05}")),
        task: Some("greet".to_owned()),
        cron: Some(format!("{} {} * * *", n % 60, n / 60 % 24)),
        zone: Some("Europe/Berlin".to_owned()),
        ..ScheduleRequest::default()
    };
    let mut best: f64 = 0.0;
    // The machine may be busy with other tests; the best round counts.
    for round in 0..5 {
        let schedules = (round * 10_000..(round + 1) * 10_000).map(schedule).collect();
        let request = ScheduleBulkRequest { schedules, ..ScheduleBulkRequest::default() };
        let begun = Instant::now();
        let answer = client.create_schedules(&request).await.expect("they are created");
        best = best.max(10_000.0 / begun.elapsed().as_secs_f64());
        assert_eq!(answer.created, 10_000);
        if best >= PER_SECOND_MIN {
            break;
        }
    }
    println!("{best:.0} schedules/s");
    assert!(best >= PER_SECOND_MIN, "{best:.0} schedules/s");
    let last = client.schedule("s09999").await.expect("it is there");
    assert_eq!(last.next.len(), 5);
}
