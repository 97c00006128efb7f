//! Jobs and their logs.

use std::fmt;
use std::time::Duration;

use futures_util::Stream;
use punctual_api::{
    Answered, BulkRequest, BulkSubmitted, Job, JobList, JobSubmitted, ListQuery, LogLine, LogLines, limits,
};
use punctual_core::{JobId, JobState};
use reqwest::header::RANGE;
use reqwest::{Method, RequestBuilder};
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use crate::send::{Repeat, with_query};
use crate::sse::Event;
use crate::{ANSWER_TIMEOUT, Client, ClientError};

/// Tells a submission that is sent again from a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(pub(crate) String);

impl IdempotencyKey {
    pub fn random() -> Result<Self, ClientError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(ClientError::NoEntropy)?;
        Ok(Self(format!("{:032x}", u128::from_be_bytes(bytes))))
    }

    /// A key of the caller's own; `None` if a header cannot carry it.
    pub fn new(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= limits::IDEMPOTENCY_KEY_CHARS_MAX;
        (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The result of waiting for a job.
#[derive(Debug, Clone)]
pub enum Waited {
    Finished(Box<Job>),
    /// The time was over first.
    Pending(Box<Job>),
}

/// Jobs of as many pages as it took.
#[derive(Debug, Clone)]
pub struct Listed {
    pub list: JobList,
    pub ended: Ended,
}

/// Why a list has no more jobs than it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// There are no more.
    Complete,
    /// The number of jobs that was requested; there may be more.
    Full,
    /// The search took too long; it can go on from the cursor.
    TooLong,
}

/// A filter that matches little makes the server look far, page by page. Beyond
/// this, the person should decide.
const LIST_PAGES_MAX: usize = 100;
const LIST_WITHIN: Duration = Duration::from_secs(10);

/// Which part of a job's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Logs {
    /// Absent: the latest.
    pub attempt: Option<u32>,
    /// The offset in bytes from the beginning of the attempt's log.
    pub offset: u64,
    pub format: LogFormat,
}

/// How a log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    #[default]
    Text,
    /// Whole lines, with the time and the stream of each.
    Lines,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    pub text: String,
    /// The lines, with [`LogFormat::Lines`] instead of the text.
    pub lines: Vec<LogLine>,
    /// Whose log it is; 0 when there is no attempt yet.
    pub attempt: u32,
    pub next_offset: u64,
}

impl LogChunk {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.lines.is_empty()
    }

    /// Where to go on after it.
    pub fn end(&self) -> LogPlace {
        LogPlace { attempt: self.attempt, offset: self.next_offset }
    }
}

/// A place in the logs of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPlace {
    pub attempt: u32,
    pub offset: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    Text(LogChunk),
    /// The job has finished; nothing follows.
    End,
}

const NEXT_OFFSET: &str = "punctual-next-offset";
const ATTEMPT: &str = "punctual-attempt";

impl Client {
    /// Submits one job under a random key, so that a repetition makes no second one.
    /// `job` is a [`JobRequest`](punctual_api::JobRequest), or JSON that reads as one.
    pub async fn submit(&self, job: &(impl Serialize + Sync + ?Sized)) -> Result<JobSubmitted, ClientError> {
        self.submit_with_key(job, &IdempotencyKey::random()?).await
    }

    pub async fn submit_with_key(
        &self,
        job: &(impl Serialize + Sync + ?Sized),
        key: &IdempotencyKey,
    ) -> Result<JobSubmitted, ClientError> {
        let request = self.post(self.at(["v1", "jobs"])).header("idempotency-key", &key.0).json(job);
        self.ask(request, Repeat::Safe).await
    }

    /// Submits all of them, or none. Sent once: it carries no key.
    pub async fn submit_bulk(&self, jobs: &BulkRequest) -> Result<BulkSubmitted, ClientError> {
        self.ask(self.post(self.at(["v1", "jobs", "bulk"])).json(jobs), Repeat::Unsafe).await
    }

    pub async fn jobs(&self, query: &ListQuery) -> Result<JobList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "jobs"]), query)), Repeat::Safe).await
    }

    /// The first `limit` jobs of a list, over pages that are short or empty.
    pub async fn first_jobs(&self, query: &ListQuery, limit: usize) -> Result<Listed, ClientError> {
        let begun = Instant::now();
        let mut query = query.clone();
        let mut list = JobList { jobs: Vec::new(), next_cursor: None, uncertain: false };
        for _ in 0..LIST_PAGES_MAX {
            query.limit = Some((limit - list.jobs.len()).clamp(1, limits::PAGE_LEN_MAX).to_string());
            let page = self.jobs(&query).await?;
            list.jobs.extend(page.jobs);
            list.next_cursor = page.next_cursor;
            list.uncertain |= page.uncertain;
            if list.next_cursor.is_none() {
                return Ok(Listed { list, ended: Ended::Complete });
            }
            if list.jobs.len() >= limit {
                return Ok(Listed { list, ended: Ended::Full });
            }
            if begun.elapsed() >= LIST_WITHIN {
                break;
            }
            query.cursor.clone_from(&list.next_cursor);
        }
        Ok(Listed { list, ended: Ended::TooLong })
    }

    pub async fn job(&self, id: JobId) -> Result<Job, ClientError> {
        self.ask(self.get(self.at(["v1", "jobs", &id.to_string()])), Repeat::Safe).await
    }

    /// The job once it has finished, or as it is when `limit` is over.
    pub async fn wait_finished(&self, id: JobId, limit: Option<Duration>) -> Result<Waited, ClientError> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let longest = Duration::from_secs(limits::WAIT_SECONDS_MAX.unsigned_abs());
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let wait = left.unwrap_or(longest).min(longest);
            let job = self.wait_once(id, wait).await?;
            if JobState::parse(&job.state).is_some_and(JobState::is_final) {
                return Ok(Waited::Finished(Box::new(job)));
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(Waited::Pending(Box::new(job)));
            }
        }
    }

    async fn wait_once(&self, id: JobId, wait: Duration) -> Result<Job, ClientError> {
        let mut url = self.at(["v1", "jobs", &id.to_string()]);
        if !wait.is_zero() {
            url = with_query(url, &json!({ "wait": format!("{}ms", wait.as_millis()) }));
        }
        self.ask(self.get(url).timeout(wait + ANSWER_TIMEOUT), Repeat::Safe).await
    }

    /// Removes a job that has not started.
    pub async fn delete_job(&self, id: JobId) -> Result<Answered, ClientError> {
        let request = self.request(Method::DELETE, self.at(["v1", "jobs", &id.to_string()]));
        self.ask(request, Repeat::Unsafe).await
    }

    /// Ends a job; a running attempt is asked to, and may take a while.
    pub async fn cancel(&self, id: JobId) -> Result<Answered, ClientError> {
        self.ask(self.command(id, "cancel"), Repeat::Unsafe).await
    }

    /// Makes a finished job run again.
    pub async fn retry(&self, id: JobId) -> Result<Answered, ClientError> {
        self.ask(self.command(id, "retry"), Repeat::Unsafe).await
    }

    /// Starts a waiting job now.
    pub async fn run_now(&self, id: JobId) -> Result<Answered, ClientError> {
        self.ask(self.command(id, "run"), Repeat::Unsafe).await
    }

    fn command(&self, id: JobId, verb: &str) -> RequestBuilder {
        self.post(self.at(["v1", "jobs", &id.to_string(), verb]))
    }

    /// A part of an attempt's log; empty when there is no more, so far.
    pub async fn logs(&self, id: JobId, logs: Logs) -> Result<LogChunk, ClientError> {
        let request = self.get(self.logs_url(id, logs));
        match logs.format {
            LogFormat::Text => self.read_chunk(request).await,
            LogFormat::Lines => {
                let LogLines { attempt, next_offset, lines } = self.ask(request, Repeat::Safe).await?;
                Ok(LogChunk { text: String::new(), lines, attempt, next_offset })
            }
        }
    }

    /// Bytes of an attempt's log, as the header `Range` names them, such as `0-99`, `100-` or `-100`.
    pub async fn log_range(&self, id: JobId, attempt: Option<u32>, range: &str) -> Result<LogChunk, ClientError> {
        let url = with_query(self.at(["v1", "jobs", &id.to_string(), "logs"]), &json!({ "attempt": attempt }));
        self.read_chunk(self.get(url).header(RANGE, format!("bytes={range}"))).await
    }

    async fn read_chunk(&self, request: RequestBuilder) -> Result<LogChunk, ClientError> {
        let response = self.send(request, Repeat::Safe).await?;
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let next_offset = header(NEXT_OFFSET).and_then(|value| value.parse().ok());
        let attempt = header(ATTEMPT).and_then(|value| value.parse().ok()).unwrap_or(0);
        let next_offset = next_offset.ok_or_else(|| self.bad_answer(format!("no header {NEXT_OFFSET}")))?;
        let bytes = response.bytes().await.map_err(|source| self.unreachable(source))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(LogChunk { text, lines: Vec::new(), attempt, next_offset })
    }

    /// A job's log as it is written, from attempt to attempt unless one is named. Ends early when the connection
    /// does; go on after the last chunk that came.
    pub async fn follow_logs(
        &self,
        id: JobId,
        logs: Logs,
        after: Option<LogPlace>,
    ) -> Result<impl Stream<Item = Result<LogEvent, ClientError>> + use<>, ClientError> {
        let last = after.map(|place| format!("{}-{}", place.attempt, place.offset));
        self.listen_after(self.logs_url(id, logs), last, move |client: &Client, event: Event| {
            if event.name == "end" {
                return Some(Ok(LogEvent::End));
            }
            let content = match logs.format {
                LogFormat::Text => serde_json::from_str(&event.data).ok().map(|text| (text, Vec::new())),
                LogFormat::Lines => serde_json::from_str(&event.data).ok().map(|lines| (String::new(), lines)),
            };
            let place =
                event.id.split_once('-').and_then(|(attempt, next)| Some((attempt.parse().ok()?, next.parse().ok()?)));
            let chunk = content.zip(place).map(|((text, lines), (attempt, next_offset))| {
                LogEvent::Text(LogChunk { text, lines, attempt, next_offset })
            });
            Some(chunk.ok_or_else(|| client.bad_answer("an event that is not a part of a log".to_owned())))
        })
        .await
    }

    fn logs_url(&self, id: JobId, logs: Logs) -> reqwest::Url {
        let id = id.to_string();
        let url = match logs.format {
            LogFormat::Text => self.at(["v1", "jobs", &id, "logs"]),
            LogFormat::Lines => self.at(["v1", "jobs", &id, "logs", "lines"]),
        };
        with_query(url, &json!({ "attempt": logs.attempt, "offset": logs.offset }))
    }
}
