//! The schedules that earlier imports with the same prefix made.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use punctual_api::limits::PAGE_LEN_MAX;
use punctual_api::{ErrorKind, ScheduleQuery, ScheduleRequest};
use punctual_client::{Client, ClientError};
use punctual_core::Span;
use punctual_core::schedule::recurrence::Rule;
use punctual_core::schedule::recurrence::crontab::CrontabEntry;

use super::line::rule_fields;
use super::name;
use crate::field_flags::in_flags;

/// When a schedule fires, so that two can be compared.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Times {
    cron: Option<String>,
    every: Option<Span>,
    zone: String,
}

impl Times {
    pub(super) fn of_entry(entry: &CrontabEntry, zone: &str) -> Self {
        let (cron, every) = rule_fields(&entry.schedule);
        Self { cron, every, zone: zone_name(entry.zone.as_deref().unwrap_or(zone)) }
    }

    /// `None` for what no line of a crontab can say.
    fn of_definition(definition: &ScheduleRequest) -> Option<Self> {
        let zone = zone_name(definition.zone.as_deref().unwrap_or("UTC"));
        match (&definition.cron, definition.every) {
            (Some(cron), None) => {
                let (cron, every) = rule_fields(&cron.parse::<Rule>().ok()?);
                Some(Self { cron, every, zone })
            }
            (None, Some(every)) => Some(Self { cron: None, every: Some(every), zone }),
            _ => None,
        }
    }
}

/// As the database of zones writes it.
fn zone_name(name: &str) -> String {
    let zone = TimeZone::get(name).ok();
    zone.as_ref().and_then(TimeZone::iana_name).unwrap_or(name).to_owned()
}

#[derive(Debug)]
pub(super) struct KnownSchedule {
    pub(super) name: String,
    /// When it fires, for people.
    pub(super) explanation: String,
    /// Told apart by this where a command has several; 0 for a name that no import gave.
    pub(super) number: usize,
    /// Read only where they matter.
    pub(super) times: Option<Times>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    /// By the part of the name that stands for a command, or empty for names that no import gave.
    by_command: BTreeMap<String, Vec<KnownSchedule>>,
}

impl Known {
    /// Reads the schedules with this prefix, and the times of those whose command is on several lines or had several.
    pub(super) async fn read(prefix: &str, entries: &[CrontabEntry], client: &Client) -> Result<Self, ClientError> {
        let mut known = Self::default();
        known.read_names(prefix, client).await?;
        let mut lines: BTreeMap<String, usize> = BTreeMap::new();
        for entry in entries {
            *lines.entry(name::digest(entry)).or_default() += 1;
        }
        for (command, schedules) in &mut known.by_command {
            let count = lines.get(command).copied().unwrap_or_default();
            // One line and one schedule belong together, whatever their times.
            if count == 0 || count + schedules.len() == 2 {
                continue;
            }
            for schedule in schedules {
                schedule.times = match client.schedule(&schedule.name).await {
                    Ok(view) => Times::of_definition(&view.definition),
                    Err(error) if error.kind() == Some(ErrorKind::ScheduleNotFound) => None,
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(known)
    }

    async fn read_names(&mut self, prefix: &str, client: &Client) -> Result<(), ClientError> {
        /// As many as one import makes, and some; each has up to 1000.
        const PAGES_MAX: usize = 10;
        let mut query = ScheduleQuery {
            prefix: Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty()),
            limit: Some(PAGE_LEN_MAX.to_string()),
            ..ScheduleQuery::default()
        };
        for _ in 0..PAGES_MAX {
            let page = client.schedules(&query).await.map_err(|error| in_flags(error, &[("prefix", "--prefix")]))?;
            for schedule in page.schedules {
                self.add(prefix, schedule.name, schedule.explanation, None);
            }
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        for schedules in self.by_command.values_mut() {
            schedules.sort_by(|one, other| (one.number, &one.name).cmp(&(other.number, &other.name)));
        }
        Ok(())
    }

    fn add(&mut self, prefix: &str, name: String, explanation: String, times: Option<Times>) {
        if !name.starts_with(prefix) {
            return;
        }
        let (command, number) = name::parts(prefix, &name).unwrap_or_default();
        let command = command.to_owned();
        self.by_command.entry(command).or_default().push(KnownSchedule { name, explanation, number, times });
    }

    /// Those of a command, in the order of their numbers.
    pub(super) fn of_command(&self, command: &str) -> Vec<&KnownSchedule> {
        self.by_command.get(command).map(|schedules| schedules.iter().collect()).unwrap_or_default()
    }

    /// Those that an import made, in the order of their names.
    pub(super) fn imported(&self) -> Vec<&KnownSchedule> {
        let schedules = self.by_command.values().flatten();
        let mut all: Vec<&KnownSchedule> = schedules.filter(|schedule| schedule.number > 0).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// With names and cron expressions, all in UTC.
    #[cfg(test)]
    pub(super) fn with(prefix: &str, schedules: &[(&str, &str)]) -> Self {
        let mut known = Self::default();
        for (name, cron) in schedules {
            let definition = ScheduleRequest { cron: Some((*cron).to_owned()), ..ScheduleRequest::default() };
            let times = Times::of_definition(&definition);
            known.add(prefix, (*name).to_owned(), String::new(), times);
        }
        known
    }
}
