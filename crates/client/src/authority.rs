//! The cluster's authority.

use punctual_api::{AuthorityList, RotateAuthority};

use crate::send::Repeat;
use crate::{Client, ClientError};

impl Client {
    /// The authorities that are trusted now.
    pub async fn authority(&self) -> Result<AuthorityList, ClientError> {
        self.ask(self.get(self.at(["v1", "authority"])), Repeat::Safe).await
    }

    /// Makes a new authority; the former one is trusted for a while.
    pub async fn rotate_authority(&self, request: &RotateAuthority) -> Result<AuthorityList, ClientError> {
        self.ask(self.post(self.at(["v1", "authority", "rotate"])).json(request), Repeat::Unsafe).await
    }
}
