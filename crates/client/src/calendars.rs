//! Calendars.

use punctual_api::{CalendarList, CalendarQuery, CalendarRequest, CalendarView};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError, IfMatch};

impl Client {
    /// Stores a calendar, or replaces the dates of the one with this name.
    pub async fn put_calendar(
        &self,
        name: &str,
        calendar: &CalendarRequest,
        when: IfMatch,
    ) -> Result<CalendarView, ClientError> {
        let (request, repeat) = when.on(self.request(Method::PUT, self.at(["v1", "calendars", name])).json(calendar));
        self.ask(request, repeat).await
    }

    /// Creates or replaces a calendar from an iCalendar file.
    pub async fn put_icalendar(
        &self,
        name: &str,
        file: Vec<u8>,
        query: &CalendarQuery,
        when: IfMatch,
    ) -> Result<CalendarView, ClientError> {
        let request = self.request(Method::PUT, with_query(self.at(["v1", "calendars", name]), query));
        let (request, repeat) = when.on(request.header(CONTENT_TYPE, "text/calendar").body(file));
        self.ask(request, repeat).await
    }

    pub async fn calendar(&self, name: &str) -> Result<CalendarView, ClientError> {
        self.ask(self.get(self.at(["v1", "calendars", name])), Repeat::Safe).await
    }

    /// All of them, in order of name.
    pub async fn calendars(&self) -> Result<CalendarList, ClientError> {
        self.ask(self.get(self.at(["v1", "calendars"])), Repeat::Safe).await
    }

    /// Refused while schedules refer to it.
    pub async fn delete_calendar(&self, name: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, self.at(["v1", "calendars", name]));
        self.send(request, Repeat::Unsafe).await.map(drop)
    }
}
