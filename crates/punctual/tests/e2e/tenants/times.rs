//! How long answers take for what is of the other tenant, and for what does not exist.

use std::time::{Duration, Instant};

use reqwest::Method;

use super::tenant::{NAME, Tenant};

/// Of each kind, one after the other in turns.
const ROUNDS: usize = 200;
pub(super) const TRIES: usize = 5;
/// The least that a busy machine tells apart.
const NOISE_MIN: Duration = Duration::from_micros(60);

/// A request for something of the other tenant, and the same for something that does not exist.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) what: &'static str,
    method: Method,
    foreign: String,
    absent: String,
    header: Option<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Times {
    foreign: Duration,
    absent: Duration,
    /// What differs between two measurements of the same.
    noise: Duration,
}

impl Times {
    pub(super) fn are_alike(&self) -> bool {
        let difference = self.foreign.abs_diff(self.absent);
        difference <= (2 * self.noise).max(NOISE_MIN).max(self.absent / 10)
    }
}

/// Another id of the same form.
fn absent(id: &str) -> String {
    let (start, last) = id.split_at(id.len() - 1);
    format!("{start}{}", if last == "0" { "1" } else { "0" })
}

pub(super) fn pairs(other: &Tenant) -> Vec<Pair> {
    let pair = |what, method: &Method, path: &str, id: &str| Pair {
        what,
        method: method.clone(),
        foreign: path.replace("ID", id),
        absent: path.replace("ID", &absent(id)),
        header: None,
    };
    let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
    let (job, artifact, schedule) = (&other.ids["job0"], &other.ids["artifact"], &other.ids["schedule"]);
    let finished = &other.ids["job5"];
    let (large_job, run, large_run) = (&other.ids["large job"], &other.ids["run"], &other.ids["large run"]);
    let choose = |what, name: &str| Pair {
        what,
        method: Method::GET,
        foreign: format!("/v1/tasks/{NAME}"),
        absent: format!("/v1/tasks/{NAME}"),
        header: Some(("team-b".to_owned(), name.to_owned())),
    };
    vec![
        pair("a job", &get, "/v1/jobs/ID", job),
        pair("a job that has ended", &get, "/v1/jobs/ID", finished),
        pair("cancel", &post, "/v1/jobs/ID/cancel", job),
        pair("delete", &delete, "/v1/jobs/ID", job),
        pair("logs", &get, "/v1/jobs/ID/logs", finished),
        pair("a job with a large input", &get, "/v1/jobs/ID", large_job),
        pair("logs of a job with a large input", &get, "/v1/jobs/ID/logs", large_job),
        pair("a run", &get, "/v1/runs/ID", run),
        pair("a run of many nodes", &get, "/v1/runs/ID", large_run),
        pair("cancel a run of many nodes", &post, "/v1/runs/ID/cancel", large_run),
        pair("an artifact", &get, "/v1/artifacts/ID", artifact),
        pair("a schedule", &get, "/v1/schedules/ID", schedule),
        choose("a namespace", "team-x"),
    ]
}

pub(super) async fn measure(own: &Tenant, pair: &Pair) -> Times {
    let timed = async |path: &str, namespace: Option<&String>| {
        let mut request = own.request(pair.method.clone(), path);
        if let Some(namespace) = namespace {
            request = request.header("Punctual-Namespace", namespace);
        }
        let begun = Instant::now();
        let answered = own.send(request).await;
        let took = begun.elapsed();
        assert_eq!(answered.status, 404, "{pair:?}: {answered:?}");
        took
    };
    let (foreign_header, absent_header) = pair.header.as_ref().map(|(one, other)| (one, other)).unzip();
    let (mut foreign, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        first.push(timed(&pair.absent, absent_header).await);
        foreign.push(timed(&pair.foreign, foreign_header).await);
        second.push(timed(&pair.absent, absent_header).await);
    }
    let noise = median(&mut first).abs_diff(median(&mut second));
    first.append(&mut second);
    Times { foreign: median(&mut foreign), absent: median(&mut first), noise }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
