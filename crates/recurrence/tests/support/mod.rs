//! A second, slow and simple implementation of what a schedule means, to compare the real one with.

pub(crate) mod compare;
pub(crate) mod generate;
pub(crate) mod oracle;
pub(crate) mod random;
pub(crate) mod table;
