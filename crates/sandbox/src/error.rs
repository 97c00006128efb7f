//! Why a program was not started.

use std::io;

use thiserror::Error;

/// Why a program was not started. Nothing was executed, except as described at [`LaunchError::LauncherLost`].
#[derive(Debug, Error)]
pub enum LaunchError {
    /// A required protection is missing on this machine.
    #[error("this machine cannot isolate programs well enough: {}", .missing.join("; "))]
    BelowRequired { missing: Vec<String> },
    #[error("{0}")]
    Invalid(&'static str),
    #[error("cannot execute the program")]
    Execute(#[source] io::Error),
    #[error("cannot {step}")]
    Setup {
        step: &'static str,
        #[source]
        cause: io::Error,
    },
    /// The memory that the program may use was not even enough to build its sandbox.
    #[error("cannot build the sandbox within the program's limits; allow more memory")]
    LimitsTooTight,
    #[error("cannot start the sandbox launcher")]
    Launcher(#[source] io::Error),
    /// The program may have begun; it is gone now.
    #[error("the sandbox launcher died while it started the program")]
    LauncherLost,
}
