//! Calendars: dates that schedules refer to by a name. Their owners notice changes by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join_all;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use punctual_api::{
    CalendarList, CalendarQuery, CalendarRequest, CalendarSummary, CalendarView, DoneBy, ErrorKind, limits,
};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::recurrence::Calendar;
use punctual_core::schedule::{By, StoredCalendar};
use punctual_store::{CalendarDeletion, CalendarUpdate};

use crate::principal::permission::{EditSchedules, ViewSchedules};
use crate::schedules::icalendar::{self, CalendarZone, Options, Reading, Unsupported};
use crate::schedules::request::Known;
use crate::schedules::zone::{self, parse_date, to_jiff};
use crate::{App, AppError, Checked, Faults, Precondition, Result, parameters, validate};

/// More than this, and all of them are read at once.
const READ_ONE_BY_ONE_MAX: usize = 32;

/// Others may store and delete a calendar of the same name meanwhile; whoever does that all the time is told.
const ROUNDS_MAX: usize = 8;

/// What an error about a calendar calls it.
const WHAT: &str = "calendar";

impl App {
    /// Stores a calendar, or replaces the dates of the one with this name.
    pub async fn put_calendar(
        &self,
        by: &crate::By<EditSchedules>,
        name: &str,
        request: &CalendarRequest,
        when: Precondition,
    ) -> Result<CalendarView> {
        let who = by.who();
        let mut faults = Faults::default();
        faults.check(validate::name("name", name));
        let dates = faults.value(read_dates(request)).unwrap_or_default();
        faults.finish()?;
        self.store_calendar(by.namespace(), name, dates, when, who).await
    }

    /// Stores a calendar that was sent as an iCalendar file.
    pub async fn put_icalendar(
        &self,
        by: &crate::By<EditSchedules>,
        name: &str,
        file: Vec<u8>,
        query: &CalendarQuery,
        when: Precondition,
    ) -> Result<CalendarView> {
        let who = by.who();
        let mut faults = Faults::default();
        faults.check(validate::name("name", name));
        let today = to_jiff(self.now()).to_zoned(TimeZone::UTC).date();
        let options = faults.value(options(query, today));
        faults.finish()?;
        let options = options.expect("they were read, or refused");
        // A megabyte takes some milliseconds.
        let read = tokio::task::spawn_blocking(move || icalendar::read(&file, &options)).await;
        let read = read.map_err(|_| AppError::new(ErrorKind::Internal, "the calendar could not be read"))?;
        let Reading { dates, file } = read.map_err(|fault| {
            AppError::invalid(format!("line {}: {}", fault.line, fault.detail))
                .hint("or leave out such events with skip_unsupported=true, or send the dates as JSON: {\"dates\": [\"2026-12-25\"]}")
        })?;
        let mut view = self.store_calendar(by.namespace(), name, dates, when, who).await?;
        view.file = Some(file);
        Ok(view)
    }

    async fn store_calendar(
        &self,
        namespace: NamespaceId,
        name: &str,
        dates: BTreeSet<Date>,
        when: Precondition,
        who: &str,
    ) -> Result<CalendarView> {
        // Someone else may store or delete it between the look and the change.
        for _ in 0..ROUNDS_MAX {
            let former = self.0.store.calendar(namespace, name).await?;
            let expected = when.expect(WHAT, name, former.as_ref().map(|former| former.revision))?;
            self.check_size(namespace, name, former, dates.len()).await?;
            let changed = By { at: self.now(), who: who.to_owned() };
            let calendar =
                StoredCalendar { namespace, name: name.to_owned(), dates: dates.clone(), revision: 0, changed };
            match self.0.store.put_calendar(calendar.clone(), expected).await? {
                CalendarUpdate::Done { revision } => return Ok(view(StoredCalendar { revision, ..calendar })),
                CalendarUpdate::Conflict { .. } => {}
            }
        }
        Err(Precondition::None.refusal(WHAT, name, None))
    }

    /// Whether there may be one more calendar, or one with so many dates.
    async fn check_size(
        &self,
        namespace: NamespaceId,
        name: &str,
        former: Option<StoredCalendar>,
        date_count: usize,
    ) -> Result<()> {
        if former.is_none() && self.0.store.calendars(Some(namespace)).await?.len() >= limits::CALENDARS_MAX {
            let detail = format!("there are {} calendars, the most there may be", limits::CALENDARS_MAX);
            let error = AppError::new(ErrorKind::TooManyCalendars, detail);
            return Err(error.hint("delete those that no schedule needs any more"));
        }
        if former.is_some_and(|former| former.dates.len() < date_count) {
            self.check_users(namespace, name, date_count).await?;
        }
        Ok(())
    }

    pub async fn calendar(&self, by: &crate::By<ViewSchedules>, name: &str) -> Result<CalendarView> {
        validate::name("name", name)?;
        self.0.store.calendar(by.namespace(), name).await?.map(view).ok_or_else(|| not_found(name))
    }

    /// All of them; there are not many.
    pub async fn list_calendars(&self, by: &crate::By<ViewSchedules>) -> Result<CalendarList> {
        let calendars = self.0.store.calendars(Some(by.namespace())).await?;
        let summarize = |calendar: StoredCalendar| CalendarSummary {
            date_count: calendar.dates.len(),
            first: calendar.dates.first().map(ToString::to_string),
            last: calendar.dates.last().map(ToString::to_string),
            revision: calendar.revision,
            changed: done_by(calendar.changed),
            name: calendar.name,
        };
        Ok(CalendarList { calendars: calendars.into_iter().map(summarize).collect() })
    }

    pub async fn delete_calendar(&self, by: &crate::By<EditSchedules>, name: &str, when: Precondition) -> Result<()> {
        validate::name("name", name)?;
        match self.0.store.delete_calendar(by.namespace(), name, when.revision()).await? {
            CalendarDeletion::Done => Ok(()),
            CalendarDeletion::Absent => Err(not_found(name)),
            CalendarDeletion::Conflict { revision } => Err(when.refusal(WHAT, name, Some(revision))),
            CalendarDeletion::InUse(names) => {
                let detail = format!("schedules refer to {name}: {}", names.join(", "));
                Err(AppError::new(ErrorKind::CalendarInUse, detail).hint("change or delete those schedules first"))
            }
        }
    }

    /// Those of a namespace that there are.
    pub(crate) async fn calendars_named<'a>(
        &self,
        namespace: NamespaceId,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<Known> {
        let names: BTreeSet<&String> = names.collect();
        let read: Vec<StoredCalendar> = if names.len() > READ_ONE_BY_ONE_MAX {
            self.0.store.calendars(Some(namespace)).await?
        } else {
            let reads = names.iter().map(|name| self.0.store.calendar(namespace, name));
            try_join_all(reads).await?.into_iter().flatten().collect()
        };
        let known = read.into_iter().filter(|calendar| names.contains(&calendar.name)).map(|calendar| {
            let StoredCalendar { name, dates, .. } = calendar;
            (name.clone(), Arc::new(Calendar { name, dates }))
        });
        Ok(known.collect::<BTreeMap<_, _>>())
    }
}

fn read_dates(request: &CalendarRequest) -> Result<BTreeSet<Date>> {
    if request.dates.len() > limits::CALENDAR_DATES_MAX {
        let detail = format!("must be at most {}, not {}", limits::CALENDAR_DATES_MAX, request.dates.len());
        return Err(AppError::too_long("/dates", detail).hint("leave out those long past, or make several calendars"));
    }
    let mut faults = Faults::default();
    let mut dates = BTreeSet::new();
    for (place, text) in request.dates.iter().enumerate() {
        dates.extend(faults.value(parse_date(text).ok_or_else(|| {
            let shown: String = text.chars().take(32).collect();
            AppError::field(format!("/dates/{place}"), format!("`{shown}` is not a date, such as 2026-12-25"))
        })));
        if faults.is_full() {
            break;
        }
    }
    faults.finish()?;
    Ok(dates)
}

impl Checked for CalendarRequest {
    fn check(&self) -> Result<()> {
        read_dates(self).map(drop)
    }
}

fn options(query: &CalendarQuery, today: Date) -> Result<Options> {
    let mut faults = Faults::default();
    let zone = faults.value(query.zone.as_deref().map(|name| zone::check("zone", name)).transpose()).flatten();
    let skip = faults.value(parameters::flag("skip_unsupported", query.skip_unsupported.as_deref())).flatten();
    faults.finish()?;
    let unsupported = if skip == Some(true) { Unsupported::Skip } else { Unsupported::Refuse };
    Ok(Options { zone: zone.map(|name| CalendarZone(zone::find(&name))), unsupported, today })
}

impl Checked for CalendarQuery {
    fn check(&self) -> Result<()> {
        options(self, Date::ZERO).map(drop)
    }
}

pub(crate) fn done_by(by: By) -> DoneBy {
    DoneBy { at: by.at, who: by.who }
}

fn view(calendar: StoredCalendar) -> CalendarView {
    CalendarView {
        name: calendar.name,
        dates: calendar.dates.iter().map(ToString::to_string).collect(),
        revision: calendar.revision,
        changed: done_by(calendar.changed),
        file: None,
    }
}

fn not_found(name: &str) -> AppError {
    AppError::new(ErrorKind::CalendarNotFound, format!("there is no calendar named {name}"))
        .hint("GET /v1/calendars lists them; PUT /v1/calendars/{name} makes one")
}
