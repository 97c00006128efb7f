//! Calendars.

use punctual_api::{CalendarList, CalendarQuery, CalendarRequest, CalendarView};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError};

impl Client {
    /// Stores a calendar, or replaces the dates of the one with this name.
    pub async fn put_calendar(&self, name: &str, calendar: &CalendarRequest) -> Result<CalendarView, ClientError> {
        self.ask(self.request(Method::PUT, self.at(["v1", "calendars", name])).json(calendar), Repeat::Safe).await
    }

    /// Creates or replaces a calendar from an iCalendar file.
    pub async fn put_icalendar(
        &self,
        name: &str,
        file: Vec<u8>,
        query: &CalendarQuery,
    ) -> Result<CalendarView, ClientError> {
        let request = self.request(Method::PUT, with_query(self.at(["v1", "calendars", name]), query));
        self.ask(request.header(CONTENT_TYPE, "text/calendar").body(file), Repeat::Safe).await
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
