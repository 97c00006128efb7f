//! Removes what sealed keys that are gone have left in the files of the database.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_engine::RETENTION;
use punctual_store::Store;

use crate::{Context, Duty, Next, TickError};

/// A store that has nothing to remove answers with one small statement.
const EVERY: Duration = Duration::from_secs(60);

pub struct SealedKeys {
    store: Arc<dyn Store>,
    /// What the store answered last; `None`: it is to look at everything.
    done: Option<u64>,
}

impl SealedKeys {
    pub fn new(context: &Context) -> Self {
        Self { store: Arc::clone(&context.store), done: None }
    }
}

#[async_trait]
impl Duty for SealedKeys {
    fn name(&self) -> &'static str {
        "sealed-keys"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(RETENTION)
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.done = Some(self.store.scrub_sealed_keys(self.done).await?);
        Ok(Next::After(EVERY))
    }

    fn lease_lost(&mut self) {
        self.done = None;
    }
}
