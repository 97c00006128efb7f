//! What stored definitions mean, for a page of them. Equal specs share one plan.

use std::collections::HashMap;
use std::sync::Arc;

use punctual_core::schedule::{Plan, PlanError, ScheduleRow, seed_of};

use crate::schedules::request::Known;

type Made = std::result::Result<Arc<Plan>, PlanError>;

pub(crate) struct Plans<'a> {
    calendars: &'a Known,
    made: HashMap<Arc<str>, Made>,
}

impl<'a> Plans<'a> {
    pub(crate) fn new(calendars: &'a Known) -> Self {
        Self { calendars, made: HashMap::new() }
    }

    pub(crate) fn get(&mut self, row: &ScheduleRow) -> Made {
        let spec = &row.edit.spec;
        let made = self.made.entry(Arc::clone(spec));
        let plan = made.or_insert_with(|| Plan::read_shared(spec, self.calendars).map(Arc::new)).clone()?;
        plan.check(seed_of(&row.name))?;
        Ok(plan)
    }
}
