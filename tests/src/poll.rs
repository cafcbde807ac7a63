//! Waiting for a condition, with a deadline.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(2);

/// Calls `look` until it returns `Some`, at most for `limit`; fails with what was waited for.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if start.elapsed() > limit {
            bail!("waited {limit:?} in vain for {what}");
        }
        sleep(PAUSE);
    }
}
