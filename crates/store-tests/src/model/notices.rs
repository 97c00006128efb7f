//! Notices, the rules about them, and what became of them.

use async_trait::async_trait;
use punctual_core::notice::Notice;
use punctual_core::{JobId, NamespaceId, TaskId, Timestamp};
use punctual_store::{
    Ailing, DeliveryRow, Dispatch, Dispatched, Notices, RULES_MAX, RULES_OF_ALL_MAX, Result, RuleChange, RuleDeletion,
    RuleRow, RuleUpdate, WaitingNotice,
};

use super::{ModelStore, State, inconsistent};

impl ModelStore {
    pub fn put_rule_now(&self, row: RuleRow, expected: Option<u32>) -> Result<RuleChange> {
        self.state().all_or_nothing(|state| {
            let key = (row.namespace, row.name.clone());
            let known = state.rules.get(&key).cloned();
            let revision = known.as_ref().map_or(0, |known| known.revision);
            if expected.is_some_and(|expected| expected != revision) {
                return Ok(RuleChange::Conflict { revision });
            }
            let of_namespace = || state.rules.values().filter(|rule| rule.namespace == row.namespace).count();
            if known.is_none() && (state.rules.len() >= RULES_OF_ALL_MAX || of_namespace() >= RULES_MAX) {
                return Ok(RuleChange::Full);
            }
            let revision = revision + 1;
            let RuleRow { namespace, name, spec, changed, version, .. } = row;
            let stored = match known {
                Some(known) => RuleRow { spec, revision, changed, version: known.version + 1, ..known },
                None => {
                    let created = changed.clone();
                    RuleRow { namespace, name, spec, revision, created, changed, state: None, version }
                }
            };
            state.rules.put(key, stored);
            Ok(RuleChange::Done { revision })
        })
    }

    pub fn delete_rule_now(&self, namespace: NamespaceId, name: &str, expected: Option<u32>) -> Result<RuleDeletion> {
        self.state().all_or_nothing(|state| {
            let key = (namespace, name.to_owned());
            let Some(RuleRow { revision, .. }) = state.rules.get(&key) else { return Ok(RuleDeletion::Absent) };
            let revision = *revision;
            if expected.is_some_and(|expected| expected != revision) {
                return Ok(RuleDeletion::Conflict { revision });
            }
            state.rules.take(&key);
            Ok(RuleDeletion::Done)
        })
    }

    pub fn rules_now(&self, namespace: Option<NamespaceId>) -> Vec<RuleRow> {
        let state = self.state();
        let wanted = |rule: &&RuleRow| namespace.is_none_or(|namespace| namespace == rule.namespace);
        state.rules.values().filter(wanted).cloned().collect()
    }

    pub fn rule_now(&self, namespace: NamespaceId, name: &str) -> Option<RuleRow> {
        self.state().rules.get(&(namespace, name.to_owned())).cloned()
    }

    pub fn waiting_notices_now(&self, limit: usize) -> Vec<WaitingNotice> {
        let state = self.state();
        let waiting = state.notices.iter().take(limit);
        waiting.map(|(seq, notice)| WaitingNotice { seq: *seq, notice: notice.clone() }).collect()
    }

    pub fn dispatch_now(&self, dispatch: Dispatch) -> Result<Dispatched> {
        self.state().all_or_nothing(|state| {
            if !state.fits_dispatch(&dispatch) {
                return Ok(Dispatched::Conflict);
            }
            state.dispatch(dispatch)?;
            Ok(Dispatched::Done)
        })
    }

    pub fn ailing_of_now(&self, tasks: &[TaskId]) -> Vec<Ailing> {
        let state = self.state();
        let ailing = state.ailing.values().map(|(_, ailing)| ailing);
        ailing.filter(|ailing| tasks.contains(&ailing.task)).cloned().collect()
    }

    pub fn ailing_now(&self, namespace: Option<NamespaceId>, limit: usize) -> Vec<Ailing> {
        let state = self.state();
        let of_namespace = state.ailing.values().filter(|(of, _)| namespace.is_none_or(|namespace| namespace == *of));
        let mut all: Vec<Ailing> = of_namespace.map(|(_, ailing)| ailing.clone()).collect();
        all.sort_by_key(|ailing| std::cmp::Reverse((ailing.last, ailing.task)));
        all.truncate(limit);
        all
    }

    pub fn deliveries_now(
        &self,
        namespace: NamespaceId,
        rule: Option<&str>,
        before: Option<(Timestamp, JobId)>,
        limit: usize,
    ) -> Vec<DeliveryRow> {
        let state = self.state();
        let fits = |row: &&DeliveryRow| {
            row.namespace == namespace
                && rule.is_none_or(|rule| row.rule == rule)
                && before.is_none_or(|before| (row.at, row.job) < before)
        };
        state.deliveries.values().rev().filter(fits).take(limit).cloned().collect()
    }
}

impl State {
    pub(super) fn keep_notices<'a>(&mut self, notices: impl Iterator<Item = &'a Notice>) {
        for notice in notices {
            let seq = self.last_notice.get(&()).copied().unwrap_or(0) + 1;
            self.last_notice.put((), seq);
            self.notices.put(seq, notice.clone());
        }
    }

    fn rule_of(&self, update: &RuleUpdate) -> Option<&RuleRow> {
        self.rules.get(&(update.namespace, update.name.clone()))
    }

    /// All the notices wait, and all the rules are as they were.
    fn fits_dispatch(&self, dispatch: &Dispatch) -> bool {
        let is_as_it_was =
            |update: &RuleUpdate| self.rule_of(update).is_some_and(|rule| rule.version == update.version);
        dispatch.taken.iter().all(|seq| self.notices.has(seq)) && dispatch.rules.iter().all(is_as_it_was)
    }

    fn dispatch(&mut self, dispatch: Dispatch) -> Result<()> {
        let Dispatch { taken, rules, ailing, well, deliveries, jobs } = dispatch;
        for seq in &taken {
            self.notices.take(seq);
        }
        for RuleUpdate { namespace, name, version, state } in rules {
            let key = (namespace, name);
            let rule = self.rules[&key].clone();
            self.rules.put(key, RuleRow { state, version: version + 1, ..rule });
        }
        for task in ailing {
            self.ailing.put(task.task, (self.namespace_of(task.task), task));
        }
        for task in &well {
            self.ailing.take(task);
        }
        for row in deliveries {
            if self.deliveries.has(&(row.at, row.job)) {
                return Err(inconsistent(format!("the delivery by {} is there already", row.job)));
            }
            self.deliveries.put((row.at, row.job), row);
        }
        self.store_jobs(jobs)
    }

    pub(super) fn forget_reports(&mut self, before: Timestamp) {
        self.deliveries.take_all(|(at, _), _| *at < before);
        self.ailing.take_all(|_, (_, ailing)| ailing.last < before);
    }
}

#[async_trait]
impl Notices for ModelStore {
    async fn put_rule(&self, row: RuleRow, expected: Option<u32>) -> Result<RuleChange> {
        self.put_rule_now(row, expected)
    }
    async fn delete_rule(&self, namespace: NamespaceId, name: &str, expected: Option<u32>) -> Result<RuleDeletion> {
        self.delete_rule_now(namespace, name, expected)
    }
    async fn rules(&self, namespace: Option<NamespaceId>) -> Result<Vec<RuleRow>> {
        Ok(self.rules_now(namespace))
    }
    async fn rule(&self, namespace: NamespaceId, name: &str) -> Result<Option<RuleRow>> {
        Ok(self.rule_now(namespace, name))
    }
    async fn waiting_notices(&self, limit: usize) -> Result<Vec<WaitingNotice>> {
        Ok(self.waiting_notices_now(limit))
    }
    async fn dispatch(&self, dispatch: Dispatch) -> Result<Dispatched> {
        let dispatched = self.dispatch_now(dispatch)?;
        self.answers_dispatch()?;
        Ok(dispatched)
    }
    async fn ailing_of(&self, tasks: Vec<TaskId>) -> Result<Vec<Ailing>> {
        Ok(self.ailing_of_now(&tasks))
    }
    async fn ailing(&self, namespace: Option<NamespaceId>, limit: usize) -> Result<Vec<Ailing>> {
        Ok(self.ailing_now(namespace, limit))
    }
    async fn deliveries(
        &self,
        namespace: NamespaceId,
        rule: Option<String>,
        before: Option<(Timestamp, JobId)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        Ok(self.deliveries_now(namespace, rule.as_deref(), before, limit))
    }
}
