//! What a task is given that does not say otherwise.

use std::sync::OnceLock;

use crate::time::Span;

/// The timeout and the retries of a task whose definition names none. Stored definitions name all of them, so a change
/// holds for definitions that are written after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskDefaults {
    pub timeout: Span,
    pub retries: u16,
}

/// Set once, where a server begins: a definition is read in many places, and none of them knows the server's settings.
static DEFAULTS: OnceLock<TaskDefaults> = OnceLock::new();

impl TaskDefaults {
    pub const BUILT_IN: Self = Self { timeout: Span::from_secs(20 * 60), retries: 3 };

    /// Sets the defaults of this process. Only the first call counts.
    pub fn set(self) {
        let _ = DEFAULTS.set(self);
    }

    pub(crate) fn get() -> Self {
        DEFAULTS.get().copied().unwrap_or(Self::BUILT_IN)
    }
}
