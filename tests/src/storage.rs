//! Volumes for the tests, and the kernel's own account of a block device: the second source besides the volume's log.

use std::{fs, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};

use crate::{
    environment::{Scratch, pgstall_volume},
    gate,
    volume::{
        owner::Volume,
        serve::Plan,
        shape::{Operation, Shape},
    },
};

/// An empty volume as fast as it can be, with a log; its mount point and log lie in `scratch`.
pub fn volume(scratch: &Scratch, name: &str, size_mib: u64) -> Result<Arc<Volume>> {
    let plan = Plan {
        at: scratch.path().join(name),
        size_bytes: size_mib << 20,
        shape: Shape::default(),
        log: Some(scratch.path().join(format!("{name}.log"))),
    };
    Ok(Arc::new(Volume::start(&pgstall_volume()?, &plan)?))
}

/// Whether this host lets a test have a volume. Prints the reason if not.
pub fn possible() -> bool {
    if !gate::root() {
        return false;
    }
    let missing = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|path| fs::metadata(path).is_err());
    if let Some(path) = missing {
        gate::skip(&format!("an emulated volume needs {path}: modprobe fuse loop"));
    }
    missing.is_none()
}

/// The kernel's account of one kind of request, `/sys/block/NAME/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Requests completed.
    pub count: u64,
    /// Their time from start to completion, all together; the kernel counts whole milliseconds.
    pub time: Duration,
}

impl Account {
    /// Reads it.
    pub fn of(device: &str, operation: Operation) -> Result<Account> {
        let path = format!("/sys/block/{device}/stat");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        let fields: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        // Documentation/admin-guide/iostats.rst; flushes since Linux 5.5.
        let (count, time) = match operation {
            Operation::Read => (0, 3),
            Operation::Write => (4, 7),
            Operation::Flush => (15, 16),
        };
        let field = |at: usize| fields.get(at).copied().with_context(|| format!("{path} has no field {at}"));
        Ok(Account { count: field(count)?, time: Duration::from_millis(field(time)?) })
    }

    /// What was added since `earlier`.
    pub fn since(self, earlier: Account) -> Account {
        Account { count: self.count - earlier.count, time: self.time - earlier.time }
    }

    /// Mean time, ns; `None` where there were no requests.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.time.as_nanos() as f64 / self.count as f64)
    }
}
