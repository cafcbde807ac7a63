//! Where a server's files live, and what of that can be watched.

use super::{Check, State};
use crate::{
    storage::{self, BlockDevice, Storage},
    target::Postmaster,
};

const NEEDED: &str = "block devices that make requests: what they do is shown beside the waits for them";
const FIX: &str =
    "none where the files are on no device of this host; inside a container, run it on the host";

/// Examines the devices under a server's files. Never a reason to refuse: the waits are measured without them.
pub fn storage_check(postmaster: &Postmaster) -> Check {
    check(&storage::of_server(postmaster.pid, &postmaster.data_directory))
}

fn check(storage: &Storage) -> Check {
    let mut lines: Vec<String> = storage.devices.iter().map(device).collect();
    lines.extend(storage.notes.iter().cloned());
    let is_whole = storage.notes.is_empty();
    Check::ok("storage", lines.join("\n"), NEEDED).unless(is_whole, State::Warning, FIX)
}

/// `nvme1n1 (Amazon Elastic Block Store): data directory /data on xfs; WAL /wal on ext4 through dm-0`
fn device(device: &BlockDevice) -> String {
    let places = device.places.iter().map(|place| {
        let filesystem = place.filesystem.as_deref().unwrap_or("an unknown file system");
        let through = match place.through.is_empty() {
            true => String::new(),
            false => format!(" through {}", place.through.join(", ")),
        };
        format!("{} {} on {filesystem}{through}", place.what, place.path)
    });
    let model = device.model.as_ref().map(|model| format!(" ({model})")).unwrap_or_default();
    format!("{}{model}: {}", device.name, places.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::profile::Place;

    fn place(what: &str, path: &str, through: &[&str]) -> Place {
        Place {
            what: what.to_owned(),
            path: path.to_owned(),
            filesystem: Some("xfs".to_owned()),
            through: through.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn devices_and_what_lives_on_them() {
        let device = BlockDevice {
            name: "nvme1n1".to_owned(),
            number: (259, 1),
            partitions: Vec::new(),
            model: Some("Amazon Elastic Block Store".to_owned()),
            size_bytes: None,
            scheduler: None,
            rotational: None,
            has_requests: true,
            places: vec![place("data directory", "/data", &["dm-0"]), place("WAL", "/wal", &[])],
        };
        let storage = Storage { devices: vec![device], notes: Vec::new() };
        let whole = check(&storage);
        assert_eq!(whole.state, State::Ok);
        assert_eq!(
            whole.found,
            "nvme1n1 (Amazon Elastic Block Store): data directory /data on xfs through dm-0; WAL /wal on xfs"
        );
        let part = check(&Storage { notes: vec!["the WAL (/wal) is on tmpfs".to_owned()], ..storage });
        assert_eq!(part.state, State::Warning);
        assert!(part.found.ends_with("\nthe WAL (/wal) is on tmpfs"), "{}", part.found);
        assert!(part.fix.is_some());
    }
}
