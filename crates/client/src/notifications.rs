//! Notification rules, deliveries, and overdue jobs and runs.

use punctual_api::{
    DeliveryList, DeliveryQuery, NotificationList, NotificationPreview, NotificationPreviewRequest,
    NotificationRequest, NotificationView, Overdue, OverdueQuery, TestAnswer,
};
use reqwest::Method;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError, IfMatch};

impl Client {
    /// Stores a rule, or replaces the one with this name.
    pub async fn put_notification(
        &self,
        name: &str,
        rule: &NotificationRequest,
        when: IfMatch,
    ) -> Result<NotificationView, ClientError> {
        let (request, repeat) = when.on(self.request(Method::PUT, self.at(["v1", "notifications", name])).json(rule));
        self.ask(request, repeat).await
    }

    pub async fn notification(&self, name: &str) -> Result<NotificationView, ClientError> {
        self.ask(self.get(self.at(["v1", "notifications", name])), Repeat::Safe).await
    }

    /// All of them, in order of name.
    pub async fn notifications(&self) -> Result<NotificationList, ClientError> {
        self.ask(self.get(self.at(["v1", "notifications"])), Repeat::Safe).await
    }

    /// Deletes a rule, with the messages that wait to be sent by it.
    pub async fn delete_notification(&self, name: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, self.at(["v1", "notifications", name]));
        self.send(request, Repeat::Unsafe).await.map(drop)
    }

    /// Sends a sample the way the rule says, at once. Sent once.
    pub async fn test_notification(&self, name: &str) -> Result<TestAnswer, ClientError> {
        self.ask(self.post(self.at(["v1", "notifications", name, "test"])), Repeat::Unsafe).await
    }

    /// Shows what a rule would send for a sample, without storing the rule. Refused like the rule itself.
    pub async fn preview_notification(&self, rule: &NotificationRequest) -> Result<NotificationPreview, ClientError> {
        let body = NotificationPreviewRequest { rule: rule.clone() };
        self.ask(self.post(self.at(["v1", "notifications", "preview"])).json(&body), Repeat::Safe).await
    }

    /// Lists the deliveries of a rule, or of all, the latest first.
    pub async fn deliveries(&self, rule: Option<&str>, query: &DeliveryQuery) -> Result<DeliveryList, ClientError> {
        let url = match rule {
            Some(name) => self.at(["v1", "notifications", name, "deliveries"]),
            None => self.at(["v1", "deliveries"]),
        };
        self.ask(self.get(with_query(url, query)), Repeat::Safe).await
    }

    /// Lists jobs and planned times that should have started and have not.
    pub async fn overdue(&self, query: &OverdueQuery) -> Result<Overdue, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "overdue"]), query)), Repeat::Safe).await
    }
}
