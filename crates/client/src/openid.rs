//! Logging in at a provider of OpenID Connect.

use punctual_api::{
    BrowserLoginQuery, DeviceLogin, DevicePending, DevicePollRequest, DeviceStatus, LoginExchange, SessionCreated,
};
use reqwest::StatusCode;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError};

/// What became of a login by device code so far.
#[derive(Debug, Clone, PartialEq)]
pub enum DevicePolled {
    Waiting(DeviceStatus),
    Done(Box<SessionCreated>),
}

impl Client {
    /// The address for a browser to begin at.
    pub fn browser_login_address(&self, query: &BrowserLoginQuery) -> String {
        with_query(self.at(["v1", "login", "oidc", "start"]), query).into()
    }

    /// The session for the code that the browser brought.
    pub async fn exchange_login(&self, exchange: &LoginExchange) -> Result<SessionCreated, ClientError> {
        self.ask(self.post(self.at(["v1", "login", "oidc", "exchange"])).json(exchange), Repeat::Unsafe).await
    }

    pub async fn begin_device_login(&self) -> Result<DeviceLogin, ClientError> {
        self.ask(self.post(self.at(["v1", "login", "oidc", "device"])), Repeat::Unsafe).await
    }

    /// Asks once.
    pub async fn poll_device_login(&self, request: &DevicePollRequest) -> Result<DevicePolled, ClientError> {
        let url = self.at(["v1", "login", "oidc", "device", "poll"]);
        let response = self.send(self.post(url).json(request), Repeat::Unsafe).await?;
        if response.status() == StatusCode::ACCEPTED {
            return self.read::<DevicePending>(response).await.map(|pending| DevicePolled::Waiting(pending.status));
        }
        self.read(response).await.map(|session| DevicePolled::Done(Box::new(session)))
    }
}
