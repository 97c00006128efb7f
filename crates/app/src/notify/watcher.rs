//! Looks for what nobody tells of: jobs that wait too long, and planned times that nobody decides about.
//!
//! A look is short and can fail without harm: the next one goes on where the last one ended that was written down.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_core::{ScheduleId, Span, Timestamp};
use tokio::time::{Instant, timeout};

use super::cursor::LateLook;
use super::event::Event;
use super::event_context::EventContext;
use super::index::Index;
use super::outages::{is_outage, skip_unreadable};
use super::planned::{OverduePlan, Walk, Walked};
use super::rule::{Rule, overdue_event};
use super::scan_progress::ScanProgress;
use crate::{App, Result};

/// Schedules that are looked at in one look, and after one that took too long.
const WALK_PAGE: usize = 250;
const WALK_PAGE_SLOW: usize = 25;
/// From the begin of one walk over all schedules to the next.
const WALK_EVERY: Span = Span::from_secs(30);
/// Notices wait while the watcher looks. After the first of these no further page is read; after the second, what is
/// under way is given up.
const LOOK_SOFT_LIMIT: Duration = Duration::from_secs(1);
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// Where the watcher is. All of it can be lost.
#[derive(Clone, Default)]
pub(super) struct Watcher {
    walk: Walk,
    walk_begun_at: Option<Timestamp>,
    is_walk_slow: bool,
    /// The `late_after` that was looked for last, where there are too many for one look.
    late_turn: Option<Span>,
}

/// What one look found.
pub(super) struct Sight {
    pub(super) late: BTreeMap<Span, LateLook>,
    pub(super) walked: Option<WalkSight>,
}

/// A part of a walk, and the walk.
pub(super) struct WalkSight {
    pub(super) walk: Walk,
    /// All that were looked at.
    pub(super) seen: BTreeSet<ScheduleId>,
    pub(super) overdue: Vec<(OverduePlan, Event)>,
}

impl WalkSight {
    fn new(walk: Walk, walked: Walked, now: Timestamp) -> Self {
        let overdue = walked.overdue.into_iter().map(|plan| {
            let event = overdue_event(&plan, now);
            (plan, event)
        });
        Self { walk, seen: walked.seen.into_iter().collect(), overdue: overdue.collect() }
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.overdue.iter().map(|(_, event)| event)
    }
}

/// With what rules look up in it.
pub(super) struct IndexedSight<'a> {
    pub(super) late: BTreeMap<Span, (&'a LateLook, Index<'a>)>,
    pub(super) walked: Option<(&'a WalkSight, Index<'a>)>,
}

impl Sight {
    pub(super) fn events(&self) -> Vec<Event> {
        let late = self.late.values().flat_map(LateLook::events);
        late.chain(self.walked.iter().flat_map(WalkSight::events)).cloned().collect()
    }

    pub(super) fn index<'a>(&'a self, context: &'a EventContext) -> IndexedSight<'a> {
        let late = self.late.iter().map(|(limit, look)| (*limit, (look, Index::new(look.events(), context))));
        let walked = self.walked.as_ref().map(|walked| (walked, Index::new(walked.events(), context)));
        IndexedSight { late: late.collect(), walked }
    }
}

impl Watcher {
    pub(super) async fn look(&mut self, app: &App, rules: &[Rule], now: Timestamp) -> Result<Sight> {
        let late = self.look_for_late(app, rules, now).await?;
        let walked = self.walk_on(app, rules, now).await?;
        let walked = walked.map(|walked| WalkSight::new(self.walk.clone(), walked, now));
        Ok(Sight { late, walked })
    }

    async fn look_for_late(&mut self, app: &App, rules: &[Rule], now: Timestamp) -> Result<BTreeMap<Span, LateLook>> {
        let watching = rules.iter().filter_map(|rule| Some((rule.spec.late_after, rule.state.late.as_ref()?)));
        let limits: Vec<(Span, &ScanProgress)> =
            watching.flat_map(|(late_after, cursor)| cursor.scans(late_after)).collect();
        let deadline = Instant::now() + LOOK_SOFT_LIMIT;
        match timeout(LOOK_LIMIT, app.look_for_late(&limits, self.late_turn, now, deadline)).await {
            Ok(looks) => {
                let (looks, turn) = looks?;
                self.late_turn = turn;
                Ok(looks)
            }
            Err(_) => {
                tracing::debug!("a look for late jobs took too long");
                Ok(BTreeMap::new())
            }
        }
    }

    /// Goes on with the walk over all schedules, if any rule wants to know of overdue times.
    async fn walk_on(&mut self, app: &App, rules: &[Rule], now: Timestamp) -> Result<Option<Walked>> {
        let Some(overdue_after) = rules.iter().filter_map(Rule::overdue_after).min() else { return Ok(None) };
        let until = now - overdue_after;
        if self.walk.is_over() {
            if self.walk_begun_at.is_some_and(|begun| begun <= now && now.since(begun) < WALK_EVERY) {
                return Ok(None);
            }
            self.walk = skip_unreadable(app.begin_walk(until).await)?;
            self.walk_begun_at = Some(now);
            let told: BTreeSet<ScheduleId> = rules.iter().flat_map(|rule| rule.state.overdue.keys().copied()).collect();
            let gone = app.gone_schedules(told).await?;
            return Ok(Some(Walked { overdue: Vec::new(), seen: gone }));
        }
        let mut walk = self.walk.clone();
        let page = if self.is_walk_slow { WALK_PAGE_SLOW } else { WALK_PAGE };
        let walked = timeout(LOOK_LIMIT, app.walk(None, &mut walk, until, page, page)).await;
        self.is_walk_slow = walked.is_err();
        match walked {
            Ok(Ok(walked)) => {
                self.walk = walk;
                Ok(Some(walked))
            }
            Ok(Err(error)) if is_outage(&error) => Err(error),
            Ok(Err(_)) => {
                // What cannot be read there must not hide the other shards.
                self.walk.leave_shard();
                Ok(None)
            }
            Err(_) => Ok(None),
        }
    }
}
