//! What is accepted and will probably not work.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The request was carried out, and something has to be done before it has an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Warning {
    /// Stable, for programs: `no_worker`, `plain_text_credential`.
    #[schema(example = "no_worker")]
    pub code: String,
    /// For people, with the next step.
    #[schema(example = "no connected worker runs commands; start one with `punctual worker --allow-commands`")]
    pub detail: String,
}

impl Warning {
    /// No connected worker can run the job: it waits until one connects that can.
    pub const NO_WORKER: &str = "no_worker";
    /// A definition holds what looks like a password, a token or a key.
    pub const PLAIN_TEXT_CREDENTIAL: &str = "plain_text_credential";
}
