//! Whether a worker could start agents in containers, where the settings want that.

use punctual_agent::ContainerEngine;

use super::Check;
use crate::agents::engine_fix;
use crate::config::{AgentsSettings, Config, Spawn};

const NAME: &str = "containers";

/// `None` where nobody asked for containers.
pub(super) async fn check(config: &Config) -> Option<Check> {
    let settings = match AgentsSettings::new(config) {
        Ok(settings) => settings,
        Err(error) => return Some(Check::fail(NAME, error.to_string(), "correct the setting; see `punctual config`")),
    };
    let Spawn::Container(place) = &settings.spawn else { return None };
    let engine = ContainerEngine::new(&place.socket);
    Some(match engine.check(&place.image).await {
        Ok(()) => Check::pass(NAME, format!("{} answers and has {}", place.socket.display(), place.image)),
        Err(error) => Check::fail(NAME, error.to_string(), engine_fix(&error)),
    })
}
