//! Why a run gave no profile, by who can do something about it.

use crate::target::{SelectError, TargetError};

/// Why a run gave no profile.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No server, or not one.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The server was found but cannot be read.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// This machine or this user cannot run the probes.
    #[error("{0}")]
    Refused(String),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}
