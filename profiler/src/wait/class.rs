//! Wait event classes: the highest byte of a `wait_event_info` word.

/// Name used where the server names no wait.
pub(super) const UNNAMED_CLASS: &str = "Unnamed";

/// LWLock class byte.
pub(super) const LWLOCK: u32 = 0x01;
/// Extension class byte.
pub(super) const EXTENSION: u32 = 0x07;

/// Class byte and name, as `pg_stat_activity.wait_event_type` shows it in PostgreSQL 14–18
/// (`src/include/utils/wait_event.h`).
pub(super) const CLASSES: &[(u32, &str)] = &[
    (LWLOCK, "LWLock"),
    (0x03, "Lock"),
    (0x04, "BufferPin"),
    (0x05, "Activity"),
    (0x06, "Client"),
    (EXTENSION, "Extension"),
    (0x08, "IPC"),
    (0x09, "Timeout"),
    (0x0A, "IO"),
    (0x0B, "InjectionPoint"),
];

/// The name of a class byte, or `None` for a class no known PostgreSQL has.
pub fn class_name(class: u32) -> Option<&'static str> {
    CLASSES.iter().find(|(byte, _)| *byte == class).map(|(_, name)| *name)
}
