//! Keys, people and sessions.

use punctual_api::{
    KeyCreated, KeyList, KeyRequest, KeyView, LoginRequest, PasswordRequest, RotateRequest, SessionCreated,
    SessionList, UserEdit, UserList, UserRequest, UserView, Whoami,
};
use reqwest::Method;

use crate::send::Repeat;
use crate::{Client, ClientError};

impl Client {
    pub async fn keys(&self) -> Result<KeyList, ClientError> {
        self.ask(self.get(self.at(["v1", "keys"])), Repeat::Safe).await
    }

    /// By its id, or the name that a valid key has.
    pub async fn key(&self, key: &str) -> Result<KeyView, ClientError> {
        self.ask(self.get(self.at(["v1", "keys", key])), Repeat::Safe).await
    }

    /// The answer has the secret.
    pub async fn create_key(&self, key: &KeyRequest) -> Result<KeyCreated, ClientError> {
        self.ask(self.post(self.at(["v1", "keys"])).json(key), Repeat::Unsafe).await
    }

    /// The answer has the secret of the new key.
    pub async fn rotate_key(&self, key: &str, request: &RotateRequest) -> Result<KeyCreated, ClientError> {
        self.ask(self.post(self.at(["v1", "keys", key, "rotate"])).json(request), Repeat::Unsafe).await
    }

    pub async fn revoke_key(&self, key: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, self.at(["v1", "keys", key])), Repeat::Unsafe).await.map(drop)
    }

    pub async fn users(&self) -> Result<UserList, ClientError> {
        self.ask(self.get(self.at(["v1", "users"])), Repeat::Safe).await
    }

    pub async fn user(&self, name: &str) -> Result<UserView, ClientError> {
        self.ask(self.get(self.at(["v1", "users", name])), Repeat::Safe).await
    }

    pub async fn create_user(&self, user: &UserRequest) -> Result<UserView, ClientError> {
        self.ask(self.post(self.at(["v1", "users"])).json(user), Repeat::Unsafe).await
    }

    pub async fn edit_user(&self, name: &str, edit: &UserEdit) -> Result<UserView, ClientError> {
        self.ask(self.request(Method::PATCH, self.at(["v1", "users", name])).json(edit), Repeat::Unsafe).await
    }

    pub async fn delete_user(&self, name: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, self.at(["v1", "users", name])), Repeat::Unsafe).await.map(drop)
    }

    pub async fn set_password(&self, name: &str, password: &PasswordRequest) -> Result<(), ClientError> {
        let request = self.request(Method::PUT, self.at(["v1", "users", name, "password"]));
        self.send(request.json(password), Repeat::Unsafe).await.map(drop)
    }

    /// The answer has the session's token.
    pub async fn login(&self, login: &LoginRequest) -> Result<SessionCreated, ClientError> {
        self.ask(self.post(self.at(["v1", "sessions"])).json(login), Repeat::Unsafe).await
    }

    pub async fn sessions(&self) -> Result<SessionList, ClientError> {
        self.ask(self.get(self.at(["v1", "sessions"])), Repeat::Safe).await
    }

    /// `current` is the one that this client uses.
    pub async fn end_session(&self, session: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, self.at(["v1", "sessions", session])), Repeat::Unsafe).await.map(drop)
    }

    /// On whose behalf this client asks.
    pub async fn whoami(&self) -> Result<Whoami, ClientError> {
        self.ask(self.get(self.at(["v1", "whoami"])), Repeat::Safe).await
    }
}
