//! How a place that can be made wrong asks whether it is to be.

/// Whether a bug is planted; see [`BatchBug`](crate::batch::BatchBug).
#[cfg(feature = "planted-bugs")]
macro_rules! planted {
    ($bug:ident) => {
        $crate::batch::bug::is_planted($crate::batch::BatchBug::$bug)
    };
}

/// Whether a bug is planted. Never in what is shipped, where no bug has so much as a name.
#[cfg(not(feature = "planted-bugs"))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

pub(super) use planted;
