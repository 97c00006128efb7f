//! Random requests of one tenant about what it has, what the other has, and what nobody has.

use reqwest::Method;
use serde_json::{Value, json};

use super::tenant::{Answered, DIGEST, JOBS, NAME, Tenant};

/// Numbers that look random, and are the same each time.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self, sides: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len())].clone()
    }
}

/// Whose the thing is that a request names.
#[derive(Debug, Clone, Copy)]
enum Whose {
    Own,
    Others,
    /// An id of the form of the other tenant's that nobody has.
    Nobodys,
}

/// A request, with `{…}` for the ids of whom it is about.
#[derive(Debug)]
pub(super) struct Asked {
    method: Method,
    path: String,
    body: Option<Value>,
    headers: Vec<(&'static str, String)>,
    whose: Whose,
}

impl Asked {
    pub(super) fn random(dice: &mut Dice, number: usize) -> Self {
        let whose = dice.one(&[Whose::Own, Whose::Others, Whose::Others, Whose::Nobodys]);
        let asked = |method: Method, path: &str, body: Option<Value>| Self {
            method,
            path: path.to_owned(),
            body,
            headers: Vec::new(),
            whose,
        };
        let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
        let job = format!("{{job{}}}", dice.roll(JOBS));
        match dice.roll(26) {
            0..=2 => asked(get, &format!("/v1/jobs/{job}{}", dice.one(&["", "/logs", "?wait=0s"])), None),
            3 | 4 => {
                // Its own jobs are left as they are: the owner of a shard needs a moment to know of a change.
                let command = dice.one(&["cancel", "retry", "run"]);
                Self { whose: not_own(whose), ..asked(post, &format!("/v1/jobs/{job}/{command}"), Some(json!({}))) }
            }
            5 => Self { whose: not_own(whose), ..asked(delete, &format!("/v1/jobs/{job}"), None) },
            6 | 7 => {
                let filter =
                    dice.one(&["task=nightly", "tracing_id=trace-1", "state=cancelled", "queue=default", "limit=2"]);
                asked(get, &format!("/v1/jobs?{filter}&order={}", dice.one(&["asc", "desc"])), None)
            }
            8 => asked(get, "/v1/jobs?limit=3&order=asc&cursor={cursor}", None),
            9 => {
                // The same key and body as the other tenant used, or another body under that key.
                let chosen = dice.roll(JOBS);
                let run_at = format!("2099-01-0{}T0{}:00:00Z", chosen + 1, dice.roll(2) + 1);
                let input = if dice.roll(2) == 0 { json!(chosen) } else { json!("another") };
                let tracing_id = format!("trace-{chosen}");
                let body = json!({ "task": NAME, "run_at": run_at, "input": input, "tracing_id": tracing_id });
                let headers = vec![("Idempotency-Key", format!("key-{chosen}"))];
                Self { headers, ..asked(post, "/v1/jobs", Some(body)) }
            }
            10 => {
                let digest = if dice.roll(2) == 0 { DIGEST.to_owned() } else { "cd".repeat(32) };
                let body = json!({ "name": "data", "size": dice.one(&[7, 8]), "sha256": digest, "kind": "file" });
                asked(post, "/v1/artifacts", Some(body))
            }
            11 => asked(dice.one(&[get, delete]), "/v1/artifacts/{artifact}", None).not_deleting_own(),
            12 => Self { whose: not_own(whose), ..asked(put, "{own signature}", None) },
            13 => {
                let verb = dice.one(&["", "/preview", "/occurrences"]);
                asked(get, &format!("/v1/schedules/{{schedule}}{verb}"), None)
            }
            14 => {
                let verb = dice.one(&["pause", "resume", "skip", "run"]);
                Self {
                    whose: not_own(whose),
                    ..asked(post, &format!("/v1/schedules/{{schedule}}/{verb}"), Some(json!({})))
                }
            }
            15 => asked(
                get,
                &format!(
                    "/v1/{}",
                    dice.one(&[
                        "tasks",
                        "schedules",
                        "calendars",
                        "artifacts?limit=1",
                        "notifications",
                        "secrets",
                        "backfills",
                        "overdue",
                        "keys",
                        "namespaces",
                        "whoami"
                    ])
                ),
                None,
            ),
            16 => {
                let kind = dice.one(&["tasks", "calendars", "notifications", "schedules"]);
                let name = dice.one(&[NAME, "weekly"]);
                let method = if name == NAME { get } else { dice.one(&[get, delete]) };
                asked(method, &format!("/v1/{kind}/{name}"), None)
            }
            17 => {
                let body = json!({ "run": { "probe": {} }, "queue": format!("queue-{}", dice.roll(3)) });
                asked(put, &format!("/v1/tasks/own-{}", number % 7), Some(body))
            }
            18 => {
                let name = dice.one(&["team-b", "team-z", "default"]);
                let headers = vec![("Punctual-Namespace", name.to_owned())];
                Self { headers, ..asked(dice.one(&[get, post]), "/v1/jobs", Some(json!({ "task": NAME }))) }
            }
            19 => asked(dice.one(&[get, delete]), "/v1/namespaces/team-b", None),
            20 => asked(
                get,
                dice.one(&[
                    "/v1/runs/{run}",
                    "/v1/runs/{large run}",
                    "/v1/workflows/nightly",
                    "/v1/workflows/nightly?version=1",
                    "/v1/workflows/weekly",
                ]),
                None,
            ),
            21 => {
                let (command, body) = dice.one(&[
                    ("cancel", json!({})),
                    ("resume", json!({})),
                    ("rerun", json!({})),
                    ("skip", json!({ "node": "ask" })),
                    ("decide", json!({ "node": "ask", "decision": "approve" })),
                    ("decide", json!({ "node": "ask", "decision": "reject" })),
                    ("events", json!({ "event": "go", "payload": "x" })),
                ]);
                Self { whose: not_own(whose), ..asked(post, &format!("/v1/runs/{{run}}/{command}"), Some(body)) }
            }
            22 => {
                let list = dice.one(&[
                    "runs?limit=1",
                    "runs?workflow=nightly",
                    "runs?workflow=weekly",
                    "runs?cursor={runs cursor}",
                    "workflows?limit=1",
                    "workflows?cursor=nightly",
                ]);
                asked(get, &format!("/v1/{list}"), None)
            }
            23 => {
                let workflow = dice.one(&["weekly/runs", "nightly/runs"]);
                asked(post, &format!("/v1/workflows/{workflow}"), Some(json!({ "version": 99 })))
            }
            24 => {
                // Until there is no room. Each is due at a time of its own, so that there is one order of all.
                let (minutes, seconds) = (number / 60 % 60, number % 60);
                let run_at = format!("2099-03-0{}T00:{minutes:02}:{seconds:02}Z", 1 + number / 3600);
                asked(post, "/v1/jobs", Some(json!({ "task": NAME, "run_at": run_at })))
            }
            _ => match dice.roll(2) {
                0 => asked(get, "/v1/namespaces/team-a", None),
                _ => {
                    let body = json!({ "task": NAME, "at": "2099-05-01T00:00:00Z" });
                    asked(put, &format!("/v1/schedules/own-{}", number % 7), Some(body))
                }
            },
        }
    }

    fn not_deleting_own(self) -> Self {
        let whose = if self.method == Method::DELETE { not_own(self.whose) } else { self.whose };
        Self { whose, ..self }
    }

    /// As `own`, about `other` or about itself.
    pub(super) async fn send(&self, own: &Tenant, other: &Tenant) -> Answered {
        let ids = match self.whose {
            Whose::Own => &own.ids,
            Whose::Others | Whose::Nobodys => &other.ids,
        };
        // The address of one file with the signature of another.
        let foreign = own.ids["signed"].replace(own.ids["artifact"].as_str(), "{artifact}");
        let mut path = self.path.replace("{own signature}", &foreign);
        for (what, id) in ids {
            let id = match self.whose {
                Whose::Nobodys => guessed(id),
                Whose::Own | Whose::Others => id.clone(),
            };
            path = path.replace(&format!("{{{what}}}"), &id);
        }
        let mut request = own.request(self.method.clone(), &path);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        if let Some(body) = self.body.as_ref().filter(|_| self.method != Method::GET) {
            request = request.json(body);
        }
        own.send(request).await
    }
}

fn not_own(whose: Whose) -> Whose {
    match whose {
        Whose::Own => Whose::Others,
        Whose::Others | Whose::Nobodys => whose,
    }
}

/// One that is near the other's.
fn guessed(id: &str) -> String {
    let (start, last) = id.split_at(id.len() - 1);
    format!("{start}{}", if last == "7" { "8" } else { "7" })
}
