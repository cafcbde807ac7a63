//! How a command ends. Documented in docs/exit-codes.md.

use std::{io, process::ExitCode};

use crate::session::SessionError;

/// How a command ends.
#[derive(Debug)]
pub enum Exit {
    /// A result was produced (0).
    Result,
    /// Nothing useful could be measured (1).
    Nothing(String),
    /// The command line cannot be right (2).
    Usage(String),
    /// This machine, this user or this server cannot be measured as it is (3).
    Refused(String),
    /// The result could not be written (4).
    Output(String),
}

impl Exit {
    /// A failed write; a closed pipe is nobody's fault.
    pub fn from_write(what: &str, error: &io::Error) -> Exit {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Exit::Result;
        }
        Exit::Output(format!("cannot write {what}: {error}"))
    }

    /// What to say on standard error.
    pub fn message(&self) -> Option<&str> {
        match self {
            Exit::Result => None,
            Exit::Nothing(text) | Exit::Usage(text) | Exit::Refused(text) | Exit::Output(text) => Some(text),
        }
    }

    /// The process' exit code.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Result => 0,
            Exit::Nothing(_) => 1,
            Exit::Usage(_) => 2,
            Exit::Refused(_) => 3,
            Exit::Output(_) => 4,
        })
    }
}

impl From<SessionError> for Exit {
    fn from(error: SessionError) -> Exit {
        let text = chain(&error);
        match error {
            SessionError::Select(select) if select.is_usage_error() => Exit::Usage(text),
            SessionError::Select(crate::target::SelectError::Denied { .. })
            | SessionError::Target(_)
            | SessionError::Refused(_) => Exit::Refused(text),
            SessionError::Select(_) | SessionError::Other(_) => Exit::Nothing(text),
        }
    }
}

/// An error with its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}
