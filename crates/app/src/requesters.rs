//! Who asked for a job, and who gave commands on it.
//!
//! The row of a job has a number, and the number of a principal is looked up once in a while: a submission asks nobody. What
//! a schedule or a notification rule made has no number; its record says what made it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use punctual_api::{Answered, JobAction as ActionView, RequestedBy};
use punctual_core::schedule::{By as Done, Source, SourceKind};
use punctual_core::shard::event::Command;
use punctual_core::{JobId, ScheduleId, Span, Timestamp};
use punctual_store::{
    JobAction, JobActionKind, JobRecord, OccurrenceFilter, Order, Requester, RequesterId, Result as StoreResult,
};

use crate::principal::permission::ControlJobs;
use crate::principal::{By, Principal, PrincipalKind};
use crate::title::Titles;
use crate::{App, Result};

/// For this long a number is not looked up again. A database that lost commits may give it to somebody else.
const BELIEVED_FOR: Span = Span::from_secs(10);
/// Beyond this the cache starts anew.
const KNOWN_MAX: usize = 10_000;

/// A principal's name, and its credential.
type Known = (Arc<str>, Option<Arc<str>>);

#[derive(Default)]
pub(crate) struct RequesterNumbers(RwLock<HashMap<Known, (RequesterId, Timestamp)>>);

impl RequesterNumbers {
    fn get(&self, known: &Known, now: Timestamp) -> Option<RequesterId> {
        let numbers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (id, read_at) = *numbers.get(known)?;
        (read_at <= now && now.since(read_at) <= BELIEVED_FOR).then_some(id)
    }

    fn put(&self, known: Known, id: RequesterId, now: Timestamp) {
        let mut numbers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if numbers.len() >= KNOWN_MAX {
            numbers.clear();
        }
        numbers.insert(known, (id, now));
    }
}

/// Whom records name so: `user:ana` is a person.
fn kind_of_name(name: &str) -> PrincipalKind {
    let is = |prefix| name.strip_prefix(prefix).is_some();
    match name {
        "local" => PrincipalKind::LocalUser,
        "token" => PrincipalKind::ClusterToken,
        _ if is("user:") => PrincipalKind::Person,
        _ if is("key:") => PrincipalKind::Key,
        _ if is("worker:") => PrincipalKind::Worker,
        _ => PrincipalKind::Server,
    }
}

fn named(name: String) -> RequestedBy {
    RequestedBy { kind: kind_of_name(&name).name().to_owned(), name }
}

impl App {
    /// The number of a principal in rows.
    pub(crate) async fn requester_of(&self, principal: &Principal) -> Result<RequesterId> {
        let (known, now) = ((principal.shared_name(), principal.shared_credential()), self.now());
        if let Some(id) = self.0.requesters.get(&known, now) {
            return Ok(id);
        }
        let requester = Requester {
            kind: principal.kind().name().to_owned(),
            name: principal.name().to_owned(),
            user: self.person_behind(principal),
        };
        let id = self.0.store.requester_id(requester).await?;
        self.0.requesters.put(known, id, now);
        Ok(id)
    }

    /// The number of whoever a record names, for what is done later on their behalf.
    pub(crate) async fn requester_named(&self, done: &Done) -> StoreResult<RequesterId> {
        let kind = kind_of_name(&done.who).name().to_owned();
        let user = self.person_named(&done.who, done.at);
        self.0.store.requester_id(Requester { kind, name: done.who.clone(), user }).await
    }

    /// Who gave the command is on record before it is answered.
    pub(crate) async fn command_by(
        &self,
        by: &By<ControlJobs>,
        id: JobId,
        command: Command,
        kind: JobActionKind,
    ) -> Result<Answered> {
        let answered = self.command(id, command).await?;
        self.keep_action(by, id, kind).await;
        Ok(answered)
    }

    /// Puts a command that was carried out on record. The audit log has it, too, so the command counts without this.
    async fn keep_action(&self, by: &By<ControlJobs>, job: JobId, kind: JobActionKind) {
        let kept = async {
            let requester = self.requester_of(by.principal()).await?;
            let action = JobAction { job, at: self.now(), kind, by: requester };
            Ok::<_, crate::AppError>(self.0.store.keep_job_action(action).await?)
        };
        if let Err(error) = kept.await {
            tracing::warn!(%job, command = kind.as_str(), who = by.who(), %error, "a command is missing in a record");
        }
    }

    /// Who submitted a job, and the commands on it.
    pub(crate) async fn people_of_job(
        &self,
        id: JobId,
        record: &JobRecord,
        source: Option<Source>,
        rule: Option<&str>,
        titles: &Titles,
    ) -> Result<(Option<RequestedBy>, Vec<ActionView>)> {
        let actions = self.0.store.job_actions(id).await?;
        let mut ids: Vec<RequesterId> = actions.iter().map(|action| action.by).chain(record.requester()).collect();
        ids.sort_unstable();
        ids.dedup();
        let known = if ids.is_empty() { Vec::new() } else { self.0.store.requesters(ids).await? };
        let view = |id: RequesterId| {
            let found = known.iter().find(|(known, _)| *known == id).map(|(_, requester)| requester);
            RequestedBy {
                kind: found.map_or("unknown", |requester| &requester.kind).to_owned(),
                name: found.map(|requester| requester.name.clone()).unwrap_or_default(),
            }
        };
        let submitted_by = match (record.requester(), source, rule) {
            (Some(id), _, _) => Some(view(id)),
            (None, Some(source), _) => Some(self.maker_of_run(source, titles).await?),
            (None, None, Some(rule)) => {
                Some(RequestedBy { kind: "notification_rule".to_owned(), name: format!("notification:{rule}") })
            }
            (None, None, None) => None,
        };
        let actions = actions.iter().map(|action| ActionView {
            at: action.at,
            action: action.kind.as_str().to_owned(),
            by: view(action.by),
        });
        Ok((submitted_by, actions.collect()))
    }

    /// Whoever asked for the run, or the schedule if nobody did.
    async fn maker_of_run(&self, source: Source, titles: &Titles) -> Result<RequestedBy> {
        if let Some(who) = self.asked_for_run(source).await? {
            return Ok(named(who));
        }
        let name = titles.schedule(source.schedule).unwrap_or_else(|| source.schedule.to_string());
        Ok(RequestedBy { kind: "schedule".to_owned(), name: format!("schedule:{name}") })
    }

    /// Who asked for a run that was not planned.
    pub(crate) async fn asked_for_run(&self, source: Source) -> StoreResult<Option<String>> {
        if source.kind != SourceKind::Manual {
            return Ok(None);
        }
        self.requester_of_time(source.schedule, source.at).await
    }

    async fn requester_of_time(&self, schedule: ScheduleId, at: Timestamp) -> StoreResult<Option<String>> {
        let before = Some(at + Span::from_micros(1));
        let filter = OccurrenceFilter { from: Some(at), before, ..OccurrenceFilter::default() };
        let (rows, _) = self.0.store.occurrences(schedule, filter, None, Order::Ascending, 1).await?;
        Ok(rows.into_iter().next().and_then(|row| row.requested_by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_somebody_is() {
        for (name, kind) in [
            ("local", "local_user"),
            ("token", "cluster_token"),
            ("user:ana", "person"),
            ("key:team-a/deploy", "key"),
            ("punctual", "server"),
        ] {
            assert_eq!(named(name.to_owned()), RequestedBy { kind: kind.to_owned(), name: name.to_owned() });
        }
    }
}
