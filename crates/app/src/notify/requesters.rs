//! Messages to those who asked for the jobs that a message is about: one to each, with their own.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::namespace::NamespaceId;
use punctual_core::notice::{Channel, RuleSpec};
use punctual_core::schedule::{By, ScheduleRow};
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_store::{IdentityId, JobRecord, Requester, RequesterId};

use super::deliver::MessageDelivery;
use super::event::Event;
use super::messages::written;
use super::outages::{read_each, skip_unreadable};
use super::rule::Rule;
use super::waiting::{RuleState, Waiting};
use crate::{App, Result};

/// People who get a message of their own when a rule sends. Further ones get none.
const REQUESTERS_AT_ONCE: usize = 50;

/// What tells who asked for the jobs of events.
struct Origins {
    jobs: BTreeMap<JobId, JobRecord>,
    schedules: BTreeMap<ScheduleId, ScheduleRow>,
    requesters: BTreeMap<RequesterId, Requester>,
}

impl App {
    /// A message to everybody who asked for something that the rule tells of and has a mail address.
    pub(super) async fn messages_to_requesters(
        &self,
        rule: &Rule,
        waiting: &Waiting,
        now: Timestamp,
    ) -> Result<Vec<MessageDelivery>> {
        let Channel::Email { to, cc, requester: true } = &rule.spec.channel else { return Ok(Vec::new()) };
        let events = &waiting.for_requesters;
        let origins = self.origins_of(events).await?;
        let mut by_address: BTreeMap<String, RuleState> = BTreeMap::new();
        for event in events {
            let Some(address) = self.address_for(rule.namespace, event, &origins).await? else { continue };
            // They are told with everybody else.
            if !to.contains(&address) && !cc.contains(&address) {
                by_address.entry(address).or_default().add(event, now);
            }
        }
        if by_address.len() > REQUESTERS_AT_ONCE {
            let left_out = by_address.len() - REQUESTERS_AT_ONCE;
            tracing::warn!(rule = rule.name, left_out, "too many requesters at once: some get no message");
        }
        let mut deliveries = Vec::new();
        for (address, state) in by_address.into_iter().take(REQUESTERS_AT_ONCE) {
            let Some(waiting) = state.waiting else { continue };
            let message = self.message_of(&rule.name, &waiting, &rule.state.schedules, now).await?;
            let message = written(message, &rule.spec.templates).await;
            deliveries.push(MessageDelivery::new(rule.namespace, &sent_to(&rule.spec, address), &message));
        }
        Ok(deliveries)
    }

    async fn origins_of(&self, events: &[Event]) -> Result<Origins> {
        let jobs: BTreeSet<JobId> = events.iter().filter_map(|event| event.job).collect();
        let jobs: BTreeMap<JobId, JobRecord> = read_each(jobs, |id| self.0.store.job(id)).await?.into_iter().collect();
        let schedules: BTreeSet<ScheduleId> = events.iter().filter_map(|event| Some(event.planned?.0)).collect();
        let schedules = read_each(schedules, |id| self.0.store.schedule(id)).await?.into_iter().collect();
        let requesters: BTreeSet<RequesterId> = jobs.values().filter_map(JobRecord::requester).collect();
        let requesters = skip_unreadable(self.0.store.requesters(requesters.into_iter().collect()).await)?;
        Ok(Origins { jobs, schedules, requesters: requesters.into_iter().collect() })
    }

    async fn address_for(&self, namespace: NamespaceId, event: &Event, origins: &Origins) -> Result<Option<String>> {
        let person = self.person_behind_event(event, origins).await?;
        Ok(person.and_then(|person| self.mail_of(person, namespace)))
    }

    /// Who submitted the job or asked for the run; of a planned run, who made the schedule.
    async fn person_behind_event(&self, event: &Event, origins: &Origins) -> Result<Option<IdentityId>> {
        let record = event.job.and_then(|id| origins.jobs.get(&id));
        if let Some(id) = record.and_then(JobRecord::requester) {
            return Ok(origins.requesters.get(&id).and_then(|requester| requester.user));
        }
        let source = record.and_then(|record| match record {
            JobRecord::Hot { job, .. } => job.source,
            JobRecord::Finished { job, .. } => job.source,
        });
        if let Some(source) = source
            && let Some(who) = skip_unreadable(self.asked_for_run(source).await)?
        {
            return Ok(self.person_named(&who, source.at));
        }
        let made = event.planned.and_then(|(id, _)| origins.schedules.get(&id)).map(|row| &row.created);
        Ok(made.and_then(|By { at, who }| self.person_named(who, *at)))
    }
}

/// The rule, with one recipient.
pub(super) fn sent_to(spec: &RuleSpec, address: String) -> RuleSpec {
    let channel = Channel::Email { to: vec![address], cc: Vec::new(), requester: false };
    RuleSpec { channel, ..spec.clone() }
}
