//! How a place that can be made wrong asks whether it is to be.

/// Whether a bug is planted; see [`Bug`](crate::shard::Bug).
#[cfg(feature = "planted-bugs")]
macro_rules! planted {
    ($config:expr, $bug:ident) => {
        $config.bug == Some($crate::shard::Bug::$bug)
    };
}

/// Whether a bug is planted. Never in what is shipped, where no bug has so much as a name.
#[cfg(not(feature = "planted-bugs"))]
macro_rules! planted {
    ($config:expr, $bug:ident) => {
        $crate::shard::planted::never(&$config)
    };
}

#[cfg(not(feature = "planted-bugs"))]
pub(super) const fn never(_: &crate::shard::Config) -> bool {
    false
}

pub(super) use planted;
