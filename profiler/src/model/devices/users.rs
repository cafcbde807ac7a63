//! Who asked for a device's requests.

use std::collections::BTreeMap;

use profiler_common::block::{UserTotals, user};

use super::sums::DeviceSums;
use crate::model::{profile::DeviceUser, statements::share};

/// The name of a user by index; `None` where it was not seen. `backend_type` names the server's types by number.
pub fn user_name(index: u32, backend_type: &dyn Fn(u32) -> Option<String>) -> Option<String> {
    let kernel = match index {
        user::UNKNOWN => return None,
        user::OTHER_PROCESS => return Some("other processes".to_owned()),
        user::KERNEL => "other threads",
        user::JBD2 => "jbd2",
        user::KWORKER => "kworker",
        user::WRITEBACK => "writeback",
        user::LOOP => "loop",
        user::KSWAPD => "kswapd",
        user::XFS => "xfs",
        user::MD => "md",
        user::DMCRYPT => "dmcrypt",
        _ => return index.checked_sub(user::BACKEND_TYPE).and_then(backend_type),
    };
    Some(format!("kernel: {kernel}"))
}

/// The users, the most device time first; those of one name together.
pub(super) fn users(sums: &DeviceSums, name_of: &dyn Fn(u32) -> Option<String>) -> Vec<DeviceUser> {
    let mut by_name: BTreeMap<Option<String>, UserTotals> = BTreeMap::new();
    for (index, totals) in &sums.users {
        by_name.entry(name_of(*index)).or_default().merge(totals);
    }
    let mut by_name: Vec<_> = by_name.into_iter().collect();
    by_name.sort_by_key(|(_, totals)| std::cmp::Reverse((totals.device_ns, totals.flushes)));
    let all_ns = sums.device_ns();
    let users = by_name.into_iter().map(|(user, totals)| DeviceUser {
        user,
        reads: totals.reads,
        read_bytes: totals.read_bytes,
        writes: totals.writes,
        write_bytes: totals.write_bytes,
        flushes: totals.flushes,
        share: share(totals.device_ns, all_ns),
    });
    users.collect()
}
