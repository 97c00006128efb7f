//! A calendar that closes today and opens again while servers come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::schedule::recurrence::Calendar;

use crate::coverage::Window;
use crate::history::Fact;
use crate::schedules::ScheduleStep;
use crate::server::ServerStep;
use crate::simulation::{Action, Simulation};

/// Its name.
pub(crate) const CALENDAR: &str = "closed";

/// How often the owner is told of a change, in case it came too early.
const TELLINGS: u8 = 3;

/// All calendars: the one, with the day of `now` in it or not.
pub(crate) fn calendars(closed_on: Option<Timestamp>) -> BTreeMap<String, Arc<Calendar>> {
    let date = |at: Timestamp| {
        let at = jiff::Timestamp::from_microsecond(at.as_micros()).expect("it is our time");
        at.to_zoned(jiff::tz::TimeZone::UTC).date()
    };
    let dates: BTreeSet<_> = closed_on.map(date).into_iter().collect();
    BTreeMap::from([(CALENDAR.to_owned(), Arc::new(Calendar { name: CALENDAR.to_owned(), dates }))])
}

impl Simulation {
    pub(crate) fn plan_calendar(&mut self) {
        let chaos_ms = self.plan.chaos.as_micros() / 1000;
        for _ in 0..self.rng.range(0, 16) {
            let at = self.rng.millis(0, chaos_ms);
            self.after(at, Action::Schedules(ScheduleStep::Flip));
        }
    }

    pub(crate) fn flip_calendar(&mut self) {
        let is_closed = !self.store.is_closed();
        self.store.set_closed(is_closed.then_some(self.now));
        self.note(Fact::Calendar { is_closed });
    }

    /// A server looks whether calendars have changed, and reads what its schedules mean by now.
    pub(crate) fn look_at_calendars(&mut self, place: usize) {
        let changes = self.store.calendar_changes();
        let server = &mut self.servers[place];
        if server.calendar_changes_seen != changes {
            (server.calendar_changes_seen, server.calendar_tellings) = (changes, TELLINGS);
        }
        if server.calendar_tellings == 0 {
            return;
        }
        server.calendar_tellings -= 1;
        let owned = self.servers[place].owner.owned_shards();
        let rows = owned.into_iter().flat_map(|(shard, _)| self.store.schedules_with_calendars(shard)).collect();
        self.hit(Window::Replanned);
        let (node, delay) = (self.servers[place].node(), self.store_delay());
        let calendars = changes as u32;
        self.after(delay, Action::Server(node, ServerStep::Replanned { rows, calendars }));
    }

    /// Something was on its way when others were told.
    pub(crate) fn tell_calendars_again(&mut self, place: usize) {
        let server = &mut self.servers[place];
        server.calendar_tellings = server.calendar_tellings.max(1);
        self.hit(Window::CalendarMissed);
    }
}
