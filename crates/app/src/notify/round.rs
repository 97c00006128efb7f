//! One round of reports: from waiting notices to jobs that deliver messages, in one transaction. Then, now and then, a
//! look of the watcher, whose findings are written down in a transaction of their own: nothing waits for a slow look that
//! could be sent already.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_core::namespace::NamespaceId;
use punctual_core::notice::RuleSpec;
use punctual_core::{Span, Timestamp};
use punctual_store::{Dispatch, Dispatched};

use super::cursor::LateCursor;
use super::event::Event;
use super::event_context::EventContext;
use super::index::Index;
use super::rule::Rule;
use super::watcher::Watcher;
use crate::submit::near_future;
use crate::{App, Result};

/// Notices of one round: a storm is taken up page by page.
const PAGE: usize = 2000;
/// Rules that are gone through at a time. In a storm each takes a moment, and others have to get on.
const RULES_AT_ONCE: usize = 20;
/// How often rules are read, and late jobs looked for, when nothing else happens.
const LOOK_EVERY: Span = Span::from_secs(2);
/// How often it is looked up which schedules have the names in rules, when nothing else happens.
const NAMES_EVERY: Span = Span::from_secs(10);

/// What the server that reports remembers from one round to the next. All of it can be lost.
#[derive(Default)]
pub struct Reports {
    cursors: BTreeMap<(NamespaceId, String), LateCursor>,
    watcher: Watcher,
    looked_at: Option<Timestamp>,
    names_read_at: Option<Timestamp>,
    next_send: Option<Timestamp>,
    /// Rules, with their revisions, of which the log says already that they cannot be read.
    unreadable: BTreeSet<(NamespaceId, String, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// There was nothing to do.
    Nothing,
    /// `is_more`: the next round has something to do already.
    Done { is_more: bool },
    /// Somebody changed a rule, or took notices, meanwhile. What was not done is done by the next round.
    Conflict,
}

impl Reports {
    /// How long until the next message is to be sent.
    pub fn next_in(&self, now: Timestamp) -> Duration {
        self.next_send.map_or(Duration::MAX, |next| next.since(now).to_std())
    }

    pub async fn round(&mut self, app: &App) -> Result<Round> {
        let told = self.tell(app, app.now()).await?;
        let now = app.now();
        let looks = self.looked_at.is_none_or(|at| now.since(at) >= LOOK_EVERY || now < at);
        if told == Round::Conflict || !looks {
            return Ok(told);
        }
        match self.look(app, now).await? {
            Dispatched::Conflict => Ok(Round::Conflict),
            Dispatched::Done => Ok(if told == Round::Nothing { Round::Done { is_more: false } } else { told }),
        }
    }

    /// Takes notices up, and sends what is to be sent.
    async fn tell(&mut self, app: &App, now: Timestamp) -> Result<Round> {
        let notices = app.0.store.waiting_notices(PAGE).await?;
        let sends = self.next_send.is_some_and(|at| at <= now);
        // A server whose turn it has just become does not know when to send.
        if notices.is_empty() && !sends && self.looked_at.is_some() {
            return Ok(Round::Nothing);
        }
        let is_full = notices.len() == PAGE;
        let mut dispatch = Dispatch { taken: notices.iter().map(|notice| notice.seq).collect(), ..Dispatch::default() };
        let mut rules = self.read_rules(app, now).await?;
        let events = app.events_of(notices, &mut dispatch).await?;
        let context = self.context_of(app, &mut rules, &events, now).await?;
        let index = Index::new(events.iter(), &context);
        for some in rules.chunks_mut(RULES_AT_ONCE) {
            some.iter_mut().for_each(|rule| rule.take_noticed(&index, &context, now));
            tokio::task::yield_now().await;
        }
        let (deliveries, left) = app.take_messages(&mut rules, now).await?;
        let outgoing = app.outgoing(&deliveries, now).await?;
        let hint = near_future(&outgoing.jobs, &outgoing.tasks, now);
        (dispatch.jobs, dispatch.deliveries) = (outgoing.jobs, outgoing.rows);
        if self.write(app, dispatch, &rules, now).await? == Dispatched::Conflict {
            return Ok(Round::Conflict);
        }
        app.tell_owners(hint);
        Ok(Round::Done { is_more: is_full || left > 0 })
    }

    async fn look(&mut self, app: &App, now: Timestamp) -> Result<Dispatched> {
        let mut rules = self.read_rules(app, now).await?;
        // What it has walked past counts once it is written down what was seen.
        let mut watcher = self.watcher.clone();
        let sight = watcher.look(app, &rules, now).await?;
        let context = self.context_of(app, &mut rules, &sight.events(), now).await?;
        let sight = sight.index(&context);
        for some in rules.chunks_mut(RULES_AT_ONCE) {
            some.iter_mut().for_each(|rule| rule.take_sight(&sight, &context, now));
            tokio::task::yield_now().await;
        }
        let written = self.write(app, Dispatch::default(), &rules, now).await?;
        if written == Dispatched::Done {
            self.watcher = watcher;
            self.looked_at = Some(now);
        }
        Ok(written)
    }

    async fn read_rules(&mut self, app: &App, now: Timestamp) -> Result<Vec<Rule>> {
        let rows = app.0.store.rules(None).await?;
        let decided_within = app.0.settings.decided_within();
        let (mut rules, mut unreadable) = (Vec::with_capacity(rows.len()), BTreeSet::new());
        for row in rows {
            let (named, revision) = ((row.namespace, row.name.clone()), row.revision);
            let rule = Rule::new(row, self.cursors.get(&named), decided_within, now);
            if rule.as_ref().is_none_or(|rule| rule.has_forgotten) {
                unreadable.insert((named.0, named.1, revision));
            }
            rules.extend(rule);
        }
        for (namespace, rule, revision) in unreadable.difference(&self.unreadable) {
            tracing::error!(%namespace, rule, revision, "a notification rule, or what waits to be sent by it, cannot be read");
        }
        self.unreadable = unreadable;
        Ok(rules)
    }

    /// What matching needs to know. Now and then, and when it matters, rules learn which schedules they name.
    async fn context_of(
        &mut self,
        app: &App,
        rules: &mut [Rule],
        events: &[Event],
        now: Timestamp,
    ) -> Result<EventContext> {
        let specs: Vec<&RuleSpec> = rules.iter().map(|rule| &rule.spec).collect();
        let context = app.event_context(&specs, events).await?;
        let is_time = self.names_read_at.is_none_or(|at| now.since(at) >= NAMES_EVERY || now < at);
        if is_time || events.iter().any(|event| event.planned.is_some()) {
            let there = app.named_schedules(&*rules).await?;
            rules.iter_mut().for_each(|rule| rule.know_schedules(&there));
            self.names_read_at = Some(now);
        }
        Ok(context)
    }

    /// With what the rules remember now; all of it or nothing.
    async fn write(&mut self, app: &App, mut dispatch: Dispatch, rules: &[Rule], now: Timestamp) -> Result<Dispatched> {
        dispatch.rules = rules.iter().filter_map(|rule| rule.update(now)).collect();
        if dispatch != Dispatch::default() && app.0.store.dispatch(dispatch).await? == Dispatched::Conflict {
            return Ok(Dispatched::Conflict);
        }
        let cursors =
            rules.iter().filter_map(|rule| Some(((rule.namespace, rule.name.clone()), rule.state.late.clone()?)));
        self.cursors = cursors.collect();
        self.next_send = rules.iter().filter_map(Rule::send_at).min();
        Ok(Dispatched::Done)
    }
}
